"""The batches of each epoch of training: rows that the filters keep, mixed by weight, at speeds.

The lengths are drawn for an epoch, from seed and epoch alone, before its batches are made, so that
the sampler plans with the lengths that come out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from danish_asr.base.errors import ConfigError, DatasetError, user_code
from danish_asr.recipe.config.schema import TaskSection
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.mix import epoch_entries, make_mix
from danish_asr.recipe.data.sampler import Batches, BatchLimits, RandomStream, training_batches
from danish_asr.recipe.data.targets import FrameCount, NeededFrames, Targets, select_rows
from danish_asr.recipe.data.transforms import AnyTransform, LengthTransform, Waveform


@dataclass(frozen=True, eq=False)
class EpochLengths:
    """The lengths of all rows in one epoch, and the draws that they follow from.

    Attributes:
        lengths: Samples of every row of the index, ``(rows,)``.
        draws: For each length transform its value for every row, and whether it acts on the row.
    """

    lengths: NDArray[np.int32]
    draws: tuple[tuple[LengthTransform, NDArray[Any], NDArray[np.bool_]], ...] = ()

    @classmethod
    def draw(
        cls,
        transforms: Sequence[AnyTransform],
        lengths: NDArray[np.int32],
        fits: Callable[[NDArray[np.int32]], NDArray[np.bool_]],
        *,
        seed: int,
        epoch: int,
    ) -> Self:
        """Draw an epoch's values; a row acts only if it ``fits`` with its new length."""
        rng = RandomStream.LENGTHS.generator(seed, epoch)
        draws = []
        for transform in transforms:
            if isinstance(transform, LengthTransform):
                with user_code(transform, "in `draw` and `lengths`"):
                    values = transform.draw(len(lengths), rng)
                    changed = np.asarray(transform.lengths(lengths, values))
                    if changed.shape != lengths.shape or changed.dtype.kind not in "iu":
                        raise TypeError(f"expected {lengths.shape} integers from `lengths`")
                acts = fits(changed)
                lengths = np.where(acts, changed, lengths)
                draws.append((transform, values, acts))
        return cls(lengths, tuple(draws))

    def change(self, waveform: Waveform, row: int) -> Waveform:
        """Apply the length transforms that act on a row of the index."""
        for transform, values, acts in self.draws:
            if acts[row]:
                with user_code(transform, "changing a waveform"):
                    waveform = np.asarray(transform(waveform, values[row]), np.float32)
        if len(waveform) != self.lengths[row]:
            names = ", ".join(type(transform).__name__ for transform, _, _ in self.draws)
            raise ValueError(
                f"{names} returned {len(waveform)} samples, `lengths` stated {self.lengths[row]}"
            )
        return waveform


class TrainingEpochs:
    """Makes the batches of each epoch of training.

    ``beta_corpus`` is upstream's key, ``quadratic`` is ``dataset.quadratic_seconds`` in samples.

    Attributes:
        filtered: What the filters kept and removed.
        mix: How often an epoch shows each corpus.

    Raises:
        ConfigError: The longest utterance fits no batch.
        DatasetError: The filters leave nothing.
    """

    def __init__(
        self,
        index: Index,
        targets: Targets,
        frames: FrameCount,
        task: TaskSection,
        *,
        beta_corpus: float | None,
        transforms: Sequence[AnyTransform],
        seed: int,
        quadratic: float | None,
    ) -> None:
        self._index, self._frames, self._task = index, frames, task
        self._transforms, self._seed, self._quadratic = transforms, seed, quadratic
        self._needed = NeededFrames(index, targets)
        self._kept, self.filtered = select_rows(index, self._needed, task, frames)
        if not self._kept.size:
            raise DatasetError(
                f"split '{index.name}': the filters leave none of its {len(index)} utterances; "
                "look at min_audio_len, max_audio_len and min_samples_per_char in "
                "dataset.asr_task_config"
            )
        limit = task.max_num_elements
        longest = int(index.lengths[self._kept].max())
        if longest > limit:
            fault = (
                "dataset.asr_task_config.max_num_elements: expected room for the longest training "
                f"utterance ({longest} samples), found {limit}; raise it, or lower max_audio_len"
            )
            raise ConfigError([fault])
        self._longest = min(task.max_audio_len, limit)
        self._trained = np.isin(np.arange(len(index)), self._kept)
        self.mix = make_mix(index, self._kept, beta_corpus)

    def make(self, epoch: int) -> tuple[Batches, EpochLengths]:
        """The batches of an epoch, counted from 0, and the lengths that its rows have."""
        index, seed = self._index, self._seed
        lengths = EpochLengths.draw(
            self._transforms, index.lengths, self._fit, seed=seed, epoch=epoch
        )
        entries = epoch_entries(self._kept, self.mix, seed=seed, epoch=epoch)
        if not entries.size:
            raise DatasetError(
                f"dataset.weights: no row is left in epoch {epoch}, because every row has a factor "
                "far below 1; raise them all"
            )
        batches = training_batches(
            lengths.lengths,
            index.row_group_of,
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
        return self._needed.fit(self._frames(lengths), self._trained & allowed)

    def fingerprint(self) -> dict[str, object]:
        """What a checkpoint must agree with to be continued, by name."""
        repeats = [f"{row.name} {row.repeats:.6f}" for row in self.mix.rows]
        weights = [f"{row.name} ({row.rows} rows)" for row in self.mix.weighted]
        return {
            "utterances": len(self._kept),
            "content": self._index.digest(self._kept),
            "seed": self._seed,
            "limits": str(BatchLimits.of(self._task, self._quadratic)),
            "example_shuffle_window": self._task.example_shuffle_window,
            "batch_shuffle_window": self._task.batch_shuffle_window,
            "repeats": ", ".join(repeats),
            "weights": f"{', '.join(weights)} {self.mix.digest()}" if weights else "none",
        }
