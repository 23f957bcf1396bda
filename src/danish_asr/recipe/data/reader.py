"""fairseq2's ``DataReader`` over the batches of an epoch: background decoding, exact resume."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np
from fairseq2.data.data_pipeline import read_sequence
from fairseq2.datasets import DataReader, Seq2SeqBatch
from typing_extensions import override

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.errors import DanishAsrError, DatasetError, RunError
from danish_asr.recipe.data.collate import Collate
from danish_asr.recipe.data.epoch_lengths import EpochLengths
from danish_asr.recipe.data.filters import FilterStatistics
from danish_asr.recipe.data.mixture import Mix
from danish_asr.recipe.data.sampler import Batches, Rows, Sharding

MakeEpoch = Callable[[int], tuple[Batches, EpochLengths]]
"""The batches of an epoch, counted from 0, and the lengths that its rows have."""


class BatchReader(DataReader[Seq2SeqBatch]):
    """Reads batches, the same number on every process, without any communication.

    The state is the place in the epoch that was *consumed*, whatever was read ahead; it is the same
    on all processes and fits any number of them. :meth:`reset` begins the next epoch, which has
    batches of its own in training and the same ones in evaluation.

    Attributes:
        filtered: What training's filters kept and removed; None in evaluation.
        mix: The effective mix of training; None in evaluation.
        epoch: The current epoch, counted from 0.
        before_step: Called before each step is read; it may end the run with an exception.
    """

    def __init__(
        self,
        collate: Collate,
        make_epoch: MakeEpoch,
        sharding: Sharding,
        *,
        seed: int,
        fingerprint: Mapping[str, object] | None = None,
        filtered: FilterStatistics | None = None,
        mix: Mix | None = None,
    ) -> None:
        self.filtered, self.mix = filtered, mix
        self.before_step: Callable[[], None] = lambda: None
        self._fingerprint = dict(fingerprint or {})
        self._collate, self._make_epoch, self._seed = collate, make_epoch, seed
        self._sharding = sharding
        self._keep_all = filtered is None
        self._begin_epoch(0, 0, [])
        if not self._steps:
            raise DatasetError(
                f"split '{collate.index.name}' has {len(collate.index)} utterances, of which "
                f"{len(self._batches.rows)} can be used; that is too few for "
                f"{sharding.world_size} processes"
            )

    def _begin_epoch(self, epoch: int, position: int, carried: list[Rows]) -> None:
        self._pipeline: Iterator[Any] | None = None
        self.epoch, self._position, self._carried = epoch, position, carried
        batches, self._lengths = self._make_epoch(epoch)
        self._batches = batches.after(carried)
        self._steps = self._sharding.steps(self._batches, position, keep_all=self._keep_all)
        self._done = 0

    @property
    def steps_per_epoch(self) -> int:
        """Steps in the current epoch, for this number of processes and this accumulation."""
        return len(self._sharding.steps(self._batches, 0, keep_all=self._keep_all))

    @property
    def epochs_read(self) -> int:
        """Epochs that were read to their end."""
        return self.epoch + (self._done == len(self._steps))

    @property
    def batches(self) -> int:
        """Batches of the current epoch, of all processes."""
        return len(self._batches)

    @property
    def rows(self) -> int:
        """Rows of the current epoch, repeated ones several times."""
        return len(self._batches.rows)

    @property
    def samples(self) -> int:
        """Samples in the current epoch, without padding."""
        return int(self._lengths.lengths[self._batches.rows].sum(dtype=np.int64))

    @property
    def longest(self) -> int:
        """Samples of the longest row in the current epoch."""
        return int(self._lengths.lengths[self._batches.rows].max())

    @property
    def padding(self) -> float:
        """Share of the current epoch's padded samples that is padding."""
        return self._batches.padding(self._lengths.lengths)

    @property
    @override
    def num_accumulate(self) -> int:
        return self._sharding.num_accumulate

    @override
    def __iter__(self) -> Self:
        return self

    @override
    def __next__(self) -> list[Seq2SeqBatch]:
        self.before_step()
        if self._done == len(self._steps):
            raise StopIteration
        if self._pipeline is None:
            self._pipeline = self._open_pipeline()
        step = self._steps[self._done]
        batches = []
        for _ in step.spans:
            batch = next(self._pipeline)
            if isinstance(batch, DanishAsrError):
                self._pipeline = None
                raise batch
            batches.append(batch)
        self._done += 1
        self._position += step.consumed
        return batches

    @override
    def reset(self) -> None:
        if self._keep_all:
            self._begin_epoch(0, 0, [])
            return
        carried = self._sharding.remainder(self._batches, self._position)
        if self._lengths.draws or self._lengths.pairs is not None:
            # In the next epoch these rows, fewer than processes, have other lengths, at which they
            # might not fit a batch together, and other pairs.
            single = list[Rows]()
            for row in np.concatenate([np.array([], np.int32), *carried]).tolist():
                parts, _ = self._lengths.parts(row)
                single += [np.array([part], np.int32) for part in parts]
            carried = single
        self._begin_epoch(self.epoch + 1, 0, carried)

    def begin_with_longest(self, steps: int) -> int:
        """Let the epoch begin with so many steps of the batches that need the most memory.

        Returns the samples of the largest batch, with padding. For measurements, not for training.
        """
        batches, lengths = self._batches, self._lengths.lengths
        padded = batches.padded_samples(lengths)
        longest = np.maximum.reduceat(lengths[batches.rows], batches.offsets[:-1])
        # Attention's memory is that of rows times their length squared.
        order = np.argsort(-(padded * longest), kind="stable")
        first = order[: steps * self._sharding.world_size * self.num_accumulate]
        rest = np.setdiff1d(np.arange(len(batches)), first)
        self._batches = batches.take(np.concatenate([first, rest]))
        self._steps = self._sharding.steps(self._batches, 0, keep_all=False)
        return int(padded.max())

    @override
    def state_dict(self) -> dict[str, object]:
        return {
            "epoch": self.epoch,
            "position": self._position,
            "carried": [batch.tolist() for batch in self._carried],
            "fingerprint": dict(self._fingerprint),
        }

    @override
    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Continue where a reader of the same dataset and settings was, else ``RunError``."""
        state: dict[str, Any] = dict(state_dict)
        then, now = state["fingerprint"], self._fingerprint
        changes = [
            f"{key}: {then.get(key)} then, {value} now"
            for key, value in now.items()
            if then.get(key) != value
        ]
        if changes:
            raise RunError(
                f"the checkpoint was made with other data or settings ({'; '.join(changes)}), so "
                "its data position cannot be used; restore them, or start a new output directory, "
                "with the checkpoint's model as model.path"
            )
        carried = [np.array(batch, np.int32) for batch in state["carried"]]
        self._begin_epoch(state["epoch"], state["position"], carried)

    def _open_pipeline(self) -> Iterator[Any]:
        """Decode the remaining batches of this process in the background, in order."""
        spans = [span for step in self._steps[self._done :] for span in step.spans]
        # No reference to the reader itself: a cycle through the native pipeline is never collected,
        # and one that lives until the interpreter ends crashes it.
        collate, rows, lengths = self._collate, self._batches.rows, self._lengths
        seed = (self._seed, self.epoch)

        def load(number: int) -> Seq2SeqBatch | DanishAsrError:
            begin, end = spans[number]
            try:
                return collate(rows[begin:end], lengths, seed=seed, first=begin)
            except DanishAsrError as error:
                return error  # an exception would lose its place in the order of the batches

        pipeline = (
            read_sequence(range(len(spans)))
            .map(load, num_parallel_calls=usable_cpus())
            .prefetch(max(2, self._sharding.num_accumulate))
            .and_return()
        )
        return iter(pipeline)
