"""Which rows of its splits a run reads: all of them, or a subset that is always the same."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from danish_asr.recipe.config.sections import AsrDatasetSection, names_of_splits
from danish_asr.recipe.data.dataset import AsrDataset
from danish_asr.recipe.data.index import Index

_GOLDEN_RATIO: Final = (1 + 5**0.5) / 2


def stratified(index: Index, size: int, *, nested: bool = False) -> NDArray[np.int64]:
    """Choose about ``size`` rows, always the same, with the dialects in their shares.

    At least one row of each dialect is chosen, at even distances. With ``nested``, a larger size
    chooses these rows too, and the distances are less even.
    """
    if size >= len(index):
        return np.arange(len(index))
    codes, _ = index.dialects()
    chosen = []
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        count = max(round(len(rows) * size / len(index)), 1)
        if nested:
            # Multiples of the golden ratio, modulo 1, are spread evenly however many there are.
            place = np.argsort(np.arange(len(rows)) * _GOLDEN_RATIO % 1, kind="stable")[:count]
        else:
            place = np.linspace(0, len(rows) - 1, count).astype(np.int64)
        chosen.append(rows[place])
    return np.sort(np.concatenate(chosen))


def training_rows(dataset: AsrDataset, section: AsrDatasetSection) -> Index:
    """Index the rows that a run trains on, before the filters."""
    index = dataset.read_index(
        str(section.train_split), section.storage_config, section.train_where
    )
    if section.train_subset is None:
        return index
    return index.take(stratified(index, section.train_subset, nested=True))


def validation_indices(
    dataset: AsrDataset, section: AsrDatasetSection, splits: str, subset: int | None
) -> dict[str, Index]:
    """Index the rows that :func:`splits_reader` reads, by split."""
    indices = {}
    for name in names_of_splits(splits):
        index = dataset.read_index(name, section.storage_config, section.valid_where)
        indices[name] = index if subset is None else index.take(stratified(index, subset))
    return indices
