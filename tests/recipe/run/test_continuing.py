"""A run that continues in its directory, also after a kill."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from danish_asr.base.config_tree import Tree, merge
from danish_asr.base.errors import RunError
from danish_asr.base.files import LOCK_FILE, to_yaml
from danish_asr.recipe.run.continuing import check_continuation, check_scores, tidy
from danish_asr.recipe.run.run import Run
from tests.run_folders import BEFORE, only_a_model, row


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, None),
        ({"trainer": {"newer": 0}}, None),
        ({"trainer": {"newer": 1}}, "trainer.newer was 0 and is now 1"),
        ({"regime": {"num_steps": 3}}, None),
        ({"regime": {"num_steps": 1}}, "regime.num_steps must be at least 2"),
        ({"regime": {"num_steps": None}}, None),
        ({"dataset": {"name": "other"}}, "dataset.name was 'mine' and is now 'other'"),
        ({"common": {"threads": 2}}, None),
        ({"common": {"seed": 2}}, "common.seed was 1 and is now 2"),
        ({"regime": {"score_metric": "cer"}}, "regime.score_metric was None"),
    ],
)
def test_a_run_continues_with_its_configuration_and_the_defaults_of_newer_keys(
    run: Path, changes: Tree, refused: str | None
) -> None:
    before: Tree = {"regime": {"num_steps": 2}, "dataset": {"name": "mine"}, "common": {"seed": 1}}
    (run / "config.yaml").write_text(to_yaml(before))
    with pytest.raises(RunError, match=refused) if refused else nullcontext():
        check_continuation(Run(run), merge(before, changes), {"trainer": {"newer": 0}})


def test_a_folder_with_other_files_is_no_run_and_may_have_a_model(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).touch()
    check_continuation(Run(tmp_path), {}, {})
    (tmp_path / "anna.wav").touch()
    with pytest.raises(RunError, match=f"model.path={tmp_path}"):
        check_continuation(Run(tmp_path), {}, {})
    (tmp_path / "environment.json").touch()
    check_continuation(Run(tmp_path), {}, {})


@pytest.mark.parametrize(
    ("step", "changes"),
    [
        (4, {}),  # killed before its end
        (8, {"dataset": {"name": "other"}}),
        (8, {"regime": {"num_steps": 16}}),
        (8, {"regime": {"num_steps": None, "num_data_epochs": 2}}),
    ],
)
def test_a_run_whose_last_checkpoint_is_only_a_model_is_not_trained_over(
    run: Path, step: int, changes: Tree
) -> None:
    only_a_model(run, step)
    now = merge(BEFORE, changes)
    with pytest.raises(RunError, match=f"step_{step}.*model.path={run}.*step_2") as refused:
        check_continuation(Run(run), now, {})
    assert ("dataset.name" in str(refused.value)) == ("dataset" in changes)
    early = {"regime": {"early_stopping_patience": 1}}
    (run / "metrics" / "valid.jsonl").write_text(row(1) + row(step, rate=20))
    with nullcontext() if "dataset" not in changes else pytest.raises(RunError):
        check_continuation(Run(run), merge(now, early), {})


def test_a_run_of_models_only_is_complete_at_its_last_step_and_continues_from_a_later_state(
    run: Path,
) -> None:
    only_a_model(run, 4)
    (run / "checkpoints" / "step_2" / "trainer").rmdir()
    with pytest.raises(RunError, match=f"step_4.*model.path={run}"):
        check_continuation(Run(run), BEFORE, {})
    only_a_model(run, 8)
    check_continuation(Run(run), BEFORE, {})
    (run / "metrics").rmdir()  # an average
    with pytest.raises(RunError, match=f"model.path={run}"):
        check_continuation(Run(run), BEFORE, {})
    for step in (2, 9):
        (run / "checkpoints" / f"step_{step}" / "trainer").mkdir(parents=True)
    check_continuation(Run(run), merge(BEFORE, {"regime": {"num_steps": 9}}), {})


def test_a_run_of_models_only_has_ended_after_its_epochs_where_it_has_a_card(run: Path) -> None:
    epochs = merge(BEFORE, {"regime": {"num_steps": None, "num_data_epochs": 2}})
    only_a_model(run, 8, epochs)
    with pytest.raises(RunError, match=f"model.path={run}"):
        check_continuation(Run(run), epochs, {})
    (run / "cards").mkdir()
    (run / "cards" / "run.yaml").write_text("data_epochs: 2\n")
    check_continuation(Run(run), epochs, {})
    with pytest.raises(RunError, match=f"model.path={run}"):
        check_continuation(Run(run), merge(epochs, {"regime": {"num_data_epochs": 3}}), {})


def test_a_run_that_is_validated_on_other_rows_says_that_its_scores_are_of_both(run: Path) -> None:
    (run / "config.yaml").write_text(to_yaml({"dataset": {"valid_split": "dev"}}))
    same, other = {"dataset.valid_split": "dev"}, {"dataset.valid_split": "dev,test"}
    assert check_scores(Run(run), other) is None  # nothing is scored yet
    (run / "checkpoints" / "scores").mkdir()
    Run(run).score_file(2).write_text("-40\n")
    assert check_scores(Run(run), same) is None
    assert "dataset.valid_split" in str(check_scores(Run(run), other))


def test_a_score_that_a_kill_has_cost_is_written_from_its_validation(run: Path) -> None:
    (run / "metrics" / "valid.jsonl").write_text(row(1, rate=12.5) + row(2, rate=30.25))
    scores = run / "checkpoints" / "scores"
    scores.mkdir()
    (scores / "step_1.txt").touch()  # a power loss leaves it empty
    tidy(Run(run))
    assert (scores / "step_1.txt").read_text() == "-12.5\n"
    assert (Run(run).scores, Run(run).best) == ({1: -12.5, 2: -30.25}, 1)


@pytest.mark.parametrize("cut", ['{"Step": 2, "Wo', '{"Step": 2}', "\0\0\n", '{"Stop": 1}\n'])
def test_metrics_after_the_last_checkpoint_are_dropped(run: Path, cut: str) -> None:
    """TRAPS, data reading: upstream's metrics files hold steps twice after a kill."""
    train, valid = (run / "metrics" / f"{name}.jsonl" for name in ("train", "valid"))
    train.write_text(row(1) + row(2) + row(3))
    valid.write_text(row(1) + cut)
    half = run / "checkpoints" / "step_137.tmp" / "model"
    half.mkdir(parents=True)
    (run / "checkpoints" / "step_138").touch()
    assert (Run(run).steps, Run(run).resumable_steps) == ([1, 2], [2])
    tidy(Run(run))
    assert (train.read_text(), valid.read_text()) == (row(1) + row(2), row(1))
    assert not half.parent.exists()


def test_metrics_up_to_a_last_checkpoint_that_is_only_a_model_are_kept(run: Path) -> None:
    only_a_model(run, 3)
    valid = run / "metrics" / "valid.jsonl"
    assert Run(run).validations() == []
    valid.write_text(row(1) + row(3) + row(4))
    assert [found["Step"] for found in Run(run).validations()] == [1, 3]
    tidy(Run(run))
    assert valid.read_text() == row(1) + row(3)
