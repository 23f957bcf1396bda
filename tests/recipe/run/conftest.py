from pathlib import Path

import pytest


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a checkpoint to continue from, after one with a model only."""
    run = tmp_path / "run"
    for folder in ("checkpoints/step_1/model", "checkpoints/step_2/trainer", "metrics"):
        (run / folder).mkdir(parents=True)
    return run
