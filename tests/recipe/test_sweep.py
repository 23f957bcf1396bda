"""A sweep of real runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.recipe.running import CONFIG, arguments, same_weights, train


def sweep(out: Path, dataset: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["sweep", str(out), "-c", str(CONFIG), *arguments(out, dataset)[4:], *options]
    return subprocess.run(
        [sys.executable, "-m", "danish_asr", *command],
        env={**os.environ, "FAIRSEQ2_DEVICE": "cpu", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_sweep_goes_on_after_a_failure_and_a_run_learns_as_if_it_were_alone(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    out = tmp_path / "out"
    ended = sweep(out, dataset, "--over", "dataset.train_split=none,train")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    log = (out / "train_split_none.log").read_text(encoding="utf-8")
    assert "dataset.train_split" in log
    assert "train_split_none: failed with status 2" in ended.stdout
    assert same_weights(out / "train_split_train", finished_run)
    assert "train_split_train" in ended.stdout


@pytest.mark.slow
def test_a_sweep_does_not_train_a_finished_run_of_models_only_again(
    tmp_path: Path, dataset: Path
) -> None:
    out, models = tmp_path / "out", "regime.save_model_only=true"
    run = out / "seed_1"
    assert train(run, dataset, models, "common.seed=1") == 0
    # Training again would give the same weights in new files.
    before = {file: file.stat().st_ino for file in run.rglob("*.pt")}
    ended = sweep(out, dataset, models, "--over", "common.seed=1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert {file: file.stat().st_ino for file in run.rglob("*.pt")} == before
    assert str(run) in (out / "seed_1.log").read_text(encoding="utf-8")
