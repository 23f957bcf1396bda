"""Early stopping in real trainings, whose validations give the scores of a table."""

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fairseq2.utils.device_stat import NOOP_DEVICE_STAT_TRACKER

from danish_asr.base.config_tree import read_yaml
from danish_asr.recipe.run.run import Run
from danish_asr.recipe.train import training
from danish_asr.recipe.train.console import RunReport
from danish_asr.recipe.train.learning import OffloadedAdamW
from danish_asr.recipe.train.trainer import StoppableTraining
from danish_asr.recipe.train.validation import AsrValidationUnit, PatienceStopper
from danish_asr.report.runs import COMPLETE, ListedRun
from tests.forks import in_processes
from tests.running import arguments, copy_until, metrics, train, train_main

PATIENCE = "regime.early_stopping_patience"

EACH_STEP = (
    *("regime.num_steps=9", "regime.validate_every_n_steps=1", f"{PATIENCE}=2"),
    "regime.checkpoint_every_n_steps=1",
)

RATES = {1: 120.0, 2: 100.0, 3: 100.0, 4: 60.0, 5: 70.0, 6: 60.0, 7: 60.5, 8: 100.0, 9: 50.0}
"""A model that first writes nothing; the best is that of step 6, which only equals step 4."""


def give(rates: Mapping[int, float], patch: pytest.MonkeyPatch) -> None:
    """Let the validation after a step measure the WER of a table."""
    publish, steps = AsrValidationUnit.process_metric_values, list[int]()

    def begin(_unit: AsrValidationUnit, step: int) -> None:
        steps.append(step)

    def measure(unit: AsrValidationUnit, values: dict[str, Any]) -> None:
        publish(unit, values)
        values["wer"] = rates[steps[-1]]

    patch.setattr(AsrValidationUnit, "set_train_step_nr", begin, raising=False)
    patch.setattr(AsrValidationUnit, "process_metric_values", measure)


@pytest.fixture(autouse=True)
def _rates(monkeypatch: pytest.MonkeyPatch) -> None:
    give(RATES, monkeypatch)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> StoppableTraining:
    """The training of a run, which `_output_dir` has; it stopped early. Not to be changed."""
    made: list[StoppableTraining] = []

    def make(*given: Any, **named: Any) -> StoppableTraining:
        made.append(StoppableTraining(*given, **named))
        return made[-1]

    run, own = tmp_path_factory.mktemp("early") / "run", "optimizer.name=adamw_offload"
    with pytest.MonkeyPatch.context() as patch:
        give(RATES, patch)
        patch.setattr(training, "StoppableTraining", make)
        assert train(run, dataset, *EACH_STEP, own) == 0
    return made[0]


@pytest.fixture
def run(trained: StoppableTraining, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained._run.folder, tmp_path / "run"))


def steps_of(run: Path) -> list[int]:
    return [row["Step"] for row in metrics(run, "train")]


def test_a_training_stops_at_its_patience_with_a_checkpoint_and_the_reason(run: Path) -> None:
    """TRAPS, training: an early stopper in fairseq2's container never reaches the trainer."""
    assert steps_of(run)[-1] == Run(run).steps[-1] == 8
    assert max(Run(run).scores, key=lambda step: (Run(run).scores[step], step)) == 6
    card = read_yaml(run / "cards" / "run.yaml")
    assert card["checkpoint"] == "../checkpoints/step_6/model"
    assert PATIENCE in card["stopped_early"]
    assert PATIENCE in (run / "logs" / "rank_0.log").read_text()
    assert ListedRun(run).state == COMPLETE


def test_a_run_that_stopped_early_says_so_and_a_larger_patience_continues_it(
    run: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = (*EACH_STEP, "optimizer.name=adamw_offload")
    logger = logging.getLogger("fairseq2")
    for handler in [*logger.handlers]:  # a new process has none
        logger.removeHandler(handler)
        handler.close()
    assert train(run, dataset, *own) == 0
    printed = capsys.readouterr().err
    assert f"{PATIENCE}=2" in printed
    assert f"danish-asr evaluate {run}" in printed
    assert steps_of(run)[-1] == 8
    assert train(run, dataset, *own, f"{PATIENCE}=3") == 0
    assert steps_of(run)[-1] == 9
    assert "stopped_early" not in read_yaml(run / "cards" / "run.yaml")


def test_validations_before_a_stop_count_when_the_run_continues(
    trained: StoppableTraining, tmp_path: Path, dataset: Path
) -> None:
    own = (*EACH_STEP, "optimizer.name=adamw_offload", "regime.keep_last_n_checkpoints=3")
    run = copy_until(7, trained._run.folder, tmp_path / "run")
    assert train(run, dataset, *own) == 0
    assert steps_of(run)[-1] == 8


def test_a_run_whose_patience_ends_at_its_last_step_is_complete_by_its_steps(
    trained: StoppableTraining, tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = (*EACH_STEP, "optimizer.name=adamw_offload", "regime.num_steps=8")
    run = copy_until(7, trained._run.folder, tmp_path / "run")
    assert train(run, dataset, *own) == 0
    assert steps_of(run)[-1] == 8
    capsys.readouterr()
    assert train(run, dataset, *own) == 0
    assert "a larger regime.num_steps" in capsys.readouterr().err
    assert "stopped_early" not in read_yaml(run / "cards" / "run.yaml")


def train_with_rates(args: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        give(RATES, patch)
        train_main(args)


@pytest.mark.slow
def test_two_processes_stop_after_the_same_step_which_is_saved(
    tmp_path: Path, dataset: Path
) -> None:
    run, own = tmp_path / "run", (*EACH_STEP, "regime.checkpoint_every_n_steps=5")
    in_processes(2, train_with_rates, arguments(run, dataset, *own, "gang.timeout=1"))
    assert steps_of(run)[-1] == 8
    assert Run(run).steps == [5, 8]


@pytest.mark.parametrize("place", ["trainer", "validator"])
def test_what_is_registered_is_what_a_run_uses(trained: StoppableTraining, place: str) -> None:
    """TRAPS, training: the container passes over some parameters without a message."""
    used: dict[str, Any] = {"trainer": trained._trainer, "validator": trained.validator}
    user = used[place] if place == "trainer" else used[place]._inner
    recorders = user._metric_recorder._recorders
    assert [type(recorder) for recorder in recorders].count(RunReport) == 1
    assert user._device_stat_tracker is NOOP_DEVICE_STAT_TRACKER
    assert user._checkpoint_manager is trained._checkpoints
    assert user._wall_watch is trained._watch
    if place == "trainer":
        assert isinstance(user._early_stopper, PatienceStopper)
        assert isinstance(user._optimizer, OffloadedAdamW)
        assert user._lr_scheduler is trained._scheduler
        assert user._optimizer is trained._scheduler.optimizer
    else:
        assert user._score_metric_descriptor.display_name == "Word Error Rate (WER)"
