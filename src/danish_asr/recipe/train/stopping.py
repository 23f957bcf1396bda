"""Tasks that end early, between two batches, at a signal or at their time limit."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from types import FrameType
from typing import Any, Final

from fairseq2.gang import all_sum
from fairseq2.recipe.base import RecipeContext
from fairseq2.recipe.task import Task, TaskStopException
from fairseq2.utils.stopwatch import Stopwatch
from typing_extensions import override

from danish_asr.recipe.config.sections import AsrTrainerSection
from danish_asr.recipe.train.console import log

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class StoppedAtStep(TaskStopException):
    """The run is at ``regime.stop_at_step``; the same command takes no further step."""


@contextmanager
def on_stop_signals(request_stop: Callable[[], None]) -> Iterator[None]:
    """Request a stop at the first signal; a second Ctrl-C interrupts at once."""

    def handle(number: int, _frame: FrameType | None) -> None:
        log.info("{} received; saving after this step.", signal.Signals(number).name)
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        request_stop()

    previous: dict[int, Any] = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class StoppableTask(Task):
    """What training and evaluation share: when to stop, and fairseq2's own task, ``inner``."""

    inner: Task

    def __init__(self, context: RecipeContext, section: AsrTrainerSection) -> None:
        self._gangs, self._gang = context.gangs, context.gangs.root
        self._watch = context.resolver.resolve(Stopwatch)
        self._max_seconds = 60 * (section.max_wall_minutes or inf)
        self._stop_requested = False

    def _late(self, seconds_ahead: float = 0.0) -> bool:
        return self._watch.get_elapsed_time() + seconds_ahead >= self._max_seconds

    def _any_rank(self, flag: bool) -> bool:
        if self._gang.size == 1:
            return flag  # without waiting for the GPU
        return all_sum(self._gang, int(flag)).item() > 0

    @override
    def request_stop(self) -> None:
        self._stop_requested = True

    @property
    @override
    def step_nr(self) -> int:
        return self.inner.step_nr

    @override
    def close(self) -> None:
        self.inner.close()
