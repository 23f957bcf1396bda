"""What goes wrong in a run, in plain words: warnings about its numbers, and errors that end it."""

import errno
import logging
import math
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from textwrap import shorten
from typing import Final, final

from fairseq2.assets import AssetDownloadError
from fairseq2.checkpoint import CheckpointError
from fairseq2.cluster import ClusterNotDetectedError, ClusterNotKnownError
from fairseq2.device import LocalRankOutOfRangeError
from fairseq2.error import OperationalError
from fairseq2.logging import log
from fairseq2.metrics.recorders import MetricRecorder
from fairseq2.model_checkpoint import ModelCheckpointError
from fairseq2.nn.utils.grad import InconsistentGradNormError
from fairseq2.recipe import error as recipe_error
from fairseq2.utils.env import EnvironmentVariableError
from torch.cuda import OutOfMemoryError
from typing_extensions import override

from danish_asr.cluster.cpus import usable_cpus
from danish_asr.errors import (
    EXIT_FAILED,
    EXIT_REFUSED,
    ConfigError,
    DanishAsrError,
    RunError,
    RunFailedError,
)

FIRST_STEPS: Final = 3
"""Steps whose loss is compared with chance."""


def loss_above_chance(nats_per_frame: float, vocabulary: int, step: int) -> str | None:
    """Judge the loss of one of the first steps.

    A model that gives each of V symbols the probability 1/V in every frame has a loss per frame of
    at most ln(V), because CTC sums over alignments. A loss above that is a fault. ``vocabulary`` is
    V, blank included.
    """
    chance = math.log(vocabulary)
    if nats_per_frame <= chance:
        return None
    return (
        f"the loss of step {step} is {nats_per_frame:.2f} per frame; chance is ln({vocabulary}) = "
        f"{chance:.2f}. That is a fault, not bad luck: check dataset.asr_task_config."
        "normalize_audio (true for omniASR), the tokenizer and the learning rate"
    )


@final
class PerformanceWarnings(MetricRecorder):
    """Warns when the GPU waits for data or its memory is almost full."""

    @override
    def record_metric_values(
        self, category: str, values: Mapping[str, object], step_nr: int | None = None
    ) -> None:
        if category == "train":
            for warning in performance_warnings(values, threads=usable_cpus()):
                log.warning("{}", warning)

    @override
    def close(self) -> None:
        pass


def performance_warnings(values: Mapping[str, object], *, threads: int) -> Iterator[str]:
    """Judge fairseq2's training metrics since the last report; ``threads`` decode audio."""
    data, compute = (float(str(values.get(f"{name}_time", 0))) for name in ("data", "compute"))
    if data and data / (data + compute) >= 0.2:
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


_CANNOT_WRITE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO})
_TORCH_CANNOT_WRITE: Final = re.compile("PytorchStreamWriter|unexpected pos|file write failed")

_BROKEN_CHECKPOINT: Final = (
    "the newest directory in OUTDIR/checkpoints holds an incomplete file: delete it, and the same "
    "command continues from the one before"
)

_REFUSED: Final = (
    *(ClusterNotDetectedError, ClusterNotKnownError, LocalRankOutOfRangeError),
    *(recipe_error.GangTopologyError, recipe_error.HSDPTopologyError),
    *(recipe_error.FSDPNotSupportedError, recipe_error.LayerwiseACNotSupportedError),
    *(recipe_error.DeviceTypeNotSupportedError, recipe_error.ManualGradScalingNotSupportedError),
    *(recipe_error.ModelCheckpointNotFoundError, recipe_error.WandbInitializationError),
    EnvironmentVariableError,
)
"""What fairseq2 refuses before training begins, and preflight does not check."""

_FAILED: Final = (InconsistentGradNormError, recipe_error.MinimumLossScaleReachedError)
"""What fairseq2 ends a running training with."""

_HINTS: Final[dict[type[Exception], str]] = {
    OutOfMemoryError: (
        "the GPU's memory is too small for a batch. In a new OUTDIR, lower "
        "dataset.asr_task_config.max_num_elements, raise trainer.grad_accumulation.num_batches by "
        "the same factor, or set trainer.activation_checkpointing.mode=layerwise. If it "
        "ran out in validation, lower dataset.valid_max_num_elements: the same OUTDIR continues"
    ),
    ModelCheckpointError: (
        "the weights do not belong to the model that is described: check model.arch, "
        "model.config_overrides and the tokenizer, or name a run or a card"
    ),
    CheckpointError: _BROKEN_CHECKPOINT,
    EOFError: _BROKEN_CHECKPOINT,
    AssetDownloadError: (
        "on a node without internet, first run the same command with --config regime.num_steps=1 "
        "on one that has it; $FAIRSEQ2_CACHE_DIR keeps the download"
    ),
}


@contextmanager
def explained() -> Iterator[None]:
    """Turn failures that a user can fix into messages that say how.

    Raises:
        RunError: fairseq2 refuses the setup; nothing was started.
        RunFailedError: What happened, with its causes, and the fix.
    """
    raises = logging.raiseExceptions
    # On a full disk the log cannot be written either; each line would give a traceback.
    logging.raiseExceptions = False
    try:
        yield
    except _REFUSED as error:
        hint = " (common.cluster: auto, none or slurm)" if hasattr(error, "cluster") else ""
        raise RunError(_causes(error) + hint) from error
    except _FAILED as error:
        raise RunFailedError(_causes(error)) from error
    except tuple(_HINTS) as error:
        hint = next(hint for kls, hint in _HINTS.items() if isinstance(error, kls))
        raise RunFailedError(f"{_causes(error)}\n{hint}.") from error
    except (OperationalError, OSError, RuntimeError) as error:
        if not _cannot_write(error):
            raise
        raise RunFailedError(
            f"{_causes(error.__cause__ or error)}\nThe disk or quota is full, or not writable. "
            "What was saved is kept: free some space, and the same command continues."
        ) from error
    finally:
        logging.raiseExceptions = raises


def _cannot_write(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, is a file that could not be written."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _CANNOT_WRITE:
            return True
        if _TORCH_CANNOT_WRITE.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _causes(error: BaseException | None) -> str:
    """The messages of an error and its causes, one a line; fairseq2 lists every parameter."""
    lines = []
    while error is not None:
        lines.append(shorten(str(error) or type(error).__name__, 300, placeholder=" ..."))
        error = error.__cause__
    return "\n  because: ".join(dict.fromkeys(lines))


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Print an error as a message and exit with its status; only a bug gives a traceback."""
    try:
        yield
    except DanishAsrError as error:
        # Every process finds the same faults in a configuration.
        if not isinstance(error, ConfigError) or os.environ.get("LOCAL_RANK", "0") == "0":
            # Not through the log, which would break the paths that a message names.
            print(f"error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(EXIT_FAILED if isinstance(error, RunFailedError) else EXIT_REFUSED)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
    except Exception:  # noqa: BLE001 - the end of the program
        log.exception("The run failed with an unexpected error.")
        sys.exit(EXIT_FAILED)
