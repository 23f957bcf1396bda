"""A run's directory when the run continues in it, also after a kill."""

from pathlib import Path

import pytest

from danish_asr.recipe.run.run_directory import (
    checkpoint_scores,
    checkpoint_steps,
    resumable_steps,
    tidy,
    validation_scores,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a checkpoint to continue from, and a later one with a model only."""
    run = tmp_path / "run"
    for folder in ("checkpoints/step_2/trainer", "checkpoints/step_4/model", "metrics"):
        (run / folder).mkdir(parents=True)
    return run


def row(step: int) -> str:
    return f'{{"Step": {step}, "Word Error Rate (WER)": {10 - step}, "Lapse Time": 2.5}}\n'


@pytest.mark.parametrize("cut", ['{"Step": 2, "Wo', '{"Step": 2}', "\0\0\n", '{"Stop": 1}\n'])
def test_metrics_after_the_last_checkpoint_are_dropped(run: Path, cut: str) -> None:
    """TRAPS, data reading: upstream's metrics files hold steps twice after a kill."""
    train, valid = (run / "metrics" / f"{name}.jsonl" for name in ("train", "valid"))
    train.write_text(row(1) + row(2) + row(3))
    valid.write_text(row(1) + cut)
    half = run / "checkpoints" / "step_137.tmp" / "model"
    half.mkdir(parents=True)
    assert (checkpoint_steps(run), resumable_steps(run)) == ([2, 4], [2])
    assert validation_scores(run, "wer") == [-9.0]
    tidy(run)
    assert (train.read_text(), valid.read_text()) == (row(1) + row(2), row(1))
    assert not half.parent.exists()


@pytest.mark.parametrize("damaged", [b"", b"\0\0\0", b"-4\xff"])
def test_a_damaged_score_counts_as_absent_and_is_deleted_when_the_run_continues(
    run: Path, damaged: bytes
) -> None:
    scores = run / "checkpoints" / "scores"
    scores.mkdir()
    (scores / "step_2.txt").write_text("-40.5\n")
    (scores / "step_4.txt").write_bytes(damaged)
    assert checkpoint_scores(run) == {2: -40.5}
    tidy(run)
    assert [file.name for file in scores.iterdir()] == ["step_2.txt"]
