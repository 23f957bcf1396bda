"""What the run of a model says of it: its configuration, rows of its dataset, its scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from danish_asr.base.audio import decode, resampled
from danish_asr.base.config_tree import Tree, value_of
from danish_asr.base.errors import ConfigError, DanishAsrError, PredictionsError
from danish_asr.corpus.cards import hub_code
from danish_asr.corpus.inventory import find_shards, shards_of_split
from danish_asr.recipe.config.schema import AssetsConfig, DatasetSection
from danish_asr.recipe.data.index import DanishAsrDataset
from danish_asr.recipe.models.cards import Assets
from danish_asr.recipe.run.run import CHECKPOINTS, CONFIG_FILE, Run, checkpoint_of
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.scores import score_predictions
from danish_asr.scoring.settings import DEFAULT_PROFILE, Settings
from danish_asr.text.profiles import PROFILES


class Row(NamedTuple):
    """An utterance."""

    text: str
    waveform: NDArray[np.float32]  # mono, 16 kHz


def run_of(model: str | Path) -> tuple[Path, Tree]:
    """Return the run of OUTDIR or ``OUTDIR/checkpoints/step_<n>``, and its configuration.

    Raises ConfigError if it is no run.
    """
    path = Path(model).expanduser().resolve()
    meant = checkpoint_of(path)
    run = meant.run if meant else Run(path)
    if not run.is_trained:
        fault = f"expected OUTDIR or OUTDIR/{CHECKPOINTS}/step_<n> of a run, found no {CONFIG_FILE}"
        raise ConfigError([fault], where=str(model))
    return run.folder, run.config


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
    """Yield at most so many rows of splits, at even distances.

    Raises DatasetError if there is no dataset, or no such split.
    """
    files = [shard.path for split in splits for shard in shards_of_split(dataset, split)]
    total = sum(pq.read_metadata(file).num_rows for file in files)
    count = min(total, most)
    wanted = {number * total // count for number in range(count)}
    number = 0
    for file in files:
        batches = pq.ParquetFile(file).iter_batches(100, columns=["text", "audio_bytes"])
        for batch in batches:
            for row in batch.to_pylist():
                if number in wanted:
                    yield Row(row["text"], resampled(*decode(row["audio_bytes"])))
                number += 1


@dataclass(frozen=True)
class Facts:
    """What a card says of a model beside its sizes; empty where nobody knows it."""

    name: str
    base: str = ""  # the model that its training started from
    dataset: str = ""
    languages: Sequence[str] = ()  # as the hub writes them
    scores: Sequence[str] = ()


def facts_of(source: str) -> Facts:
    """Return what a run's directory says of a model."""
    try:
        run, config = run_of(source)
    except ConfigError:
        return Facts(name=Path(source).expanduser().resolve().name)
    starts = ("model.name", "model.path", "pretrained_encoder.name")
    base = next((str(value) for key in starts if (value := value_of(config, key))), "")
    try:
        shards = find_shards(dataset_of(config))
    except DanishAsrError:
        shards = []  # it is not here any more
    return Facts(
        name=run.name,
        base=Path(base).name,
        dataset=str(value_of(config, "dataset.name") or ""),
        languages=sorted({hub_code(shard.keys["language"]) for shard in shards}),
        scores=[*_scores(Path(source))],
    )


def _scores(path: Path) -> Iterator[str]:
    """The rates of this checkpoint's evaluations, under the text profile of each."""
    meant = checkpoint_of(path.expanduser())
    if meant is None:
        return
    for predictions, about, fault in meant.run.evaluations():
        if fault:
            raise PredictionsError(fault)
        if about.get("weights") != meant.digest() or {"decoder", "where"} & {*about}:
            continue
        profile = str(about.get("score_profile", DEFAULT_PROFILE))
        splits = ", ".join(about["rows_in_split"])
        if profile not in PROFILES:  # a file may not name code
            yield f"{splits}: not computed, text profile {profile}"
            continue
        settings = Settings(profile=profile)
        rates = score_predictions(read_predictions(predictions), by=[], settings=settings).overall
        yield (
            f"{splits}: WER {100 * rates.wer.value:.2f} %, CER {100 * rates.cer.value:.2f} %, "
            f"{rates.rows:,} rows, text profile {profile}"
        )
