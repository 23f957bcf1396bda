"""Curves of a run's metrics."""

import json
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import RunError
from danish_asr.recipe.run.advice import LOSS
from danish_asr.report.curves import read_panels


def _write(file: Path, *lines: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def test_training_curves_are_sorted_by_step_and_the_last_value_of_a_step_counts(
    tmp_path: Path,
) -> None:
    losses = [(10, 5.0), (5, 9.0), (10, 4.0), (7, float("nan")), (8, None), (None, 3.0)]
    lines = [{"Step": step, LOSS: value} for step, value in losses]
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


def test_a_broken_line_is_named_and_half_a_last_line_is_left_out(tmp_path: Path) -> None:
    file = _write(tmp_path / "metrics" / "train.jsonl", {"Step": 1, LOSS: 2.0})
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"Step": 2')
    (loss,) = read_panels(tmp_path)
    assert dict(loss.curves["training"]) == {1: 2.0}
    with file.open("a", encoding="utf-8") as stream:
        stream.write("\n")
    with pytest.raises(RunError, match=r"train.jsonl:2: "):
        read_panels(tmp_path)
