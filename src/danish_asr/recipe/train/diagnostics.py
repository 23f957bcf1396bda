"""Errors that end a run, in plain words: what happened, and what to do."""

import errno
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pickle import UnpicklingError
from textwrap import shorten
from typing import Final

from fairseq2.assets import AssetDownloadError
from fairseq2.checkpoint import CheckpointError
from fairseq2.model_checkpoint import ModelCheckpointError
from fairseq2.recipe.task import TaskStopException
from torch.cuda import OutOfMemoryError

from danish_asr.base.errors import (
    EXIT_FAILED,
    EXIT_REFUSED,
    EXIT_STOPPED,
    ConfigError,
    DanishAsrError,
    RunFailedError,
)
from danish_asr.recipe.entry import interrupted
from danish_asr.recipe.models.assets import DOWNLOAD_HINT
from danish_asr.recipe.train.console import log
from danish_asr.recipe.train.stopping import StoppedAtStep

_CANNOT_WRITE: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO}
)
_TORCH_CANNOT_WRITE: Final = re.compile("PytorchStreamWriter|unexpected pos|file write failed")
_TORCH_CANNOT_READ: Final = re.compile("central directory|zip archive|unexpected EOF")

_NOT_WRITABLE: Final = (
    "The disk or quota is full, or not writable. What was saved is kept: free some space, and the "
    "same command continues"
)

_WANDB: Final = (
    "Weights & Biases cannot record the run: run `wandb login`, set WANDB_MODE=offline, or set "
    "common.metric_recorders.wandb.enabled=false"
)

_BROKEN_CHECKPOINT: Final = (
    "the newest directory in OUTDIR/checkpoints holds an incomplete file: delete it, and the same "
    "command continues from the one before, or scores it. If it fails with each of them, they are "
    "of another architecture: train in a new OUTDIR"
)

_OUT_OF_MEMORY: Final = (
    "the GPU's memory is too small for a batch. If much of it is 'reserved by PyTorch but "
    "unallocated', first set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in the environment. "
    "What else helps, the cheapest first: model.head=danish, optimizer.name=adamw_8bit, "
    "dataset.asr_task_config.max_num_elements (smaller batches with more "
    "trainer.grad_accumulation.num_batches), trainer.activation_checkpointing.mode=layerwise, "
    "optimizer.name=adamw_offload, trainer.freeze_encoder_layers. "
    "`danish-asr plan --config FILE --gpu SIZE` says how much each gives back. Checkpointing may "
    "change in the same OUTDIR, the others need a new one. If it ran out in validation, lower "
    "dataset.valid_max_num_elements: the same OUTDIR continues"
)

_HINTS: Final[dict[type[Exception], str]] = {
    OutOfMemoryError: _OUT_OF_MEMORY,
    CheckpointError: _BROKEN_CHECKPOINT,
    UnpicklingError: (
        "only tensors are read from a model's file: if you trust this one, load it where it was "
        "made and save its state_dict() again"
    ),
    ModelCheckpointError: (
        "the weights do not belong to the model that is described: check model.arch, "
        "model.config_overrides and the tokenizer, or name a run or a card"
    ),
    EOFError: _BROKEN_CHECKPOINT,
    AssetDownloadError: DOWNLOAD_HINT,
}
"""What to do about an error; the first type that is among it and its causes counts."""

_FOR_USERS: Final = (
    "fairseq2.cluster",
    "fairseq2.device",
    "fairseq2.nn.utils.grad",
    "fairseq2.recipe.error",
    "fairseq2.utils.env",
)
"""Modules whose errors a user can fix without a hint, and preflight does not find."""


@contextmanager
def explained(where: str = "the configuration") -> Iterator[None]:
    """Turn failures that a user can fix into messages that say how.

    ``where`` is what the configuration comes from.

    Raises:
        RunFailedError: What happened, with its causes, and the fix.
    """
    raises = logging.raiseExceptions
    # On a full disk the log cannot be written either; each line would give a traceback.
    logging.raiseExceptions = False
    try:
        yield
    except RunFailedError:
        raise
    except ConfigError as error:
        raise RunFailedError(str(ConfigError(error.faults, where=where))) from error
    except DanishAsrError as error:
        raise RunFailedError(str(error)) from error
    except Exception as error:
        chain = _with_causes(error)
        if isinstance(chain[-1].__context__, KeyboardInterrupt):  # which cut a file short
            raise KeyboardInterrupt from error
        explanation = _explanation(chain)
        if explanation is None:
            raise
        raise RunFailedError(explanation) from error
    finally:
        logging.raiseExceptions = raises


def _with_causes(error: BaseException) -> list[BaseException]:
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    return chain


def _explanation(chain: Sequence[BaseException]) -> str | None:
    """Return what happened, and the fix; None for a bug."""
    if hint := _hint(chain):
        return f"{_messages(chain)}\n{hint}."
    if type(chain[0]).__module__.startswith(_FOR_USERS):
        has_cluster = hasattr(chain[0], "cluster")
        choices = " (common.cluster: auto, none or slurm)" if has_cluster else ""
        return _messages(chain) + choices
    return None


def _hint(chain: Sequence[BaseException]) -> str | None:
    if any(_cannot_write(error) for error in chain):
        return _NOT_WRITABLE
    if any(_TORCH_CANNOT_READ.search(str(error)) for error in chain):
        return _BROKEN_CHECKPOINT
    if type(chain[0]).__module__.startswith("wandb."):  # an optional dependency
        return _WANDB
    for kind, hint in _HINTS.items():
        if any(isinstance(error, kind) for error in chain):
            return hint
    return None


def _cannot_write(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in _CANNOT_WRITE:
        return True
    return _TORCH_CANNOT_WRITE.search(str(error)) is not None


def _messages(chain: Sequence[BaseException]) -> str:
    """The messages of an error and its causes, one a line; fairseq2 lists every parameter."""
    lines = []
    for error in chain:
        text = refused_content(error) if isinstance(error, UnpicklingError) else str(error)
        lines.append(shorten(text or type(error).__name__, 300, placeholder=" ..."))
    return "\n  because: ".join(dict.fromkeys(lines))


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Exit with the status of an early stop or an error; only a bug gives a traceback."""
    try:
        yield
    except StoppedAtStep:
        pass  # a job that ended with 75 would be started again, for nothing
    except TaskStopException:
        log.info("Stopped before the end; what was done is saved, and the same command continues.")
        sys.exit(EXIT_STOPPED)
    except DanishAsrError as error:
        # Every process finds the same faults in a configuration.
        is_config = isinstance(error.__cause__ or error, ConfigError)
        if not is_config or os.environ.get("LOCAL_RANK", "0") == "0":
            # Not through the log, which would break the paths that a message names.
            print(f"error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(EXIT_FAILED if isinstance(error, RunFailedError) else EXIT_REFUSED)
    except KeyboardInterrupt:
        interrupted()
    except Exception:  # noqa: BLE001 - the end of the program
        log.exception("The run failed with an unexpected error.")
        sys.exit(EXIT_FAILED)


def refused_content(error: UnpicklingError) -> str:
    """What torch did not load, without its advice to load it anyway."""
    found = re.search(r"GLOBAL (\S+)|function (.+)", str(error))
    if found is None:
        return "the file is damaged, or is not a checkpoint"
    return f"the file holds code, {found[1] or found[2]}"
