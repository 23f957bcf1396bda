"""Processor time of a training step, beside upstream's own recipe on the same dataset.

    python -m benchmarks.quality_step CHECKOUT [--demo demo] [--arch 300m] [--steps 100]

CHECKOUT is a clone of github.com/facebookresearch/omnilingual-asr. Both recipes train the demo's
model on the demo's dataset, on one thread of a CPU, with the same sizes of batches, clipping,
frozen feature extractor and reports. A step is what a run of STEPS more takes longer than one of a
single step: data, model, optimizer, bookkeeping and ten reports, without the start. A validation of
dev is half of what a run with two of them takes longer. ``--arch`` takes random weights instead,
and no validation: upstream's fails where the model writes nothing. The recipes alternate.
"""

import argparse
import os
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
from fairseq2.data.tokenizers.char import load_char_tokenizer
from fairseq2.device import CPU
from fairseq2.gang import create_fake_gangs

from benchmarks.quality import command, in_process, train_upstream
from danish_asr.base.files import to_yaml
from danish_asr.base.schema import CARDS_DIR, STATISTICS_FILE
from danish_asr.cli.upstream import run_as_upstream
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.models.cards import Assets

RECIPES: Final = ("upstream", "ours")
TOKENIZER: Final = "danish_asr_demo_char"
MODEL: Final = "run"  # the name of the demo's


def main() -> None:
    """Train all runs and print a line per recipe."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--demo", type=Path, default=Path("demo"))
    parser.add_argument("--arch", help="random weights of this architecture")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=30, help="of audio in a batch, at most")
    args = parser.parse_args()
    os.environ |= {"FAIRSEQ2_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    cards = (args.demo / "dataset" / CARDS_DIR).resolve()
    with tempfile.TemporaryDirectory() as folder:
        models = str((args.demo / "run" / CARDS_DIR).resolve())
        if args.arch:
            models = folder
            write_model(Path(folder), args.arch, cards / f"{TOKENIZER}.model")
        os.environ["DANISH_ASR_ASSETS"] = os.pathsep.join([str(cards), models])
        measure(args)


def measure(args: argparse.Namespace) -> None:
    """Train every run in every round, and print the medians."""
    steps = {"start": 1, "steps": args.steps}
    if not args.arch:
        steps["validations"] = args.steps
    seconds: dict[tuple[str, str], list[float]] = {}
    for _ in range(args.rounds):
        for kind, count in steps.items():
            for recipe in RECIPES:
                needed = train(recipe, args, count, validates=kind == "validations")
                seconds.setdefault((recipe, kind), []).append(needed)
                print(f"{recipe}, {kind}: {needed:.2f} s", flush=True)
    for recipe in RECIPES:
        taken = {kind: median(seconds[recipe, kind]) for kind in steps}
        step = (taken["steps"] - taken["start"]) / (args.steps - 1)
        line = f"{recipe:9} {step:.4f} s a step"
        if "validations" in taken:
            line += f", {(taken['validations'] - taken['steps']) / 2:.2f} s a validation"
        print(f"{line}; {taken['start']:.1f} s for a run of one step")


def write_model(folder: Path, arch: str, tokenizer: Path) -> None:
    """Write random weights and their card; upstream's recipe begins with a model of a name."""
    family = Assets(AsrConfig().common.assets).model_family()
    config: Any = family.maybe_get_arch_config(arch)
    config.target_vocab_size = load_char_tokenizer(tokenizer, None).vocab_info.size
    module = family.create_new_model(config, create_fake_gangs(CPU), torch.float32, meta=False)
    torch.save(module.state_dict(), folder / "model.pt")
    card = {
        "name": MODEL,
        "model_family": family.name,
        "model_arch": arch,
        "model_config": {"target_vocab_size": config.target_vocab_size},
        "checkpoint": "model.pt",
        "tokenizer_ref": TOKENIZER,
    }
    (folder / f"{MODEL}.yaml").write_text(to_yaml(card), encoding="utf-8")


def train(recipe: str, args: argparse.Namespace, steps: int, *, validates: bool) -> float:
    """Train one run, whose directory is deleted; return its processor seconds."""
    dataset = args.demo.resolve() / "dataset"
    every, reports = max(1, steps // 2), max(1, steps // 10)
    with tempfile.TemporaryDirectory() as folder:
        given = command(
            Path(folder, "run"),
            *(f"model.name={MODEL}", "dataset.name=danish_asr_demo"),
            "dataset.asr_task_config.min_audio_len=1",
            *(f"tokenizer.name={TOKENIZER}", f"regime.num_steps={steps}"),
            *(f"regime.{kind}_every_n_steps={every}" for kind in ("validate", "checkpoint")),
            f"regime.publish_metrics_every_n_steps={reports}",
            "trainer.max_grad_norm=1.0",
            f"dataset.asr_task_config.max_num_elements={16_000 * args.seconds}",
            *(() if validates else ("dataset.valid_split=null",)),
        )
        log = Path(folder, "log")
        try:
            if recipe == "ours":
                given.append("trainer.freeze_feature_extractor=true")
                return in_process(log, run_as_upstream, "train", given)
            summary = dataset / STATISTICS_FILE
            return in_process(log, train_upstream, args.checkout, summary, given)
        except SystemExit:
            print(log.read_text(encoding="utf-8")[-3000:])
            raise


if __name__ == "__main__":
    main()
