from __future__ import annotations

import os
import signal
import time

import pytest

from danish_asr.errors import DanishAsrError, SourceError
from danish_asr.workers import run_in_processes


def square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def fail(number: int) -> int:
    if number == 3:
        raise SourceError("the third is missing")
    return number


def blunder(number: int) -> float:
    return 1 / (number - 2)


def die(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_every_item_is_worked_on_once() -> None:
    results = list(run_in_processes(square, range(20), 2))
    assert sorted(result for result, _ in results) == [number * number for number in range(20)]
    assert len({process for _, process in results}) <= 2


def test_a_fresh_process_takes_each_item() -> None:
    results = list(run_in_processes(square, range(4), 2, fresh=True))
    assert len({process for _, process in results}) == 4


def test_no_items_need_no_process() -> None:
    assert list(run_in_processes(square, [], 2)) == []


def test_a_users_error_arrives_as_it_was() -> None:
    with pytest.raises(SourceError, match=r"^the third is missing$"):
        list(run_in_processes(fail, range(10), 2))


def test_a_bug_arrives_with_the_workers_traceback() -> None:
    with pytest.raises(ZeroDivisionError) as error:
        list(run_in_processes(blunder, range(10), 2))
    assert "in blunder" in str(error.value.__cause__)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_killed_worker_is_reported_and_nothing_hangs(*, fresh: bool) -> None:
    with pytest.raises(DanishAsrError, match=r"killed.*memory ran out.*--workers"):
        list(run_in_processes(die, range(10), 2, fresh=fresh))


@pytest.mark.parametrize("fresh", [False, True])
def test_stopping_early_does_not_wait_for_running_tasks(*, fresh: bool) -> None:
    begin = time.monotonic()
    for seconds in run_in_processes(sleep, [0.0, 60.0, 60.0], 2, fresh=fresh):
        assert seconds == 0.0
        break
    assert time.monotonic() - begin < 30
