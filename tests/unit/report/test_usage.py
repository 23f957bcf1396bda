"""The trace of GPUs and memory becomes curves over the hours that a run's jobs ran."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from danish_asr.cluster.trace import Trace
from danish_asr.errors import RunError
from danish_asr.report.training import Curve
from danish_asr.report.usage import usage_panels


def gpu(utilisation: float | None, memory: float | None = 10_000) -> dict[str, Any]:
    return {
        "index": 0,
        "utilisation_percent": utilisation,
        "memory_mib": memory,
        "memory_total_mib": 40_000,
        "power_w": None,
    }


def write(run: Path, job: str, host: str, times: range, *gpus: Any, memory: int = 2048) -> Path:
    (run / "trace").mkdir(exist_ok=True)
    file = run / "trace" / f"{job}.{host}.jsonl"
    about = {"job": job, "host": host, "memory_mib": memory, "gpus": gpus}
    lines = [json.dumps({"time": time, **about}) for time in times]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def curves(run: Path) -> dict[str, Curve]:
    return {curve.name: curve for panel in usage_panels(run) for curve in panel.curves}


def test_jobs_that_continue_each_other_are_one_line_without_the_waiting(tmp_path: Path) -> None:
    write(tmp_path, "7", "n-1", range(0, 3600, 10), gpu(90))
    # Nine hours in the queue; then two that follow each other at once.
    write(tmp_path, "9", "n-1", range(36_000, 37_800, 10), gpu(80))
    write(tmp_path, "10", "n-2", range(37_820, 39_600, 10), gpu(70))
    gpus, memory = usage_panels(tmp_path)
    assert (gpus.title, gpus.unit, memory.unit) == ("GPUs", "%", "GiB")
    assert gpus.marks == memory.marks == pytest.approx((1.0, 1.5), abs=0.01)
    (computing, _), (processes,) = gpus.curves, memory.curves
    assert computing.steps == tuple(sorted(computing.steps))
    assert computing.steps[-1] == pytest.approx(2.0, abs=0.03)
    assert (computing.values[0], computing.values[-1]) == (90, 70)
    assert set(processes.values) == {2.0}


def test_hosts_and_gpus_are_taken_together(tmp_path: Path) -> None:
    write(tmp_path, "7", "n-1", range(0, 100, 10), gpu(100, 4000), gpu(60, 8000), memory=1024)
    write(tmp_path, "7", "n-2", range(4, 104, 10), gpu(20, 30_000), gpu(20, 10), memory=3072)
    found = curves(tmp_path)
    assert usage_panels(tmp_path)[0].marks == ()
    assert set(found["computing"].values[:-1]) <= {50.0, 40.0, 60.0}
    assert set(found["memory of the fullest"].values) == {75.0}
    assert set(found["all processes"].values) == {4.0}


def test_what_the_driver_does_not_say_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "7", "n-1", range(0, 100, 10), gpu(None, 20_000), gpu(None, None))
    found = curves(tmp_path)
    assert found.keys() == {"memory of the fullest", "all processes"}
    assert set(found["memory of the fullest"].values) == {50.0}


def test_without_gpus_there_is_the_memory_and_without_a_trace_nothing(tmp_path: Path) -> None:
    assert usage_panels(tmp_path) == []
    write(tmp_path, "7", "n-1", range(0, 20, 10))
    assert curves(tmp_path).keys() == {"all processes"}


def test_days_become_a_few_hundred_points(tmp_path: Path) -> None:
    write(tmp_path, "7", "n-1", range(0, 3 * 86_400, 10), gpu(90))
    assert 250 < len(curves(tmp_path)["computing"].steps) <= 301


def test_half_a_line_of_a_job_that_was_killed_is_left_out(tmp_path: Path) -> None:
    file = write(tmp_path, "7", "n-1", range(0, 100, 10), gpu(90))
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"time": 100, "jo')
    before = curves(tmp_path)
    with Trace(file, "n-1", seconds=60):
        pass
    after = curves(tmp_path)
    assert after["computing"].values[:7] == before["computing"].values[:7]


@pytest.mark.parametrize(
    "line", ["{", "[1]", '{"time": 1}', '{"time": "a", "job": "1"}', "[" * 100_000]
)
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    file = write(tmp_path, "7", "n-1", range(0, 10, 10), gpu(90))
    with file.open("a", encoding="utf-8") as stream:
        stream.write(f"{line}\n")
    with pytest.raises(RunError, match=r"7.n-1.jsonl:2: no line of a trace"):
        usage_panels(tmp_path)
