"""How a run ends early: at a stop signal, at its time limit, or by an error in plain words."""

import errno
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from pickle import UnpicklingError
from textwrap import shorten
from typing import Final, NoReturn

from fairseq2.assets import AssetDownloadError
from fairseq2.gang import GangError, all_sum
from fairseq2.recipe.base import RecipeContext
from fairseq2.recipe.task import Task, TaskStopException
from fairseq2.utils.stopwatch import Stopwatch
from torch.cuda import OutOfMemoryError
from torch.distributed import DistError
from typing_extensions import override

from danish_asr.base import errors, stops
from danish_asr.base.cluster import rank_info
from danish_asr.base.errors import ConfigError, DanishAsrError, RunFailedError
from danish_asr.recipe.config.training_sections import TrainerSection
from danish_asr.recipe.models.cards import DOWNLOAD_HINT
from danish_asr.recipe.run.run import FAILED
from danish_asr.recipe.train.console import log

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_TORCH_CANNOT_WRITE: Final = re.compile("PytorchStreamWriter|unexpected pos|file write failed")
"""What torch's writer says of a full disk, which it does not raise as an OSError."""

_DISK_FULL: Final = "The disk or quota is full: free some space; the same command continues"
_OUT_OF_MEMORY: Final = (
    "The GPU's memory is too small for a batch. What helps, the cheapest first: "
    "model.head=danish, optimizer.name=adamw_8bit, dataset.asr_task_config.max_num_elements, "
    "trainer.activation_checkpointing.mode=layerwise (also in the same OUTDIR); `danish-asr plan` "
    "says how much. In validation, lower dataset.valid_max_num_elements"
)

_CLOSE_SECONDS: Final = 60.0

_PROCESS_LOST: Final = (
    "Another process of this run has ended or no longer answers. Its own message, above or (of a "
    f"training) in {FAILED}, says why; without one it was killed, often for lack of memory"
)


@contextmanager
def on_stop_signals(request_stop: Callable[[], None]) -> Iterator[None]:
    """Request a stop at the first signal; a second Ctrl-C interrupts at once."""

    def handle(number: signal.Signals) -> None:
        log.info("{} received; saving after this step.", number.name)
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        request_stop()

    with stops.at_stops(handle):
        yield


class StoppableTask(Task):
    """What training and evaluation share: when to stop."""

    def __init__(self, context: RecipeContext, section: TrainerSection) -> None:
        self._gangs, self._gang = context.gangs, context.gangs.root
        self._watch = context.resolver.resolve(Stopwatch)
        self._max_seconds = 60 * (section.max_wall_minutes or inf)
        self._stop_requested = False

    def must_stop(self) -> bool:
        """Return whether a stop was requested on any rank, or the time limit is reached."""
        late = self._watch.get_elapsed_time() >= self._max_seconds
        here = self._stop_requested or late
        if self._gang.size == 1:
            return here  # without waiting for the GPU
        return all_sum(self._gang, int(here)).item() > 0

    @override
    def request_stop(self) -> None:
        self._stop_requested = True

    @property
    @override
    def step_nr(self) -> int:
        return 0

    @override
    def close(self) -> None:
        pass


def close_in_time(close: Callable[[], None]) -> None:
    """Close the recorders of metrics.

    W&B waits there until its server has all metrics, and for ever if that is gone.
    """
    if not stops.ends_in_time(close, _CLOSE_SECONDS):
        log.warning("The recorders of metrics have not ended in {} s.", _CLOSE_SECONDS)


@contextmanager
def noted(output_dir: Path, rank: int) -> Iterator[None]:
    """Keep the message of the error that ends a run; delete that of an earlier start.

    Of several processes, the first that fails writes it: the others fail because of that one.
    """
    file = output_dir / FAILED
    if rank == 0:
        file.unlink(missing_ok=True)
    try:
        yield
    except TaskStopException:
        raise
    except Exception as error:
        text = str(error)
        if not isinstance(error, DanishAsrError):
            kind = type(error).__name__
            text = f"unexpected error, {kind}: {error} (with traceback in {output_dir / 'logs'})"
        # The file may be there, or the disk full.
        with suppress(OSError), file.open("x", encoding="utf-8") as stream:
            stream.write(f"{text}\n")
        raise


@contextmanager
def explained() -> Iterator[None]:
    """Turn failures that a user can fix into RunFailedError: what happened, and the fix."""
    try:
        yield
    except (RunFailedError, TaskStopException):
        raise
    except DanishAsrError as error:
        raise RunFailedError(str(error)) from error
    except Exception as error:
        chain = _chain(error)
        cause = chain[-1].__context__
        if isinstance(cause, KeyboardInterrupt | SystemExit):  # which cut a file short
            raise cause from None
        fixes = [fix for fix in map(_fix, chain) if fix is not None]
        module = type(error).__module__
        # Those of ``fairseq2.error`` are bugs, the others say enough.
        if fixes or (module.startswith("fairseq2.") and module != "fairseq2.error"):
            raise RunFailedError("\n".join([in_words(error), *fixes[:1]])) from error
        raise


def _chain(error: BaseException) -> list[BaseException]:
    """An error and its causes."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    return chain


def _fix(error: BaseException) -> str | None:
    if isinstance(error, OutOfMemoryError):
        return _OUT_OF_MEMORY
    if isinstance(error, AssetDownloadError):
        return DOWNLOAD_HINT
    if isinstance(error, GangError | DistError) or "gloo" in str(error):
        return _PROCESS_LOST
    is_full = isinstance(error, OSError) and error.errno in _FULL
    return _DISK_FULL if is_full or _TORCH_CANNOT_WRITE.search(str(error)) else None


def in_words(error: BaseException) -> str:
    """The messages of an error and its causes, one a line; fairseq2 lists every parameter."""
    lines = []
    for one in _chain(error):
        text = errors.refused_content(one) if isinstance(one, UnpicklingError) else str(one)
        lines.append(shorten(text or type(one).__name__, 300, placeholder=" ..."))
    return "\n  because: ".join(dict.fromkeys(lines))


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Exit with the status of an early stop or an error; only a bug gives a traceback."""
    try:
        with stops.exception_at_stops():
            yield
    except TaskStopException:
        log.info("Stopped before the end; run the same command again.")
        sys.exit(errors.EXIT_STOPPED)
    except DanishAsrError as error:
        # Every process has the same faults in a configuration.
        is_config = isinstance(error.__cause__ or error, ConfigError)
        if not is_config or os.environ.get("LOCAL_RANK", "0") == "0":
            # Not through the log, which has a time before the first line.
            print(f"error: {error}", file=sys.stderr)  # noqa: T201
        failed = isinstance(error, RunFailedError)
        _leave(errors.EXIT_FAILED if failed else errors.EXIT_REFUSED)
    except KeyboardInterrupt:
        stops.interrupted()
    except Exception:  # noqa: BLE001 - the end of the program
        log.exception("The run failed with an unexpected error.")
        _leave(errors.EXIT_FAILED)


def _leave(status: int) -> NoReturn:
    """End this process; one of several ends at once, as only then the others notice.

    The end of the interpreter waits for threads, such as one that writes a checkpoint.
    """
    if rank_info().world_size > 1:
        stops.exit_at_once(status)
    sys.exit(status)
