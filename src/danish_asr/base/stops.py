"""What stop signals do to a program, and how they reach the programs that it starts.

They end a process at once while it imports, raise while it prepares, and ask a run to save while it
takes steps (`recipe.train.ending`). Imports are few and light: an entry point calls `exit_at_stops`
before it imports anything else.
"""

import atexit
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NoReturn

from danish_asr.base.errors import EXIT_STOPPED

_HANGUP: Final = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
"""A closed terminal; after nohup it means nothing."""

STOP_SIGNALS: Final = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2),
    *_HANGUP,
)
"""What ends a run early: Ctrl-C, and what batch systems send before they kill a job."""

_TERMINALS: Final = [stream for stream in (1, 2) if os.isatty(stream)]
"""The output and the errors of this process, where a terminal shows them."""

_left: Final[list[Future[object]]] = []


def exit_at_stops() -> None:
    """Let a stop signal end this process at once, with status 75, and Ctrl-C with 130.

    For the time of imports: an exception in an import of C code aborts the process.
    """

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        _leave_terminal(number)
        if number == signal.SIGINT:
            interrupted()
        _say(f"{signal.Signals(number).name} received before the work began; run the command again")
        os._exit(EXIT_STOPPED)

    atexit.register(_handle_by, signal.SIG_IGN)  # the interpreter's end takes seconds
    _handle_by(leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # which a launcher has blocked


@contextmanager
def exception_at_stops() -> Iterator[None]:
    """Let a stop signal raise SystemExit with status 75, and Ctrl-C KeyboardInterrupt.

    So files are deleted and locks released, while models and data are loaded. What a library makes
    of it, such as an error in an import that it cut short, becomes the same stop again.
    """
    stops: list[BaseException] = []

    def stop(number: signal.Signals) -> NoReturn:
        stops.append(KeyboardInterrupt() if number == signal.SIGINT else SystemExit(EXIT_STOPPED))
        if number != signal.SIGINT:
            _say(f"{number.name} received; what was saved is kept, run the command again")
        raise stops[-1]

    with at_stops(stop):
        try:
            yield
        except Exception:
            if stops:
                raise stops[0] from None
            raise


@contextmanager
def at_stops(action: Callable[[signal.Signals], object]) -> Iterator[None]:
    """Let a stop signal call ``action``, and then do again what it did before."""

    def handle(number: int, _frame: FrameType | None) -> None:
        _leave_terminal(number)
        action(signal.Signals(number))

    with handlers_kept():
        _handle_by(handle)
        yield


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Bring back, at the end, what stop signals did before."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handle_by(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, handler)


def interrupted() -> NoReturn:
    """Say that Ctrl-C has ended this process, and end it as Ctrl-C does."""
    _say("interrupted; what was saved is kept")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)
    os._exit(128 + signal.SIGINT)


def _leave_terminal(number: int) -> None:
    """Write nowhere what would go to a terminal that was closed: writing there is an error."""
    if number == signal.SIGHUP:
        for stream in _TERMINALS:
            discard_output(stream)


def _say(text: str) -> None:
    if os.environ.get("LOCAL_RANK", "0") == "0":
        os.write(2, f"{text}\n".encode())  # `print` may be in the midst of a line


def discard_output(stream: int = 1) -> None:
    """Write a standard stream nowhere from now on: no one reads it, or its device is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def ends_in_time(call: Callable[[], object], seconds: float) -> bool:
    """Call ``call`` and return whether it ended in time; what it raises is raised.

    One that has not ended, such as a library that waits for its server, is left behind, and
    `exit_if_held` keeps it from holding the process.
    """
    pool = ThreadPoolExecutor(1)
    ending = pool.submit(call)
    pool.shutdown(wait=False)
    _left.append(ending)
    try:
        ending.result(seconds)
    except TimeoutError:
        return False
    return True


def exit_if_held(status: int) -> None:
    """End the process at once if something was left behind, whose library would not let it end.

    To be called when locks and files are released.
    """
    if not all(ending.done() for ending in _left):
        exit_at_once(status)


def exit_at_once(status: int) -> NoReturn:
    """End the process without the end of the interpreter, which waits for threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def stop_with_parent() -> None:
    """Let this process receive SIGTERM when the one that started it ends (on Linux)."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM, 0, 0, 0)


def run_passing_on(command: Sequence[str], output: Any = None) -> tuple[int, signal.Signals | None]:
    """Run a command to its end; stop signals reach it, and do not end this process.

    Returns its status and the first stop signal, if there was one. What it prints goes to the file
    ``output``, if any. It ends when this process is killed.
    """
    import subprocess  # noqa: PLC0415 - entry points import this file first

    received: list[signal.Signals] = []
    running: list[subprocess.Popen[Any]] = []

    def pass_on(number: signal.Signals) -> None:
        received.append(number)
        for process in running:
            process.send_signal(number)

    with at_stops(pass_on):
        process = subprocess.Popen(  # noqa: S603 - our own commands
            command,
            stdout=output,
            stderr=output,
            process_group=0,  # a signal to that of this process would reach it twice
            preexec_fn=stop_with_parent,  # noqa: PLW1509
        )
        running.append(process)
        for number in received:  # while it was started
            process.send_signal(number)
        status = process.wait()
    return status, received[0] if received else None


def how_it_failed(status: int) -> str:
    """Say how a command failed: with its status, or by the signal that killed it, if negative."""
    if status >= 0:
        return f"failed with status {status}"
    memory = ", often for lack of memory" if -status == signal.SIGKILL else ""
    return f"was killed by signal {-status} ({signal.strsignal(-status)}){memory}"
