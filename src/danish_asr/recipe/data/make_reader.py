"""Opens the reader of a split: filtered, mixed, batched and transformed as the sections say."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.recipe.data.collate import Collate
from danish_asr.recipe.data.filters import TokenCounts, select_rows
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.joining import Join
from danish_asr.recipe.data.mixture import epoch_entries, make_mix
from danish_asr.recipe.data.reader import BatchReader
from danish_asr.recipe.data.sampler import (
    Batches,
    BatchLimits,
    Sharding,
    evaluation_batches,
    training_batches,
)
from danish_asr.recipe.data.targets import FrameCount
from danish_asr.recipe.data.transforms import AnyTransform, EpochLengths


def evaluation_reader(
    collate: Collate, sharding: Sharding, task: AsrTaskConfig, *, seed: int
) -> BatchReader:
    """Read every row once, one that is longer than the limit in a batch of its own."""
    lengths = collate.index.lengths
    batches = evaluation_batches(lengths, BatchLimits.of(task))
    return BatchReader(
        collate,
        lambda _: (batches, EpochLengths(lengths)),
        sharding,
        seed=seed,
        fingerprint=evaluation_fingerprint(collate.index, task),
    )


def evaluation_fingerprint(index: Index, task: AsrTaskConfig) -> dict[str, object]:
    """What an evaluation of these rows must agree with to be continued, by name."""
    rows = evaluation_batches(index.lengths, BatchLimits.of(task)).rows
    return {"utterances": len(index), "content": index.digest(rows)}


def training_reader(
    collate: Collate,
    sharding: Sharding,
    frames: FrameCount,
    task: AsrTaskConfig,
    storage: MixtureParquetStorageConfig | None,
    *,
    transforms: Sequence[AnyTransform],
    seed: int,
    quadratic: float | None = None,
) -> BatchReader:
    """Read what the filters keep, mixed, shuffled and transformed as the sections say.

    Raises:
        ConfigError: The longest utterance fits no batch.
        DatasetError: The filters leave nothing, or the table of hours does not fit the dataset.
    """
    index, limits = collate.index, BatchLimits.of(task)
    counts = TokenCounts(index, collate.targets, remove_unknown=task.remove_unknown)
    kept, filtered = select_rows(index, counts, task, frames)
    if not kept.size:
        raise DatasetError(
            f"split '{index.name}': the filters leave none of its {len(index)} utterances; look at "
            "min_audio_len, max_audio_len and min_samples_per_char in dataset.asr_task_config"
        )
    longest, most = int(index.lengths[kept].max()), limits.max_samples
    if most is not None and longest > most:
        fault = (
            "dataset.asr_task_config.max_num_elements: expected room for the longest training "
            f"utterance ({longest} samples), found {most}; raise it, or lower max_audio_len"
        )
        raise ConfigError([fault])
    mix = make_mix(index, kept, storage)
    trained = np.isin(np.arange(len(index)), kept)

    room = min(task.max_audio_len, limits.max_samples or task.max_audio_len)

    def fits(lengths: NDArray[np.int32]) -> NDArray[np.bool_]:
        rows = trained & (lengths >= task.min_audio_len) & (lengths <= room)
        return counts.enough(frames(lengths), rows)

    join = next((each for each in transforms if isinstance(each, Join)), None)
    voices = index.voices() if join else None

    def make_epoch(epoch: int) -> tuple[Batches, EpochLengths]:
        lengths = EpochLengths.draw(transforms, index.lengths, fits, seed=seed, epoch=epoch)
        entries = epoch_entries(index, kept, mix, seed=seed, epoch=epoch)
        groups = index.row_group_of
        if join is not None and voices is not None:
            rng = np.random.default_rng([seed, epoch, 4])
            entries, pairs = join.draw(entries, voices, lengths.lengths, room, rng)
            lengths, groups = lengths.joined(pairs), np.append(groups, groups[pairs.first])
        rows = lengths.lengths, groups, entries
        return training_batches(*rows, task, quadratic, seed=seed, epoch=epoch), lengths

    windows = task.example_shuffle_window, task.batch_shuffle_window
    # Old runs' checkpoints hold the same keys and texts.
    fingerprint = {
        "utterances": len(kept),
        "content": index.digest(kept),
        "seed": seed,
        "batches": f"BatchRule(max_elements={limits.max_samples}, max_rows={limits.max_rows}, "
        f"multiple_of={limits.multiple_of})",
        "shuffling": "Shuffling(example_window={}, batch_window={})".format(*windows),
        "repeats": ", ".join(f"{row.partition} {row.repeats:.6f}" for row in mix.rows),
        "drop_remainder": task.drop_remainder,
        "max_num_batches": task.max_num_batches,
    }
    return BatchReader(
        collate,
        make_epoch,
        sharding,
        seed=seed,
        fingerprint=fingerprint,
        filtered=filtered,
        mix=mix,
    )
