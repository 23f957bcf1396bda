"""The whole way in one command: synthetic Danish speech, conversion, training, evaluation, scores.

Every stage is the real one, with the files and the commands that a real corpus takes. Each picks up
where it was interrupted, and so does the demo.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from rich.console import Console

from danish_asr.cluster.cpus import usable_cpus
from danish_asr.conversion.convert import convert
from danish_asr.errors import EXIT_STOPPED, RunError
from danish_asr.report import score_file
from danish_asr.schema import CARDS_DIR
from danish_asr.sources import open_source
from danish_asr.sources.synthetic import SyntheticSize, synthesise

DATASET: Final = "danish_asr_demo"
"""The name of the dataset's card; ``configs/demo.yaml`` trains on it."""

RECIPE: Final = "danish_asr.recipe"


def run_demo(
    root: Path,
    *,
    size: SyntheticSize | None = None,
    overrides: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Run, or continue, the demo below ``root``.

    Args:
        root: Takes everything the demo makes: ``source``, ``dataset`` and ``run``.
        size: Utterances of the corpus; by default enough to learn from.
        overrides: ``key=value`` pairs for the recipe, over ``configs/demo.yaml``.
        console: Where progress is shown.

    Raises:
        RunError: Training or evaluation failed; what they said stands above the message.
    """
    console = console or Console()
    source, dataset, run = root / "source", root / "dataset", root / "run"
    started = time.monotonic()

    console.rule("1/5  Danish speech, synthesised")
    synthesise(source, size=size, workers=usable_cpus())
    console.rule("2/5  Conversion to the dataset")
    convert(open_source(str(source)), dataset, name=DATASET, workers=usable_cpus())
    console.rule("3/5  Training a tiny CTC model from scratch")
    _recipe(RECIPE, run, dataset, overrides)
    console.rule("4/5  Evaluation on unseen sentences by unseen speakers")
    _recipe(f"{RECIPE}.evaluation", run, dataset, overrides)
    console.rule("5/5  Scores")
    results = run / "eval" / "best" / "test"
    score_file(
        results / "predictions.jsonl",
        run_dir=run,
        dataset=dataset,
        json_path=results / "scores.json",
        html_path=results / "report.html",
        console=console,
    )
    minutes = (time.monotonic() - started) / 60
    console.print(
        f"Done in {minutes:.1f} minutes. Everything is in {root}/ and can be deleted.",
        soft_wrap=True,
    )


def _recipe(module: str, run: Path, dataset: Path, overrides: Sequence[str]) -> None:
    """Run a recipe as its user would, in a process of its own.

    A Ctrl-C reaches that process too. It saves and leaves; waiting for it is all there is to do.
    """
    config = files(RECIPE) / "configs" / "demo.yaml"
    cards = dataset.resolve() / CARDS_DIR
    command = [
        *(sys.executable, "-m", module, str(run), "--config-file", str(config)),
        *("--config", f"common.assets.extra_paths=[{cards}]", *overrides),
    ]
    # A handler that does nothing is reset in the child; SIG_IGN would be inherited by it.
    handler = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        status = subprocess.run(command, check=False).returncode  # noqa: S603 - our own module
    finally:
        signal.signal(signal.SIGINT, handler)
    if status in {EXIT_STOPPED, -signal.SIGINT}:
        raise KeyboardInterrupt
    if status:
        raise RunError(f"`{' '.join(command[1:])}` failed with status {status}; see above")
