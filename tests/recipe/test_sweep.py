"""A sweep of real runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.recipe.running import CONFIG, arguments, same_weights


@pytest.mark.slow
def test_a_sweep_goes_on_after_a_failure_and_a_run_learns_as_if_it_were_alone(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    out, values = tmp_path / "out", arguments(tmp_path, dataset)[4:]
    command = ["sweep", str(out), "-c", str(CONFIG), *values]
    command += ["--over", "dataset.train_split=none,train"]
    environment = {**os.environ, "FAIRSEQ2_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "danish_asr", *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    log = (out / "train_split_none.log").read_text(encoding="utf-8")
    assert "dataset.train_split" in log
    assert "train_split_none: failed with status 2" in ended.stdout
    assert same_weights(out / "train_split_train", finished_run)
    assert "train_split_train" in ended.stdout
