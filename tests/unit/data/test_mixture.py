import dataclasses
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorage

from danish_asr.recipe.data.epochs import corpus_shares, effective_mix, epoch_entries, repeats_of
from danish_asr.recipe.data.index import DanishAsrDataset, Index, Weight
from tests.shards import write_dataset

KEPT = np.arange(50, dtype=np.int32)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    counts = {("a", "train"): 40, ("b", "train"): 10, ("c", "test"): 5}
    return DanishAsrDataset(write_dataset(tmp_path_factory.mktemp("d"), counts)).read_index("train")


def times(repeats: NDArray[np.float64], epoch: int) -> NDArray[np.int64]:
    """How often an epoch shows each row."""
    return np.bincount(epoch_entries(KEPT, repeats, seed=1, epoch=epoch), minlength=50)


def test_the_shares_are_upstreams(tmp_path: Path) -> None:
    path = tmp_path / "language_distribution_0.tsv"
    path.write_text("corpus\tlanguage\thours\na\tdan_Latn\t521.46\nb\tdan_Latn\t150\n")
    theirs = MixtureParquetStorage.get_partition_weights_from_betas(str(path), 0.5, 1.0)

    shares = corpus_shares(np.array([521.46, 150]), 0.5)

    by_corpus = {key.corpus: share for key, share in theirs.items()}
    assert by_corpus == pytest.approx(dict(zip("ab", shares.tolist(), strict=True)))


def test_an_epoch_shows_corpora_by_their_shares_and_every_row_at_least_once(index: Index) -> None:
    """TRAPS, data reading: upstream's weights depend on the rows of the TSV per split."""
    repeats = repeats_of(index, KEPT, 0.5)
    mix = effective_mix(index, KEPT, repeats)

    roots = np.sqrt(np.bincount(index.groups("corpus")[0], index.lengths))
    shares = (roots / roots.sum()).tolist()
    shown = np.bincount(index.groups("corpus")[0], index.lengths * times(repeats, 0))
    assert [part.share for part in mix] == pytest.approx(shares)
    assert shown / shown.sum() == pytest.approx(shares, abs=0.02)
    assert times(repeats, 0).min() == 1


def weighted(index: Index, of_b: float, of_fynsk: float = 1.0) -> Index:
    """The index with factors of the corpus b and of a dialect."""
    is_b = (index.rows["corpus"] == "b").to_numpy()
    is_fynsk = (index.rows["dialect"] == "Fynsk").fill_null(value=False).to_numpy()
    weights = Weight("corpus = 'b'", of_b, is_b), Weight("dialect = 'Fynsk'", of_fynsk, is_fynsk)
    return dataclasses.replace(index, weights=weights)


def test_a_row_comes_as_often_as_the_product_of_its_factors_says(index: Index) -> None:
    own = weighted(index, 2.5, 0.3)
    is_b, is_fynsk = (weight.rows for weight in own.weights)
    base = repeats_of(index, KEPT, 0.0)[-1]
    expected = np.where(is_b, 2.5 * base, 1.0) * np.where(is_fynsk, 0.3, 1.0)

    repeats = repeats_of(own, KEPT, 0.0)

    mean = np.mean([times(repeats, epoch) for epoch in range(200)], axis=0)
    assert mean == pytest.approx(expected, abs=1 / 200)
