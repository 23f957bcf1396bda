"""A sweep of real runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from danish_asr.recipe.run.outcome import PRUNED
from danish_asr.recipe.run.run_directory import checkpoint_steps
from tests.recipe.running import CONFIG, arguments, same_weights


@pytest.mark.slow
def test_a_sweep_stops_a_bad_run_at_a_rung_and_the_good_one_learns_as_if_it_were_alone(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    out, values = tmp_path / "out", arguments(tmp_path, dataset)[4:]
    command = ["sweep", str(out), "-c", str(CONFIG), *values, "--rungs", "1"]
    command += ["--over", "optimizer.config.lr=1e-9,2e-3"]
    environment = {**os.environ, "FAIRSEQ2_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, "-m", "danish_asr", *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert (out / "lr_1e-09" / PRUNED).is_file()
    assert checkpoint_steps(out / "lr_1e-09") == [2]
    assert same_weights(out / "lr_0.002", finished_run)
    assert "hardly trained" in found.stdout
    assert "Word Error Rate (WER), dev" in (out / "runs.html").read_text(encoding="utf-8")
