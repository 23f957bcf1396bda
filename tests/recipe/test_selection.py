"""What an evaluation scores, and where its results go."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import sha256_of
from danish_asr.recipe.evaluate.recipe import select
from danish_asr.recipe.run.run_directory import EVALUATION, PREDICTIONS
from tests.recipe.running import evaluate

NAMED: dict[str, Any] = {"model": {"name": "omniASR_CTC_300M"}, "dataset": {"name": "tiny"}}
OF_UPSTREAM = {**NAMED, "dataset": {"name": "tiny", "valid_split": "dev"}}
TRAINING = {**NAMED, "dataset": {"name": "tiny", "train_split": "train", "valid_split": "dev"}}


@pytest.mark.parametrize(
    ("tree", "split"), [(NAMED, "test"), (OF_UPSTREAM, "dev"), (TRAINING, "test")]
)
def test_without_a_run_the_named_model_is_scored(
    tmp_path: Path, tree: dict[str, Any], split: str
) -> None:
    selection = select(tmp_path / "new", tree, where="the test")
    assert selection.step is None
    assert selection.output_dir == tmp_path / "new" / "eval" / "omniASR_CTC_300M" / split


@pytest.mark.parametrize("tree", [{}, NAMED, OF_UPSTREAM, TRAINING])
def test_of_a_run_the_best_checkpoint_is_scored(finished_run: Path, tree: dict[str, Any]) -> None:
    tree = {"dataset": {"name": "tiny"}, **tree}
    selection = select(finished_run, tree, where="the test")
    assert selection.step in {2, 4}
    assert selection.output_dir == finished_run / "eval" / "best" / "test"


def test_neither_a_run_nor_a_model_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        select(tmp_path, {"dataset": {"name": "tiny"}}, where="the test")
    (fault,) = refused.value.faults
    assert fault.startswith("evaluator.checkpoint")


def test_an_evaluation_is_written_again_also_of_another_checkpoint(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    file = run / "eval" / "best" / "test" / EVALUATION
    assert evaluate(run, dataset) == 0
    first = json.loads(file.read_text())
    assert first["predictions_sha256"] == sha256_of(file.with_name(PREDICTIONS))
    assert file.with_name("report.html").is_file()
    scores = run / "checkpoints" / "scores"
    best, other = (2, 4) if first["step"] == 2 else (4, 2)
    (scores / f"step_{best}.txt").write_text("-1000\n")
    (scores / f"step_{other}.txt").write_text("0\n")
    assert evaluate(run, dataset, "regime.score_profile=plain") == 0
    again = json.loads(file.read_text())
    assert again["step"] == other
    document = json.loads(file.with_name("scores.json").read_text(encoding="utf-8"))
    assert document["settings"]["profile"] == "plain"
