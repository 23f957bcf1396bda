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
from danish_asr.recipe.data.epochs import epoch_entries, hours_of, make_mix, weights
from danish_asr.recipe.data.index import Index
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

    epochs = [epoch_entries(index, kept, mix, seed=1, epoch=epoch) for epoch in (0, 1, 2, 1)]

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
