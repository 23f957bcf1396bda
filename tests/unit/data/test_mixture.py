from pathlib import Path

import numpy as np
import pytest
from omnilingual_asr.datasets.storage.mixture_parquet_storage import (
    MixtureParquetStorage,
    MixtureParquetStorageConfig,
)

from danish_asr.base.errors import DatasetError
from danish_asr.corpus.shards import Partition
from danish_asr.recipe.data.dataset import DanishAsrDataset
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.mix import epoch_entries, hours_of, make_mix, weights
from tests.shards import write_dataset

A, B = (Partition(corpus, "dan_Latn") for corpus in "ab")
HEAD = "corpus\tlanguage\thours\n"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    counts = {("a", "train"): 40, ("b", "train"): 10, ("c", "test"): 5}
    return DanishAsrDataset(write_dataset(tmp_path_factory.mktemp("d"), counts)).read_index("train")


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "language_distribution_0.tsv"
    path.write_text(text, encoding="utf-8")
    return path


def test_weights_are_upstreams(tmp_path: Path) -> None:
    path = table(tmp_path, f"{HEAD}a\tdan_Latn\t521.46\nb\tdan_Latn\t150\nb\tfao_Latn\t6.27\n")
    theirs = MixtureParquetStorage.get_partition_weights_from_betas(str(path), 0.5, 0.3)

    faroese = Partition("b", "fao_Latn")
    shares = weights({A: 521.46, B: 150, faroese: 6.27}, beta_corpus=0.5, beta_language=0.3)

    assert {(part.corpus, part.lang): share for part, share in theirs.items()} == pytest.approx(
        {(part.corpus, part.language): share for part, share in shares.items()}
    )


def test_an_epoch_shows_partitions_by_their_shares_and_every_row_at_least_once(
    index: Index, tmp_path: Path
) -> None:
    hours = f"{HEAD}a\tdan_Latn\t4\nb\tdan_Latn\t6\nc\tdan_Latn\t1\n"
    path = table(tmp_path, hours)
    assert hours_of(path, needed=index.partitions)[B] == 6
    # The table's row of `c` takes its share of the weights, as upstream's does.
    config = MixtureParquetStorageConfig(dataset_summary_path=str(path), beta_corpus=1)
    kept = np.arange(50, dtype=np.int32)
    mix = make_mix(index, kept, config)

    epochs = [epoch_entries(kept, mix, seed=1, epoch=epoch) for epoch in (0, 1, 2, 1)]

    assert [row.share for row in mix.rows] == pytest.approx([0.4, 0.6])
    shown = np.bincount(index.partition_of[epochs[0]], index.lengths[epochs[0]])
    assert shown / shown.sum() == pytest.approx([0.4, 0.6], abs=0.02)
    times, repeats = np.bincount(epochs[0], minlength=50), mix.rows[1].repeats
    assert set(times[:40]) == {1}
    assert set(times[40:]) <= {int(repeats), int(repeats) + 1}
    assert times[40:].mean() == pytest.approx(repeats, abs=0.05)
    assert len({entries.tobytes() for entries in epochs}) == 3, "drawn anew in each epoch"
    assert (epochs[1] == epochs[3]).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Rows per split changed 0.655/0.345 to 0.507/0.493 without a word upstream (TRAPS).
        (
            "a\tdan_Latn\t2\nb\tdan_Latn\t1\na\tdan_Latn\t1\n",
            r"tsv:4: expected .*one row per corpus",
        ),
        # Upstream leaves such a corpus out silently (TRAPS).
        ("a\tdan_Latn\t2\n", r"no row for b/dan_Latn"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    index: Index, tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        hours_of(table(tmp_path, HEAD + text), needed=index.partitions)


def weighted(index: Index, *weights: tuple[str, float]) -> Index:
    """The index with weights by its own rows: a condition is ``corpus`` or ``dialect = name``."""
    columns = {"corpus": np.array([index.partitions[code].corpus for code in index.partition_of])}
    columns["dialect"] = np.array(index.values("dialect", range(len(index))))
    pairs = [(condition, factor, condition.split(" = ")) for condition, factor in weights]
    return index.weighted(
        (condition, factor, index.take(np.flatnonzero(columns[column] == value)))
        for condition, factor, (column, value) in pairs
    )


def test_a_row_comes_as_often_as_the_product_of_its_factors_says(index: Index) -> None:
    dialect = index.values("dialect", [0])[0]
    own = weighted(index, ("corpus = b", 2.5), (f"dialect = {dialect}", 0.3))
    kept = np.arange(50, dtype=np.int32)
    config = MixtureParquetStorageConfig(beta_corpus=0, beta_language=1)
    base = make_mix(index, kept, config).rows[1].repeats
    mix = make_mix(own, kept, config)

    epochs = [epoch_entries(kept, mix, seed=1, epoch=epoch) for epoch in range(200)]

    times = np.mean([np.bincount(entries, minlength=50) for entries in epochs], axis=0)
    is_b, is_dialect = (weight.rows for weight in own.weights)
    expected = np.where(is_b, 2.5 * base, 1.0) * np.where(is_dialect, 0.3, 1.0)
    for chosen in (is_b & is_dialect, is_b & ~is_dialect, ~is_b & is_dialect, ~is_b & ~is_dialect):
        assert chosen.any()
        assert times[chosen].mean() == pytest.approx(expected[chosen][0], abs=0.005)
        assert times[chosen] == pytest.approx(expected[chosen], abs=0.15), "each row is drawn"
    shown = np.concatenate(epochs)
    for row, chosen in zip(mix.weighted, (is_b, is_dialect), strict=True):
        share = index.lengths[shown[chosen[shown]]].sum() / index.lengths[shown].sum()
        assert row.share == pytest.approx(share, abs=0.01)
        assert row.hours == pytest.approx(index.lengths[chosen].sum() / 16_000 / 3600)
    assert [line.split()[0] for line in mix.lines()[-2:]] == ["2.5", "0.3"]
    again = epoch_entries(kept, make_mix(own, kept, config), seed=1, epoch=7)
    assert (again == epochs[7]).all()


def test_weights_of_one_change_nothing_and_other_weights_have_another_digest(index: Index) -> None:
    kept = np.arange(50, dtype=np.int32)
    plain = make_mix(index, kept, None)
    ones = make_mix(weighted(index, ("corpus = b", 1.0)), kept, None)
    digests = {plain.digest()}
    for factor in (2.0, 3.0):
        mix = make_mix(weighted(index, ("corpus = b", factor)), kept, None)
        digests.add(mix.digest())
    assert len(digests) == 3
    assert ones.digest() == plain.digest()
    one, other = (epoch_entries(kept, mix, seed=3, epoch=2) for mix in (plain, ones))
    assert (one == other).all()
