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
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, Final

import numpy as np
import pandas as pd
import soundfile
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from danish_asr.base.files import publish, publish_text, to_yaml
from danish_asr.base.schema import SAMPLE_RATE, STATISTICS_FILE
from danish_asr.cli.upstream import run_as_upstream
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources.synthetic import draw_sentence, speak
from danish_asr.corpus.sources.voices import DIALECT_VOICES, Espeak, SyntheticSpeaker, draw_speaker
from danish_asr.scoring.compare import compare_runs
from danish_asr.scoring.predictions import read_predictions
from danish_asr.text.profiles import normalize

OURS: Final = "ours"
UPSTREAM: Final = "upstream's recipe"
RESULT: Final = "result.json"
"""What a finished run has used: ``cpu_seconds`` (null if it was interrupted), ``audio_seconds``."""

SETS: Final = {
    "dev": ("dev,test", "dev"),
    "test": ("dev,test", "test"),
    "noisy": ("test@noisy/noisy", "test"),
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
    names = ("", PRETRAINING, DANISH, NOISY, "pretrained")
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
    write_rooms(folder / "rooms")
    write_tokenizer(folder / "cards")
    for name in (PRETRAINING, DANISH, NOISY):
        if not (folder / name / "manifest.json").is_file():
            in_process(folder / f"{name}.log", make_dataset, folder, name)
    model = folder / "pretrained"
    if not (model / "cards").is_dir():
        given = (
            *("model.arch=tiny", f"dataset.name={PRETRAINING}"),
            *("optimizer.config.lr=2e-3", *schedule(1_000)),
        )
        in_process(folder / "pretrained.log", run_as_upstream, "train", command(model, *given))


def command(run: Path, *given: str) -> list[str]:
    """The command line of any recipe, on one thread of a CPU."""
    return [
        *(str(run), "--config", f"tokenizer.name={TOKENIZER}"),
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
        *("model.name=pretrained", f"dataset.name={DANISH}", f"common.seed={seed}"),
        *(f"optimizer.config.lr={LR}", *schedule(STEPS)),
    )
    if arm == UPSTREAM:
        summary = folder / DANISH / STATISTICS_FILE
        cpu = in_process(log, train_upstream, checkout, summary, given)
    else:
        changes = [each.replace("ROOMS", str(folder / "rooms")) for each in ARMS[arm]]
        cpu = in_process(log, run_as_upstream, "train", [*given, *changes])
    given += ["evaluator.amp=false", "evaluator.split=dev,test"]
    in_process(log, run_as_upstream, "evaluate", given)
    noisy = (f"dataset.name={NOISY}", "evaluator.split=test", "evaluator.label=noisy")
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


def predictions(folder: Path, arm: str, seed: int, part: str) -> pd.DataFrame:
    """The rows of a run in one of ``SETS``."""
    place, split = SETS[part]
    file = run_of(folder, arm, seed) / "eval" / "best" / place / "predictions.jsonl"
    rows = read_predictions(file)
    return rows[rows["split"] == split].reset_index(drop=True)


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


Wave = NDArray[np.float32]

WORDS: Final = {
    "sv": "jag du han hon vi inte och men som på från till under över mellan hus dörr fönster bord "
    "stol bil väg skog sjö fjäll sten blomma träd äpple päron bröd smör ost mjölk vatten katt hund "
    "häst ko fågel fisk barn flicka pojke kvinna man vän skola bok penna läser skriver äter "
    "dricker sover springer köper säljer röd blå grön gul svart vit stor liten gammal ny vacker "
    "fem sex sju åtta nio tio tjugo hundra kväll morgon sommar vinter yxa quiz zebra webb",
    "nb": "jeg du han hun vi ikke og men som på fra til under over mellom hus dør vindu bord stol "
    "bil vei skog sjø fjell stein blomst tre eple pære brød smør ost melk vann katt hund hest ku "
    "fugl fisk barn jente gutt kvinne mann venn skole bok penn leser skriver spiser drikker sover "
    "løper kjøper selger rød blå grønn gul svart hvit stor liten gammel ny vakker fem seks sju "
    "åtte ni ti tjue hundre kveld morgen sommer vinter øks ære første været håper taxi",
    "de": "ich du er sie wir nicht und aber wie auf von nach unter über zwischen haus tür fenster "
    "tisch stuhl auto weg wald see berg stein blume baum apfel birne brot butter käse milch wasser "
    "katze hund pferd kuh vogel fisch kind mädchen junge frau mann freund schule buch stift liest "
    "schreibt isst trinkt schläft läuft kauft verkauft rot blau grün gelb schwarz weiß groß klein "
    "alt neu schön fünf sechs sieben acht neun zehn zwanzig hundert abend morgen sommer quelle",
}
LETTERS: Final = "abcdefghijklmnopqrstuvwxyzæøåéü"
UNUSED: Final = "".join(chr(0x4E00 + number) for number in range(1000))
"""Symbols that no text has, as most of omniASR's 9,812."""

PRETRAINING: Final = "pretraining"
DANISH: Final = "danish"
NOISY: Final = "noisy"
TOKENIZER: Final = "quality_char"

_SIZES: Final = {
    PRETRAINING: {"train": (60, 40), "dev": (12, 2)},
    DANISH: {"train": (12, 20), "dev": (20, 4), "test": (40, 6)},
}
"""Speakers of a split and rows of each; of pretraining per language."""


def write_tokenizer(folder: Path) -> None:
    """Write the tokenizer of all datasets and its card."""
    model = f"{TOKENIZER}.model"
    with publish(folder / model) as stream:
        stream.write(build_char_tokenizer(LETTERS + UNUSED))
    card = {"name": TOKENIZER, "tokenizer_family": "char_tokenizer", "tokenizer": model}
    publish_text(folder / f"{TOKENIZER}.yaml", to_yaml(card))


def write_rooms(folder: Path) -> None:
    """Write impulse responses: noise that fades within 0.1 to 0.5 s, after the direct sound."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(8):
        random = np.random.default_rng(number)
        fading = np.exp(-np.linspace(0, 7, random.integers(1_600, 8_000)))
        response = 0.1 * random.standard_normal(len(fading)) * fading
        response[0] = 0.5
        soundfile.write(folder / f"{number}.wav", response, 16_000)


def make_dataset(folder: Path, name: str) -> None:
    """Speak a dataset's sentences and convert them; eSpeak NG needs a new process for each.

    ``NOISY`` is the test split of ``DANISH`` with three voices in the background, 20 dB below.
    """
    source = folder / f"{name}.source"
    source.mkdir(exist_ok=True)
    espeak, rows = Espeak(), list[dict[str, str]]()
    background = deque([np.zeros(1, np.float32)], maxlen=3)
    for text, split, speaker in _utterances(name):
        wave = espeak.speak(text, speaker)
        noise = np.random.default_rng(len(rows)).standard_normal(len(wave), np.float32)
        mixture = _mixed(wave, noise, speaker.noise_db)
        if name == NOISY:
            voices = np.sum([np.resize(each, len(wave)) for each in background], axis=0)
            mixture = _mixed(mixture, voices, 20.0)
        background.append(wave)
        file = f"{len(rows)}.flac"
        soundfile.write(source / file, 0.5 * mixture / np.abs(mixture).max(), espeak.sample_rate)
        given = {"speaker_id": speaker.row["id_speaker"], "dialect": speaker.row["dialect"]}
        written = normalize(text.replace("ß", "ss"), "coral")
        rows.append({"audio_filepath": file, "text": written, "split": split, **given})
    kept = [json.dumps(row) for row in rows if name != NOISY or row["split"] == "test"]
    publish_text(source / "rows.jsonl", "\n".join(kept))
    convert(source / "rows.jsonl", folder / name, ConvertOptions(name=name))
    shutil.rmtree(source)


def _utterances(name: str) -> Iterator[tuple[str, str, SyntheticSpeaker]]:
    """Yield texts with split and speaker, the rows of a speaker one after the other."""
    random = Random("quality")  # noqa: S311 - not for cryptography
    shares = {dialect: voice.share for dialect, voice in DIALECT_VOICES.items()}
    for language in WORDS if name == PRETRAINING else ["da"]:
        for split, (speakers, rows) in _SIZES.get(name, _SIZES[DANISH]).items():
            for number in range(speakers):
                dialect = random.choices(list(shares), list(shares.values()))[0]
                speaker = draw_speaker(random, f"{language}-{split}-{number}", dialect, None)
                if language != "da":
                    variant = speaker.voice.partition("+")[2]
                    speaker = replace(speaker, voice=f"{language}+{variant}")
                for _ in range(rows):
                    yield _text(random, language, split), split, speaker


def _text(random: Random, language: str, split: str) -> str:
    """Draw the text of an utterance of about 4 s."""
    if language == "da":
        kinds = (random.random() < 0.25 for _ in range(2))
        return " ".join(speak(draw_sentence(random, split, conversation=kind)) for kind in kinds)
    words = WORDS[language].split()
    sizes = (1 + (random.random() < 0.3) for _ in range(random.randint(5, 9)))
    return " ".join("".join(random.sample(words, size)) for size in sizes)


def _mixed(wave: Wave, other: NDArray[Any], ratio_db: float) -> Wave:
    levels = [float(np.sqrt(np.mean(np.square(each)))) for each in (wave, other)]
    return wave + (levels[0] / max(levels[1], 1e-9) * 10 ** (-ratio_db / 20) * other)


if __name__ == "__main__":
    main()
