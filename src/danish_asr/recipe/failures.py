"""What ends a run although its configuration is sound, in plain words in place of a traceback."""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten
from typing import Final

from fairseq2.assets import AssetDownloadError
from fairseq2.checkpoint import CheckpointError
from fairseq2.error import OperationalError
from fairseq2.model_checkpoint import ModelCheckpointError
from torch.cuda import OutOfMemoryError

from danish_asr.errors import RunFailedError

_WIDTH: Final = 300
"""Characters of a message; fairseq2 lists every parameter of a model."""

_CANNOT_WRITE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO})

_TORCH_WRITES: Final = re.compile("PytorchStreamWriter|unexpected pos|file write failed")
"""How torch tells that a file could not be written."""

_BROKEN_CHECKPOINT: Final = (
    "the newest directory in OUTDIR/checkpoints holds an incomplete file: delete it, and the same "
    "command continues from the one before"
)

_MENDS: Final[dict[type[Exception], str]] = {
    OutOfMemoryError: (
        "the GPU's memory is too small for a batch. In a new OUTDIR, lower "
        "dataset.asr_task_config.max_num_elements, raise trainer.grad_accumulation.num_batches by "
        "the same factor, or set trainer.activation_checkpointing.mode=layerwise. If it "
        "ran out in validation, lower dataset.valid_max_num_elements: the same OUTDIR continues"
    ),
    ModelCheckpointError: (
        "the weights do not belong to the model that is described: look at model.arch, "
        "model.config_overrides and the tokenizer, or name a run or a card"
    ),
    CheckpointError: _BROKEN_CHECKPOINT,
    EOFError: _BROKEN_CHECKPOINT,
    AssetDownloadError: (
        "on a node without internet, first run the same command with --config regime.num_steps=1 "
        "on one that has it; $FAIRSEQ2_CACHE_DIR keeps what it fetches"
    ),
}


@contextmanager
def in_plain_words() -> Iterator[None]:
    """Turn failures that a user can mend into messages that say how.

    Raises:
        RunFailedError: What happened, with its causes, and the mend.
    """
    tells = logging.raiseExceptions
    # A full disk takes no log either; that would be told for each line, with a traceback.
    logging.raiseExceptions = False
    try:
        yield
    except tuple(_MENDS) as error:
        mend = next(mend for kls, mend in _MENDS.items() if isinstance(error, kls))
        raise RunFailedError(f"{_causes(error)}\n{mend}.") from error
    except (OperationalError, OSError, RuntimeError) as error:
        if not _cannot_write(error):
            raise
        raise RunFailedError(
            f"{_causes(error.__cause__ or error)}\nThe disk or quota is full, or not to be written "
            "to. What was saved is kept: make room, and the same command continues."
        ) from error
    finally:
        logging.raiseExceptions = tells


def _cannot_write(error: BaseException | None) -> bool:
    """Whether an error, or what it came of, is a file that could not be written."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _CANNOT_WRITE:
            return True
        if _TORCH_WRITES.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _causes(error: BaseException | None) -> str:
    """What an error and its causes say, each in a line."""
    lines = []
    while error is not None:
        lines.append(shorten(str(error) or type(error).__name__, _WIDTH, placeholder=" ..."))
        error = error.__cause__
    return "\n  because: ".join(dict.fromkeys(lines))
