"""The training recipe, with a note of every utterance that it trains on.

    python -m tests.recipe.noting_ids FOLDER OUTDIR ...

Each process writes the ids, one a line, into a file of its own in FOLDER.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from danish_asr.recipe.training import AsrTrainUnit
from danish_asr.recipe.training import main as train


def main(folder: Path, arguments: list[str]) -> None:
    """Run the recipe as it is, behind a note of each batch."""
    process_batch = AsrTrainUnit.process_batch

    def note_and_process(unit: AsrTrainUnit, batch: Any, metric_bag: Any) -> Any:
        with (folder / str(os.getpid())).open("a", encoding="utf-8") as stream:
            stream.writelines(f"{name}\n" for name in batch.example["id"])
        return process_batch(unit, batch, metric_bag)

    AsrTrainUnit.process_batch = note_and_process  # type: ignore[assignment, method-assign]
    train(arguments)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
