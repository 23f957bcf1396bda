"""A dataset as fairseq2 opens it: its splits, and an index of each.

The recipe registers it under upstream's family name, so that cards and YAML files written for
upstream's datasets keep working.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from danish_asr.base.errors import DatasetError
from danish_asr.corpus.shards import find_shards, shards_of_split, split_names
from danish_asr.recipe.data.index import Index, check_condition, read_index

DATASET_FAMILY: Final = "mixture_parquet_asr_dataset"


@dataclass
class DanishAsrDatasetConfig:
    """The ``dataset_config`` of a dataset card, as upstream's."""

    data: Path | None = None
    """A built dataset's ROOT or its ``version=0`` directory."""


def open_dataset(config: DanishAsrDatasetConfig) -> DanishAsrDataset:
    """What fairseq2 calls to open the built dataset that a card describes."""
    if config.data is None:
        raise DatasetError("dataset_config.data: expected the dataset's directory, found null")
    return DanishAsrDataset(config.data)


class DanishAsrDataset:
    """A built dataset, see :mod:`danish_asr.base.schema`: ROOT or ``ROOT/version=0``.

    A split is ``<split>`` or ``<split>_<corpus>``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def splits(self) -> list[str]:
        """The names of the splits, read from the paths each time."""
        return split_names(find_shards(self.path))

    def read_index(
        self, split: str, where: str | None = None, weights: Sequence[tuple[str, float]] = ()
    ) -> Index:
        """The rows of a split, or those that fulfil an SQL condition; conditions with factors.

        Raises:
            DatasetError: No such split (the message names those that exist), unreadable files, or
                no row that fulfils a condition.
            ConfigError: A condition is faulty.
        """
        shards = shards_of_split(self.path, split)
        return read_index(shards, split, where=where, weights=weights)

    def check_condition(self, split: str, where: str) -> None:
        """Check that a row of a split fulfils an SQL condition; raises as :meth:`read_index`."""
        check_condition(shards_of_split(self.path, split), split, where=where)
