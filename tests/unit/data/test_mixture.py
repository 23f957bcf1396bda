import dataclasses
from pathlib import Path

import numpy as np
import pytest
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorage

from danish_asr.recipe.data.epochs import corpus_shares, epoch_entries, make_mix
from danish_asr.recipe.data.index import DanishAsrDataset, Index, Weight
from tests.shards import write_dataset


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    counts = {("a", "train"): 40, ("b", "train"): 10, ("c", "test"): 5}
    return DanishAsrDataset(write_dataset(tmp_path_factory.mktemp("d"), counts)).read_index("train")


def test_the_shares_are_upstreams(tmp_path: Path) -> None:
    path = tmp_path / "language_distribution_0.tsv"
    path.write_text("corpus\tlanguage\thours\na\tdan_Latn\t521.46\nb\tdan_Latn\t150\n")
    theirs = MixtureParquetStorage.get_partition_weights_from_betas(str(path), 0.5, 1.0)

    shares = corpus_shares(np.array([521.46, 150]), 0.5)

    found = {key.corpus: share for key, share in theirs.items()}
    assert found == pytest.approx(dict(zip("ab", shares.tolist(), strict=True)))


def test_an_epoch_shows_corpora_by_their_shares_and_every_row_at_least_once(index: Index) -> None:
    """TRAPS, data reading: upstream's weights depend on the rows of the TSV per split."""
    kept = np.arange(50, dtype=np.int32)
    mix = make_mix(index, kept, 0.5)

    epochs = [epoch_entries(kept, mix.repeats, seed=1, epoch=epoch) for epoch in (0, 1, 2, 1)]

    roots = np.sqrt(np.bincount(index.partition_of, index.lengths))
    shares = (roots / roots.sum()).tolist()
    assert [row.share for row in mix.rows] == pytest.approx(shares)
    shown = np.bincount(index.partition_of[epochs[0]], index.lengths[epochs[0]])
    assert shown / shown.sum() == pytest.approx(shares, abs=0.02)
    times, repeats = np.bincount(epochs[0], minlength=50), mix.rows[1].repeats
    assert set(times[:40]) == {1}
    assert set(times[40:]) <= {int(repeats), int(repeats) + 1}
    assert times[40:].mean() == pytest.approx(repeats, abs=0.05)
    assert len({entries.tobytes() for entries in epochs}) == 3, "drawn anew in each epoch"
    assert (epochs[1] == epochs[3]).all()


def test_rows_that_the_filters_remove_change_no_share(index: Index) -> None:
    kept = np.arange(5, 50, dtype=np.int32)
    shares = [row.share for row in make_mix(index, kept, 0.0).rows]
    assert shares == pytest.approx([0.5, 0.5])


def weighted(index: Index, *weights: tuple[str, float]) -> Index:
    """The index with weights of rows: a condition is ``corpus`` or ``dialect = name``."""
    columns = {"corpus": np.array([index.partitions[code].corpus for code in index.partition_of])}
    columns["dialect"] = np.array(index.values("dialect", range(len(index))))
    made = []
    for condition, factor in weights:
        column, value = condition.split(" = ")
        made.append(Weight(condition, factor, columns[column] == value))
    return dataclasses.replace(index, weights=tuple(made))


def test_a_row_comes_as_often_as_the_product_of_its_factors_says(index: Index) -> None:
    dialect = index.values("dialect", [0])[0]
    own = weighted(index, ("corpus = b", 2.5), (f"dialect = {dialect}", 0.3))
    kept = np.arange(50, dtype=np.int32)
    base = make_mix(index, kept, 0.0).rows[1].repeats
    mix = make_mix(own, kept, 0.0)

    epochs = [epoch_entries(kept, mix.repeats, seed=1, epoch=epoch) for epoch in range(200)]

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
    again = epoch_entries(kept, make_mix(own, kept, 0.0).repeats, seed=1, epoch=7)
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
    one, other = (epoch_entries(kept, mix.repeats, seed=3, epoch=2) for mix in (plain, ones))
    assert (one == other).all()
