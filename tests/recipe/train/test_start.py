"""What a run began with is in its directory: where that came from may change or be gone."""

import shutil
from pathlib import Path

import pytest

from danish_asr.base.config_tree import read_yaml
from tests.running import copy_until, same_weights, train, weights

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("change", ["better", "gone", "relative", "no card of the name"])
def test_a_run_continues_with_the_model_that_it_began_with(
    tmp_path: Path,
    dataset: Path,
    finished_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    source = shutil.copytree(finished_run, tmp_path / "source")
    named = f"model={{path: {source}}}"
    if change == "no card of the name":
        monkeypatch.setenv("DANISH_ASR_ASSETS", str(source / "cards"))
        named = "model={name: finished}"
    straight = tmp_path / "straight"
    assert train(straight, dataset, named) == 0
    run = copy_until(2, straight, tmp_path / "run")
    if change == "better":
        (source / "checkpoints" / "scores" / "step_2.txt").write_text("0\n")
    elif change == "relative":
        monkeypatch.chdir(tmp_path)
        named = "model={path: source}"
    else:
        shutil.rmtree(source)
    assert train(run, dataset, named) == 0
    assert same_weights(run, straight)


def test_another_model_is_refused(
    tmp_path: Path, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert train(run, dataset, f"model={{path: {finished_run}}}") == 0
    assert read_yaml(run / "config.yaml")["model"]["path"] == str(finished_run.resolve())
    other = shutil.copytree(finished_run, tmp_path / "other")
    before = weights(run, 4)
    assert train(run, dataset, f"model={{path: {other}}}", "regime.num_steps=6") == 2
    assert "model.path" in capsys.readouterr().err
    assert weights(run, 4).keys() == before.keys()


def test_a_run_and_its_dataset_may_have_the_same_name(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "tiny")
    (run / "cards" / "finished.yaml").rename(run / "cards" / "tiny.yaml")
    card = run / "cards" / "tiny.yaml"
    card.write_text(card.read_text().replace("name: finished", "name: tiny"))
    assert read_yaml(card)["name"] == "tiny"
    short = "regime.num_steps=2"
    assert train(tmp_path / "next", dataset, f"model={{path: {run}}}", short) == 0
