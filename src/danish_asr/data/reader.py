"""fairseq2's ``DataReader`` over the batches of an epoch: background decoding, exact resume."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Self

import numpy as np
from typing_extensions import override

from danish_asr.cluster.cpus import usable_cpus
from danish_asr.data.collate import Collate
from danish_asr.data.filters import FilterStatistics
from danish_asr.data.mixture import Mix
from danish_asr.data.sampler import Batches, Rows, Sharding, Step
from danish_asr.data.transforms import EpochLengths
from danish_asr.errors import DanishAsrError, DatasetError, RunError

# isort: split
from fairseq2.data.data_pipeline import read_sequence
from fairseq2.datasets import DataReader, Seq2SeqBatch

_STATE_VERSION: Final = 1

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
        batches: The current epoch's batches.
        fingerprint: What a checkpoint must agree with to be continued, by name.
    """

    def __init__(
        self,
        collate: Collate,
        make_epoch: MakeEpoch,
        sharding: Sharding,
        *,
        seed: int,
        fingerprint: Mapping[str, object],
        filtered: FilterStatistics | None = None,
        mix: Mix | None = None,
    ) -> None:
        self.filtered = filtered
        self.mix = mix
        self._collate = collate
        self._make_epoch = make_epoch
        self._sharding = sharding
        self._seed = seed
        self.fingerprint = dict(fingerprint)
        self._keep_all = filtered is None
        self.batches: Batches
        self._pipeline: Iterator[Any] | None
        self._steps: list[Step]
        self._begin_epoch(0, 0, [])
        if not self._steps:
            raise DatasetError(
                f"split '{collate.index.name}' has {len(collate.index)} utterances, of which "
                f"{len(self.batches.rows)} can be used; that is too few for "
                f"{sharding.world_size} processes"
            )

    @property
    def num_rows(self) -> int:
        """Rows of the split, used or not."""
        return len(self._collate.index)

    @property
    def steps_per_epoch(self) -> int:
        """Steps in the current epoch, for this number of processes and this accumulation."""
        return len(self._sharding.steps(self.batches, 0, keep_all=self._keep_all))

    @property
    def padding(self) -> float:
        """Share of the current epoch's padded samples that is padding."""
        return self.batches.padding(self._lengths.lengths)

    @property
    @override
    def num_accumulate(self) -> int:
        return self._sharding.num_accumulate

    @override
    def __iter__(self) -> Self:
        return self

    @override
    def __next__(self) -> list[Seq2SeqBatch]:
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
        carried = self._sharding.remainder(self.batches, self._position)
        if self._lengths.draws:
            # In the next epoch these rows, fewer than processes, have other lengths, at which they
            # might not fit a batch together.
            carried = [row for batch in carried for row in np.split(batch, len(batch))]
        self._begin_epoch(self._epoch + 1, 0, carried)

    @override
    def state_dict(self) -> dict[str, object]:
        return {
            "version": _STATE_VERSION,
            "epoch": self._epoch,
            "position": self._position,
            "carried": [batch.tolist() for batch in self._carried],
            "fingerprint": dict(self.fingerprint),
        }

    @override
    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Continue where a reader of the same dataset and settings was.

        Raises:
            RunError: The dataset or a setting is not what it was; the message names them.
        """
        state: dict[str, Any] = dict(state_dict)
        if state.get("version") != _STATE_VERSION:
            raise RunError(
                "the checkpoint's data position was not written by this version of danish-asr; "
                "start a new output directory, with the checkpoint's model as model.path"
            )
        then, now = state["fingerprint"], self.fingerprint
        changes = [
            f"{key}: {then.get(key, 'absent')} then, {now.get(key, 'absent')} now"
            for key in dict.fromkeys([*then, *now])
            if then.get(key) != now.get(key)
        ]
        if changes:
            raise RunError(
                f"the checkpoint was made with other data or settings ({'; '.join(changes)}), so "
                "its data position cannot be used; restore them, or start a new output directory, "
                "with the checkpoint's model as model.path"
            )
        carried = [np.array(batch, np.int32) for batch in state["carried"]]
        self._begin_epoch(state["epoch"], state["position"], carried)

    def _begin_epoch(self, epoch: int, position: int, carried: list[Rows]) -> None:
        self._pipeline = None
        self._epoch, self._position, self._carried = epoch, position, carried
        batches, self._lengths = self._make_epoch(epoch)
        self.batches = batches.after(carried)
        self._steps = self._sharding.steps(self.batches, position, keep_all=self._keep_all)
        self._done = 0

    def _open_pipeline(self) -> Iterator[Any]:
        """Decode the remaining batches of this process in the background, in order."""
        spans = [span for step in self._steps[self._done :] for span in step.spans]
        # No reference to the reader itself: a cycle through the native pipeline is never collected,
        # and one that lives until the interpreter ends crashes it.
        collate, rows, lengths = self._collate, self.batches.rows, self._lengths
        seed = (self._seed, self._epoch)

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
