"""The whole pipeline in one command: synthetic speech, conversion, training, evaluation, scores.

Every stage uses the same code and files as a real corpus. Each stage continues where it was
interrupted, and so does the demo.
"""

import os
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from shutil import which
from typing import Final

from rich.console import Console

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.config_tree import merge
from danish_asr.base.errors import EXIT_STOPPED, RunError
from danish_asr.base.stops import how_it_failed, run_passing_on
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources.synthetic import SIZES, synthesise
from danish_asr.recipe.config.load import load
from danish_asr.recipe.entry import Request, read_trees
from danish_asr.report.score import score_files

CONFIG: Final = Path(str(files("danish_asr.recipe")), "configs", "demo.yaml")


def run_demo(
    root: Path, *, sizes: Mapping[str, int] = SIZES, overrides: Sequence[str] = ()
) -> None:
    """Run, or continue, the demo in ``source``, ``dataset`` and ``run`` below ``root``.

    ``overrides`` are ``key=value`` pairs for the recipe, over ``configs/demo.yaml``. Raises
    ConfigError, and writes nothing, if one cannot be used.
    """
    request = Request(output_dir=root / "run", config_files=[CONFIG], overrides=overrides)
    trees, changes = read_trees(request)
    load(merge(*trees, *changes), where=request.where)
    console = Console(markup=False, emoji=False)
    source, dataset, run = root / "source", root / "dataset", root / "run"
    started = time.monotonic()

    console.rule("1/5  Synthetic Danish speech")
    synthesise(source, sizes=sizes, workers=usable_cpus())
    console.rule("2/5  Conversion to a dataset")
    convert(source, dataset, ConvertOptions(name="danish_asr_demo", workers=usable_cpus()))
    console.rule("3/5  Training a tiny CTC model from scratch")
    _recipe("train", run, dataset, overrides)
    console.rule("4/5  Evaluation on unseen sentences by unseen speakers")
    _recipe("evaluate", run, dataset, overrides)
    console.rule("5/5  Scores")
    score_files([run], console=console)
    minutes = (time.monotonic() - started) / 60
    done = f"Done in {minutes:.1f} minutes. Everything is in {root}/ and can be deleted."
    console.print(done, soft_wrap=True)
    print_next_steps(run, console)


def print_next_steps(run: Path, console: Console) -> None:
    """Print three commands to try on the demo's run, with the activation that they need."""
    path = shlex.quote(str(run))
    steps = {
        f"report {path}": "curves, dialects, scores, worst utterances on a page",
        f"serve {path}": "a local web page that transcribes files and recordings",
        f"train {path} regime.num_steps=2400": "twice the steps; then evaluate it again",
    }
    console.print("Next:", highlight=False)
    if which("danish-asr") is None:  # make calls it by its path
        console.print(f"    source {os.path.relpath(sys.prefix)}/bin/activate", soft_wrap=True)
    for command, what in steps.items():
        line = f"    danish-asr {command:<40}  # {what}"
        console.print(line, soft_wrap=True, highlight=False)


def _recipe(name: str, run: Path, dataset: Path, overrides: Sequence[str]) -> None:
    """Run a recipe in its own process, as its user would; at a stop signal it saves and ends."""
    command = [
        *(sys.executable, "-m", "danish_asr", name, str(run), "--config", str(CONFIG)),
        *("--dataset", str(dataset), *overrides),
    ]
    status, received = run_passing_on(command)
    if received not in {None, signal.SIGINT}:
        raise SystemExit(128 + received)
    if received or status == EXIT_STOPPED:  # somebody has stopped the recipe, perhaps alone
        raise KeyboardInterrupt
    if status:
        raise RunError(f"`{' '.join(command[1:])}` {how_it_failed(status)}; see the output above")
