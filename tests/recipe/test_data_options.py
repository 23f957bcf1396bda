"""The keys that choose and augment rows."""

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from danish_asr.recipe.data.dataset import DanishAsrDataset
from danish_asr.recipe.data.index import Index
from tests.recipe.running import (
    copy_until,
    evaluate,
    losses,
    metrics,
    same_weights,
    train,
)


def test_training_plays_its_rows_at_other_speeds(
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    own = ["dataset.speed_factors=[0.9, 1.1]", "regime.num_steps=1", "dataset.valid_split=null"]
    assert train(tmp_path / "run", dataset, *own) == 0
    assert losses(tmp_path / "run")[0] != losses(finished_run)[0]


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


def test_a_training_subset_has_the_dialects_and_corpora_in_their_shares(dataset: Path) -> None:
    index = DanishAsrDataset(dataset).read_index("train")
    # 48 rows become 9,600, in the order of their shards.
    index = index.take(np.repeat(np.arange(len(index)), 200))
    subset = index.subset(960, nested=True)
    assert len(subset) == 960
    whole, part = (Counter(rows.values("dialect", range(len(rows)))) for rows in (index, subset))
    assert {name: 10 * part[name] for name in whole} == pytest.approx(whole, abs=40)
    shares = [np.bincount(rows.partition_of) / len(rows) for rows in (index, subset)]
    assert shares[0] == pytest.approx(shares[1], abs=0.005)


def test_training_reads_its_subset(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, subset = tmp_path / "run", "dataset.train_subset=10"
    rows = len(DanishAsrDataset(dataset).read_index("train").subset(10, nested=True))
    every = ["dataset.asr_task_config.max_audio_len=640000", "regime.num_steps=2"]
    assert train(run, dataset, subset, *every) == 0
    (line,) = [text for text in capsys.readouterr().err.splitlines() if "for training" in text]
    used, gone = (int(word) for word in line.replace(",", "").split() if word.isdigit())
    assert used + gone == rows < 15


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
    tmp_path: Path, dataset: Path, finished_run: Path
) -> None:
    found, predictions = [], []
    for size in (1, 10_000_000):
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
