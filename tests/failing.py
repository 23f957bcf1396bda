"""`danish-asr` with an error on one rank of two."""

import os
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Final
from zipfile import is_zipfile

from fairseq2.io import TorchTensorDumper

from danish_asr.base.errors import DatasetError
from danish_asr.cli.upstream import run_as_upstream
from danish_asr.recipe.data.reader import BatchReader
from danish_asr.recipe.evaluate.recipe import Evaluation
from danish_asr.recipe.train.criterion import AsrTrainUnit
from danish_asr.recipe.train.validation import AsrValidationUnit

MESSAGE: Final = "row 7 of part-00000 is damaged"

_PLACES: Final[dict[str, tuple[type, str, int]]] = {
    "step": (AsrTrainUnit, "process_batch", 3),
    "validation": (AsrValidationUnit, "process_batch", 1),
    "reading": (BatchReader, "__next__", 3),
    "evaluation": (Evaluation, "score", 1),
}
"""Classes and their methods, with the number of the call that fails."""


def fail_in(place: str, before: Callable[[], None]) -> None:
    """Let this process raise DatasetError in a place, after it has called `before`."""
    owner, name, number = _PLACES[place]
    method, calls = getattr(owner, name), count(1)

    def fail(*arguments: Any) -> Any:
        if next(calls) == number:
            before()
            raise DatasetError(MESSAGE)
        return method(*arguments)

    setattr(owner, name, fail)


def save_slowly() -> None:
    """Let each file of a checkpoint take five minutes."""
    dump = TorchTensorDumper.dump

    def dump_slowly(*arguments: Any, **options: Any) -> None:
        time.sleep(300)
        dump(*arguments, **options)

    TorchTensorDumper.dump = dump_slowly  # type: ignore[method-assign]


def wait_for_files(run: Path) -> None:
    """Wait until both processes have written the last of their files of step 2."""
    files = [run / "checkpoints/step_2.tmp/data_reader" / f"dp_0{rank}.pt" for rank in (0, 1)]
    while not all(map(is_zipfile, files)):
        time.sleep(0.02)


def run_with_error(rank: str, place: str, command: str, arguments: list[str]) -> None:
    """Run a command that fails in a place (a key of `_PLACES`); each file is saved slowly.

    Not slowly where each process has to finish a checkpoint.
    """
    if place != "reading":
        save_slowly()
    if os.environ["RANK"] == rank:
        run = Path(arguments[0])
        fail_in(place, lambda: wait_for_files(run) if place == "reading" else None)
    run_as_upstream(command, arguments)
