"""The keys that choose and augment rows."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from danish_asr.recipe.data.index import DanishAsrDataset, Index
from tests.recipe.running import (
    copy_until,
    evaluate,
    metrics,
    train,
)


@pytest.mark.parametrize("size", [1, 7, 11, 30, 47])
def test_a_subset_is_fixed_leaves_no_dialect_out_and_holds_the_smaller_ones(
    dataset: Path, size: int
) -> None:
    index = DanishAsrDataset(dataset).read_index("train")
    subset = index.subset(size)
    assert ids(subset) == ids(index.subset(size))
    assert abs(len(subset) - size) <= len(index.dialects()[1])
    assert set(subset.dialects()[1]) == set(index.dialects()[1])
    for larger in range(size, len(index) + 2):
        assert set(ids(subset)) <= set(ids(index.subset(larger)))


def ids(index: Index) -> list[str]:
    return index.values("id", range(len(index)))


def test_a_run_on_a_part_of_the_rows_continues_with_that_part_alone(
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
    scored = ["evaluator.where=gender = 'male'", "evaluator.label=men"]
    assert evaluate(run, dataset, *given, *scored) == 0
    rows = len(DanishAsrDataset(dataset).read_index("test", where="gender = 'male'"))
    assert f"{rows} predictions written" in capsys.readouterr().err
    about = json.loads((run / "eval" / "best" / "test" / "men" / "evaluation.json").read_text())
    assert (about["rows"], about["rows_in_split"]) == ({"test": rows}, {"test": 16})
    assert evaluate(run, dataset, scored[0]) == 2
    assert "evaluator.label must name" in capsys.readouterr().err


WEIGHTS = (
    "dataset.weights=[{where: \"corpus = 'coral_conversation'\", factor: 0.5}, "
    "{where: \"dialect = 'Bornholmsk'\", factor: 3}]"
)


def test_a_run_with_weights_prints_them_and_continues_with_these_alone(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert train(run, dataset, WEIGHTS) == 0
    printed = capsys.readouterr().err
    assert re.search(r"0.5 x corpus = 'coral_conversation' +19 .* 0\.\d\d\n", printed), printed
    again = copy_until(2, run, tmp_path / "again")
    assert train(again, dataset, WEIGHTS.replace("0.5", "0.6")) == 2
    assert "dataset.weights" in capsys.readouterr().err


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


@pytest.mark.parametrize("seed", [1, 2])
def test_a_share_is_of_each_dialects_hours_by_speakers_and_contains_the_smaller_ones(
    dataset: Path, seed: int
) -> None:
    index = DanishAsrDataset(dataset).read_index("train")
    codes, _ = index.dialects()
    hours = np.bincount(codes, index.lengths)
    longest = index.lengths.max()
    names = index.values("speaker_id", [*range(len(index))])
    # A speaker in two corpora is two.
    speakers = np.array([*map("{} {}".format, index.partition_of, names)])
    before: set[int] = set()
    for share in (0.05, 0.3, 0.5, 0.8, 1.0):
        chosen = {*ids(index.share(share, seed))}
        rows = np.flatnonzero([name in chosen for name in ids(index)])
        assert before <= {*rows.tolist()}
        before = {*rows.tolist()}
        of_share = np.bincount(codes[rows], index.lengths[rows], len(hours))
        assert (abs(of_share - share * hours) <= longest).all()
        for code in range(len(hours)):  # at most one speaker of a dialect is divided
            inside = {*speakers[rows[codes[rows] == code]]}
            others = np.setdiff1d(np.flatnonzero(codes == code), rows)
            assert len(inside & {*speakers[others]}) <= 1
    assert len(before) == len(index)


def test_the_seed_draws_the_speakers_of_a_share(dataset: Path) -> None:
    index = DanishAsrDataset(dataset).read_index("train")
    drawn = {tuple(ids(index.share(0.4, seed))) for seed in range(5)}
    assert len(drawn) > 1


def test_a_run_notes_how_much_it_trains_on(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert train(run, dataset, "dataset.train_share=0.5", "regime.num_steps=2") == 0
    index = DanishAsrDataset(dataset).read_index("train")
    half = index.share(0.5, seed=2)
    noted = json.loads((run / "training_data.json").read_text())
    used = noted["utterances"]
    line = f"{used} utterances (0.00 h) for training, {len(half) - used} filtered out"
    assert line in capsys.readouterr().err
    assert 0 < noted["hours"] <= half.lengths.sum() / 16_000 / 3600
