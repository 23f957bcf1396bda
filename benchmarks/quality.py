"""What each technique gives: error rates of many short fine-tuning runs, with several seeds.

    python -m benchmarks.quality FOLDER [--seeds 3] [--upstream CHECKOUT] [--arm NAME ...]

A tiny model is trained once on synthetic Swedish, Norwegian and German, then fine-tuned on a little
Danish: by this recipe with its defaults ("ours"), with each technique alone added to them, and,
given a checkout of omnilingual-asr, by upstream's recipe. All take the same number of steps on the
same data, unless their name says otherwise. The best checkpoint by dev counts, as in any run.
``noisy`` is the test set with voices in the background, 20 dB below.

Every run goes through its recipe's entry point, in a process of its own with one thread. An
interrupted command continues: finished runs stay in FOLDER. The table has the differences and
intervals of ``danish-asr compare`` over all seeds, and what a training took.
"""

import argparse
import json
import os
import re
import resource
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks import speech as data
from danish_asr.base.files import publish_text
from danish_asr.base.schema import SAMPLE_RATE, STATISTICS_FILE
from danish_asr.cli.upstream import run_as_upstream
from danish_asr.scoring.compare import compare_runs
from danish_asr.scoring.predictions import Prediction, read_predictions

OURS: Final = "ours"
UPSTREAM: Final = "upstream's recipe"
RESULT: Final = "result.json"
"""What a finished run has used: ``cpu_seconds`` (null if it was interrupted), ``audio_seconds``."""

SETS: Final = {
    "dev": ("dev,test", "dev"),
    "test": ("dev,test", "test"),
    "noisy": ("test/noisy", "test"),
}
"""Where the predictions of each set are in a run's ``eval/best``, and its split."""

STEPS: Final = 200
LR: Final = 2e-3
MASKING: Final = "masking={time: 0.2, channel: 0.1, channel_span: 10}"
_TASK: Final = "dataset.asr_task_config"


def schedule(steps: int, validations: int = 5) -> tuple[str, ...]:
    """The overrides for a number of steps, validated and saved at equal distances."""
    every = steps // validations
    kinds = ("validate", "checkpoint")
    return f"regime.num_steps={steps}", *(f"regime.{kind}_every_n_steps={every}" for kind in kinds)


