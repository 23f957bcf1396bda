"""Which model, rows and directory an evaluation is of."""

from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.config_tree import Tree, merge
from danish_asr.base.errors import ConfigError
from danish_asr.base.files import to_yaml
from danish_asr.recipe.entry import Request
from danish_asr.recipe.evaluate.selection import choose, results_dir
from danish_asr.recipe.run.run import Run

NAMED: dict[str, Any] = {"model": {"name": "omniASR_CTC_300M"}, "dataset": {"name": "tiny"}}

OF_UPSTREAM = {**NAMED, "dataset": {"name": "tiny", "valid_split": "dev"}}

TRAINING = {**NAMED, "dataset": {"name": "tiny", "train_split": "train", "valid_split": "dev"}}


@pytest.mark.parametrize(
    ("tree", "split"), [(NAMED, "test"), (OF_UPSTREAM, "dev"), (TRAINING, "test")]
)
def test_without_a_run_the_named_model_is_scored(
    tmp_path: Path, tree: dict[str, Any], split: str
) -> None:
    run = Run(tmp_path / "new")
    checkpoint, config = choose(Request(output_dir=run.folder), tree)
    assert checkpoint is None
    assert results_dir(run, config) == run.folder / "eval" / "omniASR_CTC_300M" / split


@pytest.mark.parametrize("tree", [{}, NAMED, OF_UPSTREAM, TRAINING])
def test_of_a_run_the_best_checkpoint_is_scored(finished_run: Path, tree: dict[str, Any]) -> None:
    tree = {"dataset": {"name": "tiny"}, **tree}
    run = Run(finished_run)
    checkpoint, config = choose(Request(output_dir=finished_run), tree)
    assert checkpoint is not None
    assert checkpoint.step == run.best
    assert results_dir(run, config) == finished_run / "eval" / "best" / "test"


def test_neither_a_run_nor_a_model_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        choose(Request(output_dir=tmp_path), {"dataset": {"name": "tiny"}})
    (fault,) = refused.value.faults
    assert fault.startswith("evaluator.checkpoint")


def test_the_same_place_of_a_dataset_is_the_same_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path / "run")
    run.folder.mkdir()
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    for written, asked in (("data", tmp_path / "data"), (tmp_path / "data", "data")):
        own = {"dataset": {"name": "tiny", "config_overrides": {"data": str(written)}}}
        (run.folder / "config.yaml").write_text(to_yaml(own))
        named: Tree = {"dataset": {"name": "tiny", "config_overrides": {"data": str(asked)}}}
        tree = merge(named, {"model": {"name": "m"}, "evaluator": {"checkpoint": "none"}})
        _, config = choose(Request(output_dir=run.folder), tree)
        assert results_dir(run, config).name == "test"


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ({"decoder": {"name": "beam"}}, "test/beam"),
        ({"decoder": {"name": "mine:Decoder"}}, "test/mine.Decoder"),
        ({"decoder": {"name": "beam"}, "evaluator": {"label": "own"}}, "test/own/beam"),
        ({"dataset": {"name": "other"}}, "test@other"),
    ],
)
def test_another_decoder_label_or_dataset_has_a_directory_of_its_own(
    tmp_path: Path, tree: Tree, place: str
) -> None:
    run = Run(tmp_path)
    (tmp_path / "config.yaml").write_text(to_yaml({"dataset": {"name": "tiny"}}))
    named = merge({**NAMED, "evaluator": {"checkpoint": "none"}}, tree)
    _, config = choose(Request(output_dir=tmp_path), named)
    assert results_dir(run, config) == tmp_path / "eval" / "omniASR_CTC_300M" / place
