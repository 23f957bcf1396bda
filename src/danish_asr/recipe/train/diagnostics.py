"""What goes wrong in a run, in plain words: warnings about its numbers, and errors that end it."""

import errno
import logging
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
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
from danish_asr.planning import remedies
from danish_asr.recipe.entry import interrupted
from danish_asr.recipe.models.assets import DOWNLOAD_HINT
from danish_asr.recipe.run.advice import DATA_BOUND
from danish_asr.recipe.train.console import log
from danish_asr.recipe.train.stopping import StoppedAtStep


def first_loss(loss: float, chance: float, vocabulary: int) -> str:
    """Put the loss of the first batch beside chance, both in nats per character."""
    return (
        f"First loss: {loss:.3f} nats per character; chance, with {vocabulary} symbols equally "
        f"likely in each frame (ln {vocabulary} = {math.log(vocabulary):.2f}): {chance:.3f}"
    )


def performance_warnings(values: Mapping[str, object], *, threads: int) -> Iterator[str]:
    """Judge fairseq2's training metrics since the last report; ``threads`` decode audio."""
    data, compute = (float(str(values.get(f"{name}_time", 0))) for name in ("data", "compute"))
    if data and data / (data + compute) >= DATA_BOUND:
        yield (
            f"{data / (data + compute):.0%} of the time waits for data, which {threads} threads "
            "decode, one per CPU core of this process: raise the job's number of cores (LSF: "
            "#BSUB -n), and put the dataset on a local disk or on scratch"
        )
    peak = float(str(values.get("peak_reserved_mem_ratio", 0)))
    if peak >= 0.95:
        yield (
            f"{peak:.0%} of the GPU's memory was in use: a longer batch may not fit. Lower "
            "dataset.asr_task_config.max_num_elements and raise "
            "trainer.grad_accumulation.num_batches"
        )


_CANNOT_WRITE: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO}
)
_TORCH_CANNOT_WRITE: Final = re.compile("PytorchStreamWriter|unexpected pos|file write failed")

_DAMAGED: Final = re.compile("central directory|zip archive|unexpected EOF")

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
    "of another architecture, such as `tiny` of an earlier version: train in a new OUTDIR"
)

# c10/cuda/CUDACachingAllocator.cpp
_WANTED: Final = re.compile(r"Tried to allocate ([\d.]+) ([KMG])iB")
_GAPS: Final = re.compile(r"([\d.]+) ([KMG])iB is reserved by PyTorch but unallocated")

_FOR_USERS: Final = (
    *("fairseq2.cluster", "fairseq2.device", "fairseq2.nn.utils.grad", "fairseq2.recipe.error"),
    "fairseq2.utils.env",
)
"""Modules whose errors say what a user can fix and preflight does not check."""

_HINTS: Final[dict[type[Exception], str]] = {
    OutOfMemoryError: (
        "the GPU's memory is too small for a batch. What helps, the cheapest first: "
        f"{', '.join(remedies.keys())} (smaller batches with more "
        "trainer.grad_accumulation.num_batches). `danish-asr plan --config FILE --gpu SIZE` says "
        "how much each gives back. Checkpointing may change in the same OUTDIR, the others need a "
        "new one. If it ran out in validation, lower dataset.valid_max_num_elements: the same "
        "OUTDIR continues"
    ),
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
"""The first that is among an error and its causes says what to do."""


@contextmanager
def explained(where: str = "the configuration") -> Iterator[None]:
    """Turn failures that a user can fix into messages that say how.

    ``where`` is what the configuration comes from.

    Raises:
        RunFailedError: What happened, with its causes, and the fix. The run has begun: also a
            faulty configuration, found now, has left files in its directory.
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
    except Exception as error:
        *_, first = _chain(error)
        if isinstance(first.__context__, KeyboardInterrupt):  # which cut a file short
            raise KeyboardInterrupt from error
        explanation = _explanation(error)
        if explanation is None:
            raise
        raise RunFailedError(explanation) from error
    finally:
        logging.raiseExceptions = raises


def _explanation(error: Exception) -> str | None:
    """Return what happened, and the fix; None for a bug."""
    if isinstance(error, DanishAsrError):
        return str(error)
    chain, module = list(_chain(error)), type(error).__module__
    hints = [text for kls, text in _HINTS.items() if any(isinstance(e, kls) for e in chain)]
    if any(map(_cannot_write, chain)):
        hints = [_NOT_WRITABLE]
    elif any(_DAMAGED.search(str(each)) for each in chain):
        hints = [_BROKEN_CHECKPOINT]
    elif module.startswith("wandb."):  # an optional dependency
        hints = [_WANDB]
    if hints:
        return f"{_causes(chain)}\n{_gaps(chain)}{hints[0]}."
    if module.startswith(_FOR_USERS):
        hint = " (common.cluster: auto, none or slurm)" if hasattr(error, "cluster") else ""
        return _causes(chain) + hint
    return None


def _gaps(chain: Iterable[BaseException]) -> str:
    """Say what helps if the memory that was missing was there, in gaps."""
    text = "\n".join(str(error) for error in chain if isinstance(error, OutOfMemoryError))
    wanted, gaps = (re.search(pattern, text) for pattern in (_WANTED, _GAPS))
    if not wanted or not gaps or _bytes(wanted) > _bytes(gaps):
        return ""
    return (
        f"{gaps[0]}, more than was wanted: memory is fragmented. First set "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in the environment; the same OUTDIR "
        "continues. If that is not enough, "
    )


def _bytes(found: re.Match[str]) -> float:
    return float(found[1]) * float(1024 ** "KMG".index(found[2]))


def _cannot_write(error: BaseException) -> bool:
    full = isinstance(error, OSError) and error.errno in _CANNOT_WRITE
    return full or bool(_TORCH_CANNOT_WRITE.search(str(error)))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _causes(chain: Iterable[BaseException]) -> str:
    """The messages of an error and its causes, one a line; fairseq2 lists every parameter."""
    lines = []
    for each in chain:
        text = refused_content(each) if isinstance(each, UnpicklingError) else str(each)
        lines.append(shorten(text or type(each).__name__, 300, placeholder=" ..."))
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
        found = error.__cause__ or error
        if not isinstance(found, ConfigError) or os.environ.get("LOCAL_RANK", "0") == "0":
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
