"""The keys that choose and augment rows."""

import json
import shutil
from pathlib import Path

import pytest

from danish_asr.recipe.data.dataset import DanishAsrDataset
from danish_asr.recipe.data.index import Index
from tests.recipe.running import (
    copy_until,
    evaluate,
    metrics,
    same_weights,
    train,
)


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("size", [1, 7, 11, 30, 47])
def test_a_subset_is_fixed_leaves_no_dialect_out_and_in_training_holds_the_smaller_ones(
    dataset: Path, size: int, *, nested: bool
) -> None:
    index = DanishAsrDataset(dataset).read_index("train")
    subset = index.subset(size, nested=nested)
    assert ids(subset) == ids(index.subset(size, nested=nested))
    assert set(subset.dialects()[1]) == set(index.dialects()[1])
    for larger in range(size, len(index) + 2) if nested else ():
        assert set(ids(subset)) <= set(ids(index.subset(larger, nested=True)))


def ids(index: Index) -> list[str]:
    return index.values("id", range(len(index)))


def test_a_run_on_a_part_of_the_rows_continues_exactly(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, part = tmp_path / "run", "dialect in ('Fynsk', 'Bornholmsk') or gender = 'male'"
    given = [f"dataset.train_where={part}", "dataset.valid_where=gender = 'female'"]
    assert train(run, dataset, *given) == 0
    rows = len(DanishAsrDataset(dataset).read_index("train", where=part))
    assert f"{rows} rows of train where {part}" in capsys.readouterr().err
    women = len(DanishAsrDataset(dataset).read_index("dev", where="gender = 'female'"))
    assert metrics(run, "valid")[-1]["Number of Examples"] == women
    again = copy_until(2, run, tmp_path / "again")
    assert train(again, dataset, "dataset.train_where=age > 20") == 2
    assert "dataset.train_where" in capsys.readouterr().err
    assert train(again, dataset, *given) == 0
    assert same_weights(run, again)
    scored = ["evaluator.where=gender = 'male'", "evaluator.label=men"]
    assert evaluate(run, dataset, *given, *scored) == 0
    rows = len(DanishAsrDataset(dataset).read_index("test", where="gender = 'male'"))
    assert f"{rows} predictions written" in capsys.readouterr().err
    about = json.loads((run / "eval" / "best" / "test" / "men" / "evaluation.json").read_text())
    assert (about["rows"], about["rows_in_split"]) == ({"test": rows}, {"test": 16})
    assert evaluate(run, dataset, scored[0]) == 2
    assert "evaluator.label must name" in capsys.readouterr().err


def test_scores_do_not_depend_on_the_size_of_evaluations_batches(
    tmp_path: Path, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, predictions = [], []
    for size in (1, "100x"):
        run = shutil.copytree(finished_run, tmp_path / str(size))
        assert evaluate(run, dataset, f"dataset.valid_max_num_elements={size}") == 0
        folder = run / "eval" / "best" / "test"
        row = metrics(folder, "eval")[-1]
        found.append((row["Batch Size"], row["CTC Loss"], row["Word Error Rate (WER)"]))
        predictions.append((folder / "predictions.jsonl").read_bytes())
    (alone, *one), (together, *all_) = found
    assert (alone, together) == (1, 16)
    assert one == pytest.approx(all_, rel=1e-5)
    assert predictions[0] == predictions[1]
    assert capsys.readouterr().err.count("valid_max_num_elements is 100 times") == 1