ARMS: Final[dict[str, tuple[str, ...]]] = {
    OURS: (),
    "no shuffling (windows of 1)": (
        f"{_TASK}.example_shuffle_window=1",
        f"{_TASK}.batch_shuffle_window=1",
    ),
    "no gradient clipping": ("trainer.max_grad_norm=null",),
    "learning rate x 2": (f"optimizer.config.lr={2 * LR}",),
    "learning rate / 2": (f"optimizer.config.lr={LR / 2}",),
    "masking 0.2, channels 0.1": (MASKING,),
    "masking 0.5, channels 0.25": ("masking={time: 0.5, channel: 0.25, channel_span: 10}",),
    "speed 0.9, 1.0, 1.1": ("dataset.speed_factors=[0.9, 1.0, 1.1]",),
    "SpecAugment": (f"{_TASK}.spec_aug_p=0.5",),
    "rooms": ("dataset.transforms=[{name: reverb, probability: 0.5, folder: ROOMS}]",),
    "model.head: danish": ("model.head=danish",),
    "gradual unfreezing": (
        f"trainer.unfreeze={{0: head, {STEPS // 8}: top 1, {STEPS // 4}: all}}",
    ),
    "twice the batch, half the steps": (
        "trainer.grad_accumulation.num_batches=2",
        *schedule(STEPS // 2),
    ),
    "4 x the steps": schedule(4 * STEPS),
    "4 x the steps + masking 0.2": (MASKING, *schedule(4 * STEPS)),
}


def main() -> None:
    """Make the data, train what is missing, print and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    text = "a checkout of github.com/facebookresearch/omnilingual-asr, to run its recipe too"
    parser.add_argument("--upstream", type=Path, help=text)
    parser.add_argument("--arm", action="append", choices=ARMS, help="only this, beside ours")
    args = parser.parse_args()
    folder = args.folder.resolve()
    names = ("", data.PRETRAINING, data.DANISH, data.NOISY, "pretrained")
    os.environ["DANISH_ASR_ASSETS"] = os.pathsep.join(str(folder / n / "cards") for n in names)
    prepare(folder)
    arms = [arm for arm in ARMS if arm == OURS or arm in (args.arm or ARMS)]
    if args.upstream:
        arms.insert(1, UPSTREAM)
    for seed in range(1, args.seeds + 1):
        for arm in arms:
            fine_tune(folder, arm, seed, args.upstream)
        report(folder, [OURS, UPSTREAM, *ARMS])


def prepare(folder: Path) -> None:
    """Make what is missing of the datasets and the pretrained model."""
    data.write_rooms(folder / "rooms")
    data.write_tokenizer(folder / "cards")
    for name in (data.PRETRAINING, data.DANISH, data.NOISY):
        if not (folder / name / "manifest.json").is_file():
            in_process(folder / f"{name}.log", data.make_dataset, folder, name)
    model = folder / "pretrained"
    if not (model / "cards").is_dir():
        given = (
            *("model.arch=tiny", f"dataset.name={data.PRETRAINING}"),
            *("optimizer.config.lr=2e-3", *schedule(1_000)),
        )
        in_process(folder / "pretrained.log", run_as_upstream, "train", command(model, *given))


def command(run: Path, *given: str) -> list[str]:
    """The command line of any recipe, on one thread of a CPU."""
    return [
        *(str(run), "--config", f"tokenizer.name={data.TOKENIZER}"),
        *("dataset.storage_mode=MIXTURE_PARQUET", f"{_TASK}.normalize_audio=true"),
        *(f"{_TASK}.max_audio_len=160000", f"{_TASK}.max_num_elements=480000"),
        *('trainer.mixed_precision.mode="off"', "trainer.grad_accumulation.num_batches=1"),
        *("common.torch.num_threads=1", "common.no_sweep_dir=true"),
        *("regime.validate_after_n_steps=0", "regime.publish_metrics_every_n_steps=20"),
        *given,
    ]


def fine_tune(folder: Path, arm: str, seed: int, checkout: Path | None) -> None:
    """Train and evaluate one run, unless it is finished."""
    run = run_of(folder, arm, seed)
    if (run / RESULT).is_file():
        return
    print(f"{arm}, seed {seed}", flush=True)
    begins, log = not run.exists(), run.with_suffix(".log")
    given = command(
        run,
        *("model.name=pretrained", f"dataset.name={data.DANISH}", f"common.seed={seed}"),
        *(f"optimizer.config.lr={LR}", *schedule(STEPS)),
    )
    if arm == UPSTREAM:
        summary = folder / data.DANISH / STATISTICS_FILE
        cpu = in_process(log, train_upstream, checkout, summary, given)
    else:
        changes = [each.replace("ROOMS", str(folder / "rooms")) for each in ARMS[arm]]
        cpu = in_process(log, run_as_upstream, "train", [*given, *changes])
    given += ["evaluator.amp=false", "evaluator.split=dev,test"]
    in_process(log, run_as_upstream, "evaluate", given)
    noisy = (f"dataset.name={data.NOISY}", "evaluator.split=test", "evaluator.label=noisy")
    in_process(log, run_as_upstream, "evaluate", [*given, *noisy])
    lines = (run / "metrics" / "train.jsonl").read_text().splitlines()
    # Upstream has no count of the audio alone; in it, the text is one in a thousand.
    names = ("Number of Source Elements", "Number of Elements")
    read = [next(row[n] for n in names if n in row) for row in map(json.loads, lines)]
    # A run that was interrupted has used more than its last process.
    result = {"cpu_seconds": cpu if begins else None, "audio_seconds": sum(read) / SAMPLE_RATE}
    for needless in ("checkpoints", "cache", "tb"):
        shutil.rmtree(run / needless, ignore_errors=True)
    publish_text(run / RESULT, json.dumps(result))


def train_upstream(checkout: Path, summary: Path, given: Sequence[str]) -> None:
    """Run the recipe of a checkout: float32 and its ``ctc-finetune.yaml`` below what is given."""
    from fairseq2.recipe.cli import train_main

    recipe = upstream_recipe(checkout)
    config = Path(recipe.__file__ or "").parent / "configs" / "ctc-finetune.yaml"
    sys.argv = [
        *("upstream", "--config-file", str(config), *given),
        "trainer.mixed_precision.dtype=torch.float32",
        f"dataset.mixture_parquet_storage_config.dataset_summary_path={summary}",
    ]
    train_main(recipe.Wav2Vec2AsrRecipe())


def in_process(log: Path, work: Callable[..., object], *arguments: object) -> float:
    """Call a function in a process of its own, its output in a file; return its CPU seconds."""
    log.parent.mkdir(parents=True, exist_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = get_context("fork").Process(target=_logged, args=(log, work, arguments))
    child.start()
    child.join()
    if child.exitcode:
        raise SystemExit(f"{work.__module__} ended with status {child.exitcode}; see {log}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _logged(log: Path, work: Callable[..., object], arguments: Sequence[object]) -> None:
    with log.open("ab") as stream:
        for descriptor in (1, 2):
            os.dup2(stream.fileno(), descriptor)
    work(*arguments)


def upstream_recipe(checkout: Path) -> Any:
    """Import upstream's training recipe; ``workflows`` is then the checkout's in this process."""
    # On the path it would lose against the one here, which is a regular package.
    package = ModuleType("workflows")
    package.__path__ = [str(checkout / "workflows")]
    sys.modules["workflows"] = package
    return import_module("workflows.recipes.wav2vec2.asr.recipe")


def run_of(folder: Path, arm: str, seed: int) -> Path:
    """The directory of a run."""
    return folder / "runs" / re.sub(r"\W+", "-", arm).strip("-") / f"seed_{seed}"


def report(folder: Path, arms: Sequence[str]) -> None:
    """Print WER in % of the finished runs, and differences to ours, or to what is before ``+``."""
    table = Table("arm", "seeds", *(f"{name}, difference" for name in SETS), "CPU", "audio")
    for arm in dict.fromkeys(arms):
        baseline = arm.rpartition(" + ")[0] or OURS
        seeds = [
            seed
            for seed in range(1, 100)
            if all((run_of(folder, name, seed) / RESULT).is_file() for name in (arm, baseline))
        ]
        if seeds:
            cells = [compared(folder, baseline, arm, seeds, part) for part in SETS]
            table.add_row(arm, str(len(seeds)), *cells, *used(folder, arm, seeds))
    Console(width=160).print(table)


def compared(folder: Path, baseline: str, arm: str, seeds: Sequence[int], part: str) -> str:
    """An arm's WER on a set, and its difference to the baseline with a 95 % interval."""
    runs = {
        name: {f"{name} {seed}": predictions(folder, of, seed, part) for seed in seeds}
        for name, of in (("baseline", baseline), ("arm", arm))
    }
    line = compare_runs(runs, by=()).table.iloc[1]
    text = f"{100 * line['wer']:.1f}"
    if arm != baseline:
        low, high = 100 * line["wer_low"], 100 * line["wer_high"]
        text += f"  {100 * line['wer_difference']:+.1f} ({low:+.1f} to {high:+.1f})"
    return text


def predictions(folder: Path, arm: str, seed: int, part: str) -> Iterator[Prediction]:
    """The rows of a run in one of ``SETS``."""
    place, split = SETS[part]
    file = run_of(folder, arm, seed) / "eval" / "best" / place / "predictions.jsonl"
    return (row for row in read_predictions(file) if row.split == split)


def used(folder: Path, arm: str, seeds: Sequence[int]) -> Iterator[str]:
    """CPU time and audio of an arm's runs, as a multiple of ours with the same seeds."""
    of_arm, of_ours = (
        [json.loads((run_of(folder, name, seed) / RESULT).read_text()) for seed in seeds]
        for name in (arm, OURS)
    )
    for what in ("cpu_seconds", "audio_seconds"):
        values = [run[what] for run in (*of_arm, *of_ours)]
        ratio = (
            sum(run[what] for run in of_arm) / sum(run[what] for run in of_ours)
            if all(values)
            else None
        )
        yield f"{ratio:.2f}" if ratio else ""


if __name__ == "__main__":
    main()
