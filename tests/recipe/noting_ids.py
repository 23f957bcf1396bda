"""The training recipe, with a note of every utterance that it trains on.

    python -m tests.recipe.noting_ids FOLDER OUTDIR ...

Each process writes the ids, one a line, into a file of its own in FOLDER.
"""

import os
import sys
from pathlib import Path
from typing import Any

from danish_asr.recipe.cli import train
from danish_asr.recipe.training import AsrTrainUnit

if __name__ == "__main__":
    process_batch = AsrTrainUnit.process_batch
    file = Path(sys.argv.pop(1)) / str(os.getpid())

    def note_and_process(unit: AsrTrainUnit, batch: Any, metric_bag: Any) -> Any:
        with file.open("a", encoding="utf-8") as stream:
            stream.writelines(f"{name}\n" for name in batch.example["id"])
        return process_batch(unit, batch, metric_bag)

    AsrTrainUnit.process_batch = note_and_process  # type: ignore[assignment, method-assign]
    train()
