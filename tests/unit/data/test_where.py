"""Parts of a split: rows that fulfil an SQL condition."""

from pathlib import Path

import pytest

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.recipe.data.dataset import DanishAsrDataset
from tests.shards import utterance, write_shard


@pytest.fixture
def dataset(tmp_path: Path) -> DanishAsrDataset:
    """Two corpora; ages 20 to 75, one of them null."""
    for corpus, first in (("read", 0), ("talk", 6)):
        rows = [utterance(n, age=20 + 5 * n if n else None) for n in range(first, first + 6)]
        write_shard(tmp_path, rows, corpus=corpus)
    return DanishAsrDataset(tmp_path)


def test_rows_are_selected_by_any_column_and_partition(dataset: DanishAsrDataset) -> None:
    def count(where: str) -> int:
        return len(dataset.read_index("train", where=where))

    assert count("age >= 60") == 4
    assert count("age >= 40 and corpus = 'read'") == 2
    assert count("age < 40 or age is null") == 4
    assert count("not age >= 60") == 7
    assert len(dataset.read_index("train")) == 12


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ("age > 90", DatasetError, "age has 25 to 75"),
        ("corpus = 'rad'", DatasetError, "corpus has read, talk"),
        ("dialekt = 'x'", ConfigError, '"dialekt".*columns are id, text'),
        ('dialect = "Fynsk"', ConfigError, '"Fynsk".*single quotes'),
        ("age", ConfigError, "Boolean"),
        ("age >", ConfigError, "SQL"),
    ],
)
def test_a_condition_that_selects_nothing_is_refused_with_what_exists(
    dataset: DanishAsrDataset, where: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        dataset.read_index("train", where=where)
