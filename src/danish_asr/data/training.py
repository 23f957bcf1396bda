"""The reader of a training split: rows filtered and mixed, and a plan of each epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig

from danish_asr.data.batches import BatchLoader
from danish_asr.data.filters import Account, select_rows
from danish_asr.data.fingerprint import digest
from danish_asr.data.frames import FrameCount
from danish_asr.data.index import Index, Partition
from danish_asr.data.mixture import (
    Mix,
    epoch_entries,
    make_mix,
    natural_hours,
    read_hours,
    weights,
)
from danish_asr.data.plan import Plan, Rows, plan_training
from danish_asr.data.reader import PlannedReader, Share
from danish_asr.data.settings import batch_rule, limits, shuffling
from danish_asr.data.speed import SpeedPerturbation, perturbed_lengths
from danish_asr.errors import ConfigError, DatasetError


def training_reader(
    load: BatchLoader,
    share: Share,
    frames: FrameCount,
    task: AsrTaskConfig,
    storage: MixtureParquetStorageConfig | None,
    *,
    speed_factors: Sequence[float],
    seed: int,
) -> PlannedReader:
    """Read what the filters leave, mixed and shuffled as the sections say.

    Raises:
        ConfigError: The longest utterance fits no batch.
        DatasetError: The filters leave nothing, or the table of hours does not fit the dataset.
    """
    index = load.index
    kept, account, perturbation = _select(load, task, frames, speed_factors)
    _check_room(index, kept, task)
    mix = make_mix(index, kept, None if storage is None else _shares(index, storage))
    fingerprint = {
        "utterances": len(kept),
        "content": digest(index, kept),
        "seed": seed,
        "batches": str(batch_rule(task)),
        "shuffling": str(shuffling(task)),
        "repeats": ", ".join(f"{row.partition} {row.repeats:.6f}" for row in mix.rows),
        "drop_remainder": task.drop_remainder,
        "max_num_batches": task.max_num_batches,
    }
    if speed_factors:
        fingerprint["speed_factors"] = ", ".join(map(str, speed_factors))
    return PlannedReader(
        load,
        _plans(index, kept, mix, task, perturbation=perturbation, seed=seed),
        share,
        seed=seed,
        fingerprint=fingerprint,
        account=account,
        mix=mix,
    )


def _select(
    load: BatchLoader, task: AsrTaskConfig, frames: FrameCount, speed_factors: Sequence[float]
) -> tuple[Rows, Account, SpeedPerturbation | None]:
    """The rows that the filters leave, the account of the others, and what may change speeds."""
    lengths, bounds = load.index.lengths, limits(task)
    if not speed_factors:
        return *select_rows(load.index, load.targets, bounds, frames), None
    needed = np.zeros(len(lengths), np.int32)
    fastest = max(1.0, *speed_factors)
    kept, account = select_rows(
        load.index, load.targets, bounds, frames, fastest=fastest, needed=needed
    )
    perturbation = SpeedPerturbation.within(
        speed_factors,
        lengths,
        least=bounds.min_audio_len,
        most=min(bounds.max_audio_len, batch_rule(task).max_elements or bounds.max_audio_len),
        needed=needed,
        frames=frames,
    )
    return kept, account, perturbation


def _plans(
    index: Index,
    kept: Rows,
    mix: Mix,
    task: AsrTaskConfig,
    *,
    perturbation: SpeedPerturbation | None,
    seed: int,
) -> Callable[[int], Plan]:
    def make_plan(epoch: int) -> Plan:
        lengths, speeds = index.lengths, None
        if perturbation is not None:
            speeds = perturbation.draw(seed=seed, epoch=epoch)
            lengths = perturbed_lengths(lengths, speeds.of(slice(None)))
        plan = plan_training(
            lengths,
            index.block_of,
            epoch_entries(index, kept, mix, seed=seed, epoch=epoch),
            batch_rule(task),
            shuffling(task),
            seed=seed,
            epoch=epoch,
            drop_remainder=task.drop_remainder,
            max_batches=task.max_num_batches,
        )
        return replace(plan, speeds=speeds)

    return make_plan


def _check_room(index: Index, kept: Rows, task: AsrTaskConfig) -> None:
    if not len(kept):
        raise DatasetError(
            f"split '{index.name}': the filters leave none of its {len(index)} utterances; look at "
            "min_audio_len, max_audio_len and min_samples_per_char in dataset.asr_task_config"
        )
    longest, room = int(index.lengths[kept].max()), batch_rule(task).max_elements
    if room is not None and longest > room:
        fault = (
            "dataset.asr_task_config.max_num_elements: expected room for the longest training "
            f"utterance ({longest} samples), found {room}; raise it, or lower max_audio_len"
        )
        raise ConfigError([fault])


def _shares(index: Index, storage: MixtureParquetStorageConfig) -> dict[Partition, float] | None:
    """Shares of an epoch's hours by the betas; None: as much of each as there is."""
    if storage.beta_corpus is None and storage.beta_language is None:
        return None
    if storage.dataset_summary_path is None:
        hours = natural_hours(index)
    else:
        hours = read_hours(Path(storage.dataset_summary_path), index)
    return weights(
        hours,
        beta_corpus=1.0 if storage.beta_corpus is None else storage.beta_corpus,
        beta_language=1.0 if storage.beta_language is None else storage.beta_language,
    )
