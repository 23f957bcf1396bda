"""Rows of the dataset that a run was trained on: their texts and their audio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from danish_asr.base.audio import to_mono
from danish_asr.base.config_tree import Tree, read_yaml, value_of
from danish_asr.base.errors import ConfigError
from danish_asr.corpus.shards import shards_of_split
from danish_asr.recipe.config.schema import AssetsConfig, DatasetSection
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.recipe.models.cards import Assets
from danish_asr.recipe.run.run_directory import CHECKPOINTS, CONFIG_FILE


class Row(NamedTuple):
    """An utterance."""

    text: str
    waveform: NDArray[np.float32]
    """Mono, 16 kHz."""


def run_of(model: str | Path) -> tuple[Path, Tree]:
    """Return the run of OUTDIR or ``OUTDIR/checkpoints/step_<n>``, and its configuration.

    Raises:
        ConfigError: It is no run.
    """
    path = Path(model).expanduser().resolve()
    run = path.parents[1] if path.parent.name == CHECKPOINTS else path
    if not (run / CONFIG_FILE).is_file():
        fault = f"expected OUTDIR or OUTDIR/{CHECKPOINTS}/step_<n> of a run, found no {CONFIG_FILE}"
        raise ConfigError([fault], where=str(model))
    return run, read_yaml(run / CONFIG_FILE)


def dataset_of(config: Tree) -> Path:
    """Return the root of a run's dataset; raises ConfigError if it is not here any more."""
    overrides: Any = value_of(config, "dataset.config_overrides") or {}
    if data := overrides.get("data"):
        return DanishAsrDataset(Path(data)).root
    name = str(value_of(config, "dataset.name"))
    paths: Any = value_of(config, "common.assets.extra_paths") or ()
    assets = Assets(AssetsConfig(extra_paths=[Path(path) for path in paths]))
    return assets.open_dataset(DatasetSection(name=name), assets.find("dataset.name", name)).root


def read_rows(dataset: Path, splits: Sequence[str], most: int) -> Iterator[Row]:
    """Yield at most about so many rows of splits, at even distances.

    Raises:
        DatasetError: There is no dataset, or no such split.
    """
    files = [shard.path for split in splits for shard in shards_of_split(dataset, split)]
    total = sum(pq.read_metadata(file).num_rows for file in files)
    step = max(total / most, 1.0)
    number = taken = 0
    for file in files:
        batches = pq.ParquetFile(file).iter_batches(100, columns=["text", "audio_bytes"])
        for batch in batches:
            for row in batch.to_pylist():
                number += 1
                if number <= int(taken * step):
                    continue
                taken += 1
                yield Row(row["text"], to_mono(bytes(row["audio_bytes"])))
