import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorage

from danish_asr.recipe.config.schema import WeightConfig
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.recipe.data.sampler import corpus_shares, epoch_entries, mix_table, repeats_of
from tests.shards import write_dataset

KEPT = np.arange(50, dtype=np.int32)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DanishAsrDataset:
    counts = {("a", "train"): 40, ("b", "train"): 10, ("c", "test"): 5}
    return DanishAsrDataset(write_dataset(tmp_path_factory.mktemp("d"), counts))


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


def test_an_epoch_shows_corpora_by_their_shares_and_every_row_at_least_once(
    dataset: DanishAsrDataset,
) -> None:
    """TRAPS, data reading: upstream's weights depend on the rows of the TSV per split."""
    index = dataset.read_index("train")
    repeats = repeats_of(index, KEPT, 0.5)
    table = mix_table(index, KEPT, repeats)

    is_b = (index.rows["corpus"] == "b").to_numpy().astype(int)
    roots = np.sqrt(np.bincount(is_b, index.lengths))
    shares = (roots / roots.sum()).tolist()
    shown = np.bincount(is_b, index.lengths * times(repeats, 0))
    assert re.findall(r"\S+%", table) == [f"{share:.1%}" for share in shares]
    assert shown / shown.sum() == pytest.approx(shares, abs=0.02)
    assert times(repeats, 0).min() == 1


def test_a_row_comes_as_often_as_the_product_of_its_factors_says(dataset: DanishAsrDataset) -> None:
    factors = {"corpus = 'b'": 2.5, "dialect = 'Fynsk'": 0.3}
    weights = [WeightConfig(where=where, factor=factor) for where, factor in factors.items()]
    index = dataset.read_index("train", weights=weights)
    base = repeats_of(dataset.read_index("train"), KEPT, 0.0)
    is_fynsk = (index.rows["dialect"] == "Fynsk").fill_null(value=False).to_numpy()
    expected = np.where(KEPT >= 40, 2.5, 1.0) * base * np.where(is_fynsk, 0.3, 1.0)

    repeats = repeats_of(index, KEPT, 0.0)

    mean = np.mean([times(repeats, epoch) for epoch in range(200)], axis=0)
    assert mean == pytest.approx(expected, abs=1 / 200)
