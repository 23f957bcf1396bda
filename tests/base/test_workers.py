"""Tasks in processes, here or on a Ray cluster, whatever ends one of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from functools import cache
from pathlib import Path

import pytest

from danish_asr.base.audio import decode, encode_flac
from danish_asr.base.errors import ConfigError, DanishAsrError, MissingExtraError, SourceError
from danish_asr.base.workers import run_in_processes, run_on_ray, uninterrupted
from danish_asr.corpus.convert import convert
from tests.builders import build_source, tone, tree
from tests.corpora import options
from tests.tasks import die, divide, fail, square


@pytest.mark.parametrize(
    ("count", "workers", "fresh", "own", "others"),
    [
        (20, 2, False, 0, {1, 2}),
        (3, 2, True, 0, {3}),
        (1, 2, True, 0, {1}),
        (1, 2, False, 1, {0}),  # one worker alone is this process
        (4, 1, False, 1, {0}),
        (0, 2, True, 0, {0}),
    ],
)
def test_every_item_is_worked_on_once(
    count: int, workers: int, own: int, others: set[int], *, fresh: bool
) -> None:
    results = list(run_in_processes(square, range(count), workers, fresh=fresh))
    assert sorted(result for result, _ in results) == [number * number for number in range(count)]
    processes = {process for _, process in results}
    assert len(processes & {os.getpid()}) == own
    assert len(processes - {os.getpid()}) in others


def test_errors_arrive_as_they_were_and_bugs_with_the_workers_traceback() -> None:
    with pytest.raises(SourceError, match=r"^the third is missing$"):
        list(run_in_processes(fail, range(10), 2))
    with pytest.raises(ZeroDivisionError) as error:
        list(run_in_processes(divide, range(10), 2))
    assert "in divide" in str(error.value.__cause__)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_killed_worker_is_reported_and_nothing_hangs(*, fresh: bool) -> None:
    with pytest.raises(DanishAsrError, match=r"killed.*memory ran out.*--workers"):
        list(run_in_processes(die, range(10), 2, fresh=fresh))


def convert_until(stopped: list[int], audio: bytes, timer: threading.Timer) -> None:
    timer.start()
    while not stopped:
        with uninterrupted():
            encode_flac(decode(audio)[0])


def test_a_signal_while_processes_work_never_arrives_within_their_pool() -> None:
    """It would leave a lock of a future taken, and the pool would wait for it for ever."""

    def interrupt() -> None:
        while len(multiprocessing.active_children()) < 2:
            time.sleep(0.02)
        time.sleep(0.5)  # the pool has started both then, and waits
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt) as stop:
        list(run_in_processes(time.sleep, [60, 60], 2))
    files = [str(entry.path) for entry in stop.traceback]
    assert files[-1].endswith(("workers.py", "test_workers.py"))
    assert not any("concurrent" in file for file in files)


def test_a_signal_is_not_lost_in_a_decoder_or_an_encoder() -> None:
    """TRAPS, data reading: libsndfile reads and writes memory through Python."""
    audio, stopped = tone(2.0, channels=2), list[int]()

    def stop(number: int, _: object) -> None:
        stopped.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        for number in range(20):
            stopped.clear()
            timer = threading.Timer(0.001 * number, os.kill, (os.getpid(), signal.SIGTERM))
            with pytest.raises(KeyboardInterrupt):
                convert_until(stopped, audio, timer)
            timer.join()
    finally:
        signal.signal(signal.SIGTERM, before)


needs_ray = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")


@pytest.mark.slow
@needs_ray
def test_ray_makes_the_same_bytes_passes_errors_on_and_reports_a_killed_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    end, ended = ray.shutdown, list[bool]()
    monkeypatch.setenv("RAY_TASK_MAX_RETRIES", "0")  # each in a new process
    with monkeypatch.context() as one_cluster:  # whose start takes long
        one_cluster.setattr(ray, "init", cache(ray.init))
        one_cluster.setattr(ray, "shutdown", lambda: ended.append(True))
        source = build_source(tmp_path / "in", train=12)
        for name, address in (("here", None), ("ray", "local")):
            convert(source, tmp_path / name, options(shard_rows=8, workers=2, ray=address))
        assert tree(tmp_path / "ray") == tree(tmp_path / "here")
        with pytest.raises(SourceError, match=r"^the third is missing$"):
            list(run_on_ray(fail, [3], address="local", workers=2))
        with pytest.raises(DanishAsrError, match=r"lost a worker or a machine \(.*run the same"):
            list(run_on_ray(die, [1], address="local", workers=2))
        assert len(ended) == 3
    end()


def test_ray_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"--ray needs the extra 'ray': pip install"):
        list(run_on_ray(fail, [], address="local", workers=1))


@pytest.mark.slow
@needs_ray
@pytest.mark.parametrize("address", ["auto", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_an_address_without_a_cluster_is_refused_soon(address: str) -> None:
    with pytest.raises(ConfigError, match=rf"--ray: no Ray cluster answers at {address} \("):
        list(run_on_ray(fail, [], address=address, workers=1))
