"""The mean of a run's checkpoints is a run like any other."""

import errno
from pathlib import Path

import pytest
import torch

from danish_asr.base.errors import RunError
from danish_asr.base.files import from_yaml
from danish_asr.inference.model import load_model
from danish_asr.recipe.run.run import Run
from danish_asr.recipe.train import record
from danish_asr.recipe.train.average import average
from tests.running import copy_until, evaluate, train, weights


@pytest.fixture
def run(tmp_path: Path, finished_run: Path) -> Path:
    """A copy of a run with checkpoints at steps 2 and 4."""
    return copy_until(4, finished_run, tmp_path / "run")


def test_each_tensor_is_the_mean_of_those_of_the_last_checkpoints(run: Path) -> None:
    averaged = weights(average(run, 2).folder, 4)
    earlier, later = weights(run, 2), weights(run, 4)
    assert averaged.keys() == later.keys()
    for name, value in averaged.items():
        assert value.dtype == later[name].dtype
        torch.testing.assert_close(value, (earlier[name] + later[name]) / 2)


def test_the_average_is_evaluated_transcribed_with_and_trained_on_like_a_run(
    run: Path, dataset: Path
) -> None:
    folder = average(run, 2).folder
    card = from_yaml((folder / "cards" / f"{folder.name}.yaml").read_text())
    assert (folder / "cards" / card["checkpoint"]).is_dir()
    assert evaluate(folder, dataset, "evaluator.split=dev") == 0
    state = load_model(folder, device="cpu").module.state_dict()
    assert torch.equal(state["final_proj.weight"], weights(folder, 4)["final_proj.weight"])
    own = ("model={path: " + str(folder) + ", config_overrides: null}", "regime.num_steps=2")
    assert train(run.parent / "next", dataset, *own) == 0


def test_an_average_is_not_trained_over(
    run: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = average(run, 2).folder
    averaged = weights(folder, 4)
    assert train(folder, dataset) == 2
    assert f"model.path={folder}" in capsys.readouterr().err
    assert all(torch.equal(value, averaged[name]) for name, value in weights(folder, 4).items())


def test_a_run_with_too_few_checkpoints_and_an_average_that_exists_are_refused(run: Path) -> None:
    with pytest.raises(RunError, match="--last"):
        average(run, 3)
    with pytest.raises(RunError, match=r"config\.yaml"):
        average(run.parent, 1)
    folder = average(run, 2).folder
    with pytest.raises(RunError, match=folder.name):
        average(run, 2)
    (run / "checkpoints" / "step_4" / "model" / "pp_00" / "tp_00" / "sdp_01.pt").touch()
    folder.rename(run.parent / "moved")
    with pytest.raises(RunError, match="step_4"):
        average(run, 2)


@pytest.mark.parametrize("fault", ["full disk", "damaged", "code"])
def test_an_average_that_cannot_be_made_leaves_nothing_and_names_why(
    run: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    file = run / "checkpoints" / "step_2" / "model" / "pp_00" / "tp_00" / "sdp_00.pt"
    if fault == "damaged":
        file.write_bytes(file.read_bytes()[:1000])
    elif fault == "code":
        torch.save({"weight": Path()}, file)
    else:
        monkeypatch.setattr(record, "publish_text", fill_disk)
    with pytest.raises(RunError, match="run-last-2" if fault == "full disk" else str(file)):
        average(run, 2)
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_an_average_of_a_run_that_is_not_complete_says_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    average(run, 1)
    assert not capsys.readouterr().err
    average(copy_until(2, run, tmp_path / "begun"), 1)
    assert f"{tmp_path / 'begun'} is not complete" in capsys.readouterr().err


def fill_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_average_says_its_steps_and_replaces_what_a_kill_has_left(run: Path) -> None:
    (run.parent / ".run-last-2.partial" / "checkpoints" / "step_1").mkdir(parents=True)
    made = average(run, 2)
    assert (made.steps, Run(made.folder).steps) == ([2, 4], [4])
    assert sorted(path.name for path in run.parent.iterdir()) == ["run", "run-last-2"]
