"""Curves of a run's metrics and of what its jobs used."""

import json
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import RunError
from danish_asr.report.curves import Curve, Panel, read_panels


def _write(file: Path, *lines: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def test_training_curves_are_sorted_by_step_and_the_last_value_of_a_step_counts(
    tmp_path: Path,
) -> None:
    losses = [(10, 5.0), (5, 9.0), (10, 4.0), (7, float("nan")), (8, None), (None, 3.0)]
    lines = [{"Step": step, "CTC Loss": value} for step, value in losses]
    _write(tmp_path / "metrics" / "train.jsonl", *lines)
    _write(tmp_path / "metrics" / "valid.jsonl", {"Step": 1, "Word Error Rate (WER)": 0.0})
    loss, rates = read_panels(tmp_path)
    assert {name: dict(curve) for name, curve in loss.curves.items()} == {
        "training": {5: 9.0, 10: 4.0}
    }
    assert {name: dict(curve) for name, curve in rates.curves.items()} == {"WER": {1: 0.0}}


def test_a_directory_without_metrics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no metrics/train\.jsonl or metrics/valid\.jsonl"):
        read_panels(tmp_path)


def gpu(utilisation: float | None, memory: float | None = 10_000) -> dict[str, Any]:
    total = {"memory_mib": memory, "memory_total_mib": 40_000}
    return {"index": 0, "utilisation_percent": utilisation, "power_w": None} | total


def write(run: Path, job: str, host: str, times: range, *gpus: Any, memory: int = 2048) -> Path:
    about = {"job": job, "host": host, "memory_mib": memory, "gpus": gpus}
    lines = [{"time": time, **about} for time in times]
    return _write(run / "trace" / f"{job}.{host}.jsonl", *lines)


def usage_panels(run: Path) -> list[Panel]:
    _write(run / "metrics" / "train.jsonl")
    return read_panels(run)


def curves(run: Path) -> dict[str, Curve]:
    return {name: curve for panel in usage_panels(run) for name, curve in panel.curves.items()}


def test_jobs_that_continue_each_other_share_an_axis_without_the_waiting_time(
    tmp_path: Path,
) -> None:
    write(tmp_path, "7", "n-1", range(0, 3600, 10), gpu(90))
    # Nine hours in the queue; then two that follow each other at once.
    write(tmp_path, "9", "n-1", range(36_000, 37_800, 10), gpu(80))
    write(tmp_path, "10", "n-2", range(37_820, 39_600, 10), gpu(70))
    gpus, memory = usage_panels(tmp_path)
    assert (gpus.title, gpus.unit, memory.unit) == ("GPUs", "%", "GiB")
    assert gpus.marks == memory.marks == pytest.approx((1.0, 1.5), abs=0.01)
    computing = gpus.curves["computing"]
    assert computing.index.is_monotonic_increasing
    assert computing.index[-1] == pytest.approx(2.0, abs=0.03)
    assert (computing.iloc[0], computing.iloc[-1]) == (90, 70)
    assert set(memory.curves["all processes"]) == {2.0}


def test_hosts_and_gpus_are_combined(tmp_path: Path) -> None:
    write(tmp_path, "7", "n-1", range(0, 100, 10), gpu(100, 4000), gpu(60, 8000), memory=1024)
    write(tmp_path, "7", "n-2", range(4, 104, 10), gpu(20, 30_000), gpu(20, 10), memory=3072)
    found = curves(tmp_path)
    assert usage_panels(tmp_path)[0].marks == ()
    assert set(found["computing"].iloc[:-1]) <= {50.0, 40.0, 60.0}
    assert set(found["memory of the fullest"]) == {75.0}
    assert set(found["all processes"]) == {4.0}


def test_a_measure_without_values_has_no_curve(tmp_path: Path) -> None:
    assert usage_panels(tmp_path) == []
    write(tmp_path, "7", "n-1", range(0, 20, 10))
    assert curves(tmp_path).keys() == {"all processes"}
    write(tmp_path, "7", "n-1", range(0, 100, 10), gpu(None, 20_000), gpu(None, None))
    found = curves(tmp_path)
    assert found.keys() == {"memory of the fullest", "all processes"}
    assert set(found["memory of the fullest"]) == {50.0}


def test_a_broken_line_is_named_and_half_a_last_line_is_left_out(tmp_path: Path) -> None:
    file = write(tmp_path, "7", "n-1", range(0, 10, 10), gpu(90))
    before = {name: dict(curve) for name, curve in curves(tmp_path).items()}
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"Step": 2')
    assert {name: dict(curve) for name, curve in curves(tmp_path).items()} == before
    with file.open("a", encoding="utf-8") as stream:
        stream.write("\n")
    with pytest.raises(RunError, match=r"7.n-1.jsonl:2: "):
        usage_panels(tmp_path)
