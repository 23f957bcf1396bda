"""Training curves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from danish_asr.errors import RunError
from danish_asr.report.training import training_panels


def _write(run: Path, name: str, *lines: Any) -> None:
    (run / "metrics").mkdir(exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run / "metrics" / f"{name}.jsonl").write_text(text, encoding="utf-8")


def test_curves_are_in_order_of_steps_and_a_step_told_twice_counts_once(tmp_path: Path) -> None:
    loss = [{"Step": step, "CTC Loss": value} for step, value in ((10, 5.0), (5, 9.0), (10, 4.0))]
    _write(tmp_path, "train", *loss)
    (panel,) = training_panels(tmp_path)
    (curve,) = panel.curves
    assert (curve.name, curve.steps, curve.values) == ("training", (5, 10), (9.0, 4.0))


def test_a_perfect_word_error_rate_is_a_value_and_nan_is_none(tmp_path: Path) -> None:
    _write(
        tmp_path,
        "valid",
        {"Step": 1, "CTC Loss": float("nan"), "Word Error Rate (WER)": 0.0},
        {"Time": "before the first step", "CTC Loss": 3.0},
    )
    (panel,) = training_panels(tmp_path)
    assert [curve.values for curve in panel.curves] == [(0.0,)]


def test_a_directory_without_metrics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no metrics/train\.jsonl or metrics/valid\.jsonl"):
        training_panels(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"Step": 2', "not JSON"),
        (b"[1]", "expected a JSON object, found list"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"Step": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    _write(tmp_path, "train", {"Step": 1})
    with (tmp_path / "metrics" / "train.jsonl").open("ab") as stream:
        stream.write(line)
    with pytest.raises(RunError, match=rf"train.jsonl:2: {message}"):
        training_panels(tmp_path)


def test_values_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    values = ["high", None, 10**400, -(10**400), float("inf"), [1], 7.0]
    lines = [{"Step": step, "CTC Loss": value} for step, value in enumerate(values)]
    odd = [{"Step": step, "CTC Loss": 9.0} for step in ("x", None, 1.5, 1e400)]
    _write(tmp_path, "train", *lines, *odd)
    (panel,) = training_panels(tmp_path)
    assert [(curve.steps, curve.values) for curve in panel.curves] == [((6,), (7.0,))]
