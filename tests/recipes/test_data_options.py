"""What a run makes of the keys that change which rows are read, and how."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from tests.recipes.running import metrics, train, weights

SPEEDS = "dataset.speed_factors=[0.9, 1.0, 1.1]"


def losses(run: Path) -> list[float]:
    return [row["CTC Loss"] for row in metrics(run, "train")]


def test_a_run_that_plays_rows_faster_and_slower_continues_bit_for_bit(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert train(whole, dataset, SPEEDS) == 0
    shutil.copytree(whole, stopped)
    shutil.rmtree(stopped / "checkpoints" / "step_4")
    assert train(stopped, dataset, SPEEDS) == 0
    assert losses(stopped) == losses(whole)
    assert losses(whole)[0] != losses(finished_run)[0]
    left, right = weights(whole, 4), weights(stopped, 4)
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_a_run_may_not_continue_with_other_speeds(
    tmp_path: Path, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    assert train(run, dataset, SPEEDS) == 2
    assert "dataset.speed_factors was [] and is now [0.9, 1.0, 1.1]" in capsys.readouterr().err
