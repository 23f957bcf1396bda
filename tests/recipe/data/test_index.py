"""The keys that choose and augment rows."""

import re
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from danish_asr.recipe.data.index import DanishAsrDataset, Index
from danish_asr.recipe.run.advice import LOSS
from tests.running import evaluate, metrics, train
from tests.shards import utterance, write_dataset, write_shard


def test_a_dataset_without_ids_and_metadata_is_read_with_ids_of_its_own(tmp_path: Path) -> None:
    # Upstream's converters write text, audio_bytes and audio_size only.
    drop = ("id", "speaker_id", "dialect", "age_group", "gender", "encoded_size")
    write_shard(tmp_path, [utterance(n) for n in range(3)], drop=drop)

    index = DanishAsrDataset(tmp_path).read_index("train")

    assert index.rows["id"][2] == "a/train/dan_Latn/part-00000-of-00001.parquet#2"
    assert index.rows["dialect"][0] is None


@pytest.fixture(scope="module")
def own_dataset(tmp_path_factory: pytest.TempPathFactory) -> DanishAsrDataset:
    counts = {("a", "train"): 12, ("b", "train"): 7}
    return DanishAsrDataset(write_dataset(tmp_path_factory.mktemp("dataset"), counts))


@pytest.mark.parametrize(
    ("where", "chosen"),
    [
        ("corpus = 'b' and gender = 'male'", [f"b-train-{n}" for n in (1, 3, 5)]),
        ("audio_size < 9000", ["a-train-0", "b-train-0"]),
        ("corpus = 'b'", [f"b-train-{n}" for n in range(7)]),
        ("dialect is null and split = 'train' and id like 'b%'", ["b-train-2", "b-train-5"]),
    ],
)
def test_a_condition_may_name_any_column_of_rows_and_paths(
    dataset: DanishAsrDataset, where: str, chosen: list[str]
) -> None:
    every, index = dataset.read_index("train"), dataset.read_index("train", where)

    assert index.rows["id"].to_list() == chosen
    for row, name in enumerate(chosen):
        place = every.rows["id"].to_list().index(name)
        assert index.lengths[row] == every.lengths[place]
        assert index.rows["_group"][row] == every.rows["_group"][place]
        assert index.audio.read(row) == every.audio.read(place)


WHERE = "dialect in ('Fynsk', 'Bornholmsk') or gender = 'male'"


WEIGHTS = (
    "dataset.weights=[{where: \"corpus = 'coral_conversation'\", factor: 0.5}, "
    "{where: \"dialect = 'Bornholmsk'\", factor: 3}]"
)


@pytest.fixture(scope="module")
def index(dataset: Path) -> Index:
    return DanishAsrDataset(dataset).read_index("train")


def ids(index: Index) -> list[str]:
    return index.rows["id"].to_list()


@pytest.mark.parametrize("size", [1, 7, 11, 30, 47])
def test_a_subset_leaves_no_dialect_out_and_holds_the_smaller_ones(index: Index, size: int) -> None:
    subset = index.subset(size)
    assert abs(len(subset) - size) <= index.rows["dialect"].n_unique()
    assert {*subset.rows["dialect"]} == {*index.rows["dialect"]}
    for larger in range(size, len(index) + 2):
        assert set(ids(subset)) <= set(ids(index.subset(larger)))


SHARES = [0.05, 0.3, 0.5, 0.8, 1.0]


@pytest.mark.parametrize("share", SHARES)
def test_a_share_is_of_each_dialects_hours_and_divides_at_most_one_speaker_of_it(
    index: Index, share: float
) -> None:
    dialects, codes = np.unique(index.rows["dialect"].fill_null(""), return_inverse=True)
    is_chosen = np.isin(ids(index), ids(index.share(share, seed=1)))
    hours = np.bincount(codes, index.lengths)
    chosen = np.bincount(codes, index.lengths * is_chosen)
    assert (abs(chosen - share * hours) <= index.lengths.max()).all()
    # A speaker in two corpora is two.
    speakers = np.array([*map(str, index.rows.select("corpus", "speaker_id").rows())])
    for code in range(len(dialects)):
        inside, outside = (speakers[(codes == code) & part] for part in (is_chosen, ~is_chosen))
        assert len({*inside} & {*outside}) <= 1


def test_a_larger_share_contains_the_smaller_ones_and_the_seed_draws_them(index: Index) -> None:
    chosen = [{*ids(index.share(share, seed=1))} for share in SHARES]
    assert all(one <= other for one, other in pairwise(chosen))
    assert chosen[-1] == {*ids(index)}
    assert len({tuple(ids(index.share(0.4, seed))) for seed in range(5)}) > 1


def test_a_run_trains_and_validates_on_the_rows_of_its_conditions(
    tmp_path: Path, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, women = tmp_path / "run", "gender = 'female'"
    own = [f"dataset.train_where={WHERE}", f"dataset.valid_where={women}"]
    assert train(run, dataset, *own, WEIGHTS) == 0
    printed = capsys.readouterr().err
    opened = DanishAsrDataset(dataset)
    assert f"{len(opened.read_index('train', WHERE))} rows of train where {WHERE}" in printed
    assert re.search(r"0.5 x corpus = 'coral_conversation' .* 0\.\d\d\n", printed), printed
    assert metrics(run, "valid")[-1]["Number of Examples"] == len(opened.read_index("dev", women))


def test_scores_do_not_depend_on_the_size_of_evaluations_batches(
    tmp_path: Path, dataset: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores, predictions = [], []
    for size in (1, "100x"):
        run = shutil.copytree(finished_run, tmp_path / str(size))
        assert evaluate(run, dataset, f"dataset.valid_max_num_elements={size}") == 0
        folder = run / "eval" / "best" / "test"
        row = metrics(folder, "eval")[-1]
        scores.append([row[LOSS], row["Word Error Rate (WER)"]])
        predictions.append((folder / "predictions.jsonl").read_bytes())
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)
    assert predictions[0] == predictions[1]
    assert capsys.readouterr().err.count("valid_max_num_elements is 100 times") == 1
