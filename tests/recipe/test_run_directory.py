"""A run's directory when the run continues in it, also after a kill."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from danish_asr.base.config_tree import Tree, merge
from danish_asr.base.errors import RunError
from danish_asr.base.files import to_yaml
from danish_asr.recipe.run.run_directory import (
    check_continuation,
    checkpoint_scores,
    checkpoint_steps,
    resumable_steps,
    tidy,
    validations,
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


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, None),
        ({"trainer": {"newer": 0}}, None),
        ({"trainer": {"newer": 1}}, "trainer.newer was 0 and is now 1"),
        ({"regime": {"num_steps": 3}}, None),
        ({"regime": {"num_steps": 1}}, "regime.num_steps must be at least 2"),
        ({"dataset": {"name": "other"}}, "dataset.name was 'mine' and is now 'other'"),
    ],
)
def test_a_run_continues_with_its_configuration_and_the_defaults_of_newer_keys(
    run: Path, changes: Tree, refused: str | None
) -> None:
    before = {"regime": {"num_steps": 2}, "dataset": {"name": "mine"}}
    (run / "config.yaml").write_text(to_yaml(before))
    with pytest.raises(RunError, match=refused) if refused else nullcontext():
        check_continuation(run, merge(before, changes), {"trainer": {"newer": 0}})


def test_a_folder_with_other_files_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "anna.wav").touch()
    with pytest.raises(RunError, match=str(tmp_path)):
        check_continuation(tmp_path, {}, {})


@pytest.mark.parametrize("cut", ['{"Step": 2, "Wo', '{"Step": 2}', "\0\0\n", '{"Stop": 1}\n'])
def test_metrics_after_the_last_checkpoint_are_dropped(run: Path, cut: str) -> None:
    """TRAPS, data reading: upstream's metrics files hold steps twice after a kill."""
    train, valid = (run / "metrics" / f"{name}.jsonl" for name in ("train", "valid"))
    train.write_text(row(1) + row(2) + row(3))
    valid.write_text(row(1) + cut)
    half = run / "checkpoints" / "step_137.tmp" / "model"
    half.mkdir(parents=True)
    assert (checkpoint_steps(run), resumable_steps(run)) == ([2, 4], [2])
    assert [found["Step"] for found in validations(run)] == [1]
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
