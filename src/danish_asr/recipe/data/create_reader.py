"""From an index to a reader of its batches: filtered, mixed, transformed and batched as asked."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.gang import Gangs
from numpy.typing import NDArray
from omnilingual_asr.datasets.storage.manifest_storage import ManifestStorageConfig
from omnilingual_asr.datasets.storage.mixture_parquet_storage import MixtureParquetStorageConfig
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.data.collate import Collate
from danish_asr.recipe.data.epoch_lengths import AnyTransform, EpochLengths, Join
from danish_asr.recipe.data.filters import TokenCounts, select_rows
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.mixture import epoch_entries, make_mix
from danish_asr.recipe.data.reader import BatchReader
from danish_asr.recipe.data.sampler import (
    Batches,
    BatchLimits,
    Sharding,
    evaluation_batches,
    training_batches,
)
from danish_asr.recipe.data.settings import check_settings
from danish_asr.recipe.data.targets import FrameCount, Targets
from danish_asr.recipe.data.transforms import Transform


def create_reader(
    index: Index,
    *,
    tokenizer: Tokenizer,
    gangs: Gangs,
    dtype: torch.dtype,
    num_accumulate: int,
    storage_config: MixtureParquetStorageConfig | ManifestStorageConfig,
    task_config: AsrTaskConfig,
    training: bool,
    seed: int,
    text_profile: str = "raw",
    speed_factors: Sequence[float] = (),
    transforms: Sequence[Mapping[str, object]] = (),
    quadratic_seconds: float | None = None,
    num_frames: FrameCount | None = None,
) -> BatchReader:
    """Read the rows of an index in batches; no section is modified.

    In training rows are filtered, mixed, shuffled and transformed as the sections say. In
    evaluation every row comes exactly once over all processes, whatever they say.

    The data-parallel gang decides which batches this process reads, ``num_accumulate`` per step.
    Waveforms are normalised in float32 and then cast to ``dtype``; ``text_profile`` changes the
    targets, and ``example["text"]`` stays raw. ``num_frames`` counts the model's frames (default:
    wav2vec2's).

    Raises:
        ConfigError: A setting is impossible, with these rows or at all.
        DatasetError: The filters leave nothing, there are fewer rows than processes, or the table
            of hours does not fit the rows.
    """
    storage = storage_config if isinstance(storage_config, MixtureParquetStorageConfig) else None
    chosen = check_settings(
        task_config, storage, speed_factors=speed_factors, transforms=transforms
    )
    frames = num_frames or FrameCount()
    collate = Collate(
        index=index,
        targets=Targets(tokenizer, text_profile),
        dtype=dtype,
        normalize=task_config.normalize_audio,
        shortest=frames.shortest_input(),
        remove_unknown=training and task_config.remove_unknown,
        truncate=training and task_config.no_padding,
        transforms=[t for t in chosen if training and isinstance(t, Transform)],
        pin_memory=gangs.root.device.type == "cuda",
    )
    sharding = Sharding(gangs.dp.rank, gangs.dp.size, num_accumulate)
    if not training:
        batches = evaluation_batches(index.lengths, BatchLimits.of(task_config))
        lengths = EpochLengths(index.lengths)
        return BatchReader(collate, lambda _: (batches, lengths), sharding, seed=seed)
    quadratic = quadratic_seconds and quadratic_seconds * SAMPLE_RATE
    epochs = TrainingEpochs(
        collate, frames, task_config, storage, transforms=chosen, seed=seed, quadratic=quadratic
    )
    fingerprint = epochs.fingerprint() | {
        "speed_factors": list(speed_factors),
        "transforms": str([dict(entry) for entry in transforms]),
    }
    return BatchReader(
        collate,
        epochs.make,
        sharding,
        seed=seed,
        fingerprint=fingerprint,
        filtered=epochs.filtered,
        mix=epochs.mix,
    )


class TrainingEpochs:
    """Makes the batches of each epoch of training.

    Attributes:
        filtered: What the filters kept and removed.
        mix: How often an epoch shows each corpus.

    Raises:
        ConfigError: The longest utterance fits no batch.
        DatasetError: The filters leave nothing, or the table of hours does not fit the rows.
    """

    def __init__(
        self,
        collate: Collate,
        frames: FrameCount,
        task: AsrTaskConfig,
        storage: MixtureParquetStorageConfig | None,
        *,
        transforms: Sequence[AnyTransform],
        seed: int,
        quadratic: float | None,
    ) -> None:
        self._index, self._frames, self._task = collate.index, frames, task
        self._transforms, self._seed, self._quadratic = transforms, seed, quadratic
        self._counts = TokenCounts(self._index, collate.targets, remove_unknown=task.remove_unknown)
        self._kept, self.filtered = select_rows(self._index, self._counts, task, frames)
        limits = BatchLimits.of(task)
        self._check_lengths(limits)
        self._longest = min(task.max_audio_len, limits.max_samples or task.max_audio_len)
        self._trained = np.isin(np.arange(len(self._index)), self._kept)
        self.mix = make_mix(self._index, self._kept, storage)

    def _check_lengths(self, limits: BatchLimits) -> None:
        index = self._index
        if not self._kept.size:
            raise DatasetError(
                f"split '{index.name}': the filters leave none of its {len(index)} utterances; "
                "look at min_audio_len, max_audio_len and min_samples_per_char in "
                "dataset.asr_task_config"
            )
        longest = int(index.lengths[self._kept].max())
        if limits.max_samples is not None and longest > limits.max_samples:
            fault = (
                "dataset.asr_task_config.max_num_elements: expected room for the longest training "
                f"utterance ({longest} samples), found {limits.max_samples}; raise it, or lower "
                "max_audio_len"
            )
            raise ConfigError([fault])

    def make(self, epoch: int) -> tuple[Batches, EpochLengths]:
        """The batches of an epoch, counted from 0, and the lengths that its rows have."""
        index, seed = self._index, self._seed
        lengths = EpochLengths.draw(
            self._transforms, index.lengths, self._fit, seed=seed, epoch=epoch
        )
        entries = epoch_entries(index, self._kept, self.mix, seed=seed, epoch=epoch)
        row_group_of = index.row_group_of
        for join in self._transforms:
            if isinstance(join, Join):
                rng = np.random.default_rng([seed, epoch, 4])
                entries, pairs = join.draw(
                    entries, index.voices(), lengths.lengths, self._longest, rng
                )
                lengths = lengths.joined(pairs)
                row_group_of = np.append(row_group_of, row_group_of[pairs.first])
        batches = training_batches(
            lengths.lengths,
            row_group_of,
            entries,
            self._task,
            self._quadratic,
            seed=seed,
            epoch=epoch,
        )
        return batches, lengths

    def _fit(self, lengths: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which rows may have these lengths."""
        allowed = (lengths >= self._task.min_audio_len) & (lengths <= self._longest)
        return self._counts.enough(self._frames(lengths), self._trained & allowed)

    def fingerprint(self) -> dict[str, object]:
        """What a checkpoint must agree with to be continued, by name."""
        repeats = [f"{row.partition} {row.repeats:.6f}" for row in self.mix.rows]
        return {
            "utterances": len(self._kept),
            "content": self._index.digest(self._kept),
            "seed": self._seed,
            "limits": str(BatchLimits.of(self._task, self._quadratic)),
            "example_shuffle_window": self._task.example_shuffle_window,
            "batch_shuffle_window": self._task.batch_shuffle_window,
            "repeats": ", ".join(repeats),
            "drop_remainder": self._task.drop_remainder,
            "max_num_batches": self._task.max_num_batches,
        }
