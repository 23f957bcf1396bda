"""fairseq2's ``DataReader`` over a planned epoch: background decoding, exact resume."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from typing_extensions import override

from danish_asr.cluster.cpus import usable_cpus
from danish_asr.data.batches import BatchLoader
from danish_asr.data.filters import Account
from danish_asr.data.mixture import Mix
from danish_asr.data.plan import Plan, Rows, Step, deal, left_over
from danish_asr.data.speed import perturbed_lengths
from danish_asr.errors import DanishAsrError, DatasetError, RunError

# isort: split
from fairseq2.data.data_pipeline import read_sequence
from fairseq2.datasets import DataReader, Seq2SeqBatch

_STATE_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Share:
    """One process's part: its rank among ``world`` data-parallel processes."""

    rank: int
    world: int
    accumulate: int


class PlannedReader(DataReader[Seq2SeqBatch]):
    """Reads the batches of a plan, the same number on every process, without any communication.

    The state is the place in the epoch's plan that was *consumed*, whatever was read ahead; it is
    the same on all processes and fits any number of them. :meth:`reset` begins the next epoch, for
    which a training plan is made anew; an evaluation plan is the same every time.

    Attributes:
        account: What training's filters left and removed; None in evaluation.
        mix: The effective mix of training; None in evaluation.
        plan: The current epoch's plan.
    """

    def __init__(
        self,
        load: BatchLoader,
        make_plan: Callable[[int], Plan],
        share: Share,
        *,
        seed: int,
        fingerprint: Mapping[str, object],
        account: Account | None = None,
        mix: Mix | None = None,
    ) -> None:
        self.account = account
        self.mix = mix
        self._load = load
        self._make_plan = make_plan
        self._share = share
        self._seed = seed
        self._fingerprint = dict(fingerprint)
        self._pipeline: Iterator[Any] | None = None
        self._epoch = self._position = self._done = 0
        self._carried: list[Rows] = []
        self._steps: list[Step] = []
        self.plan: Plan
        self._begin_epoch(0, 0, [])
        if not self._steps:
            raise DatasetError(
                f"split '{load.index.name}' has {len(load.index)} utterances, of which "
                f"{len(self.plan.rows)} can be used; that is too few for {share.world} processes"
            )

    @property
    def num_rows(self) -> int:
        """Rows of the split, used or not."""
        return len(self._load.index)

    @property
    def steps_per_epoch(self) -> int:
        """Steps in the current epoch, for this number of processes and this accumulation."""
        share = self._share
        return len(_deal(self.plan, 0, share, keep_all=self._is_evaluation))

    @property
    def padding(self) -> float:
        """Share of the current epoch's padded samples that is padding."""
        lengths, speeds = self._load.index.lengths, self.plan.speeds
        if speeds is not None:
            lengths = perturbed_lengths(lengths, speeds.of(slice(None)))
        return self.plan.padding(lengths)

    @property
    @override
    def num_accumulate(self) -> int:
        return self._share.accumulate

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
        if self._is_evaluation:
            self._begin_epoch(0, 0, [])
            return
        share = self._share
        carried = left_over(
            self.plan, position=self._position, world=share.world, accumulate=share.accumulate
        )
        if self.plan.speeds is not None:
            # The next epoch plays these rows, fewer than processes, at other speeds, at which they
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
            "fingerprint": dict(self._fingerprint),
        }

    @override
    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Continue where a reader of the same dataset and settings stood.

        Raises:
            RunError: The dataset or a setting is not what it was; the message names them.
        """
        state: dict[str, Any] = dict(state_dict)
        if state.get("version") != _STATE_VERSION:
            raise RunError(
                "the checkpoint's data position was not written by this version of danish-asr; "
                "start a new output directory, with the checkpoint's model as model.path"
            )
        self._refuse_change(state["fingerprint"])
        carried = [np.array(batch, np.int32) for batch in state["carried"]]
        self._begin_epoch(state["epoch"], state["position"], carried)

    def _refuse_change(self, then: Mapping[str, object]) -> None:
        now = self._fingerprint
        changes = [
            f"{key}: {then.get(key, 'absent')} then, {now.get(key, 'absent')} now"
            for key in dict.fromkeys([*then, *now])
            if then.get(key) != now.get(key)
        ]
        if changes:
            raise RunError(
                f"the checkpoint was made with other data or settings ({'; '.join(changes)}), so "
                "its place in the data means nothing here; restore them, or start a new output "
                "directory, with the checkpoint's model as model.path"
            )

    @property
    def _is_evaluation(self) -> bool:
        return self.account is None

    def _begin_epoch(self, epoch: int, position: int, carried: list[Rows]) -> None:
        self._pipeline = None
        self._epoch, self._position, self._carried = epoch, position, carried
        self.plan = self._make_plan(epoch).after(carried)
        self._steps = _deal(self.plan, position, self._share, keep_all=self._is_evaluation)
        self._done = 0

    def _open_pipeline(self) -> Iterator[Any]:
        """Decode the remaining batches of this process in the background, in order."""
        spans = [span for step in self._steps[self._done :] for span in step.spans]
        # No reference to the reader itself: a cycle through the native pipeline is never collected,
        # and one that lives until the interpreter ends brings it down.
        load_rows, plan, seed = self._load, self.plan, (self._seed, self._epoch)

        def load(number: int) -> Seq2SeqBatch | DanishAsrError:
            begin, end = spans[number]
            try:
                rows = plan.rows[begin:end]
                return load_rows(rows, seed=seed, first=begin, speeds=plan.speeds)
            except DanishAsrError as error:
                return error  # an exception would lose its place in the order of the batches

        threads = usable_cpus()
        pipeline = (
            read_sequence(range(len(spans)))
            .map(load, num_parallel_calls=threads)
            .prefetch(max(2, self._share.accumulate))
            .and_return()
        )
        return iter(pipeline)


def _deal(plan: Plan, position: int, share: Share, *, keep_all: bool) -> list[Step]:
    return deal(
        plan,
        position=position,
        rank=share.rank,
        world=share.world,
        accumulate=share.accumulate,
        keep_all=keep_all,
    )
