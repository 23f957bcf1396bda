"""From an index to fairseq2's ``DataReader`` of its batches: background decoding, exact resume."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeVar, cast, final

import numpy as np
import torch
from fairseq2.data.data_pipeline import read_sequence
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.datasets import DataReader, Seq2SeqBatch
from fairseq2.gang import Gangs
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import layer_norm
from typing_extensions import override

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.errors import DanishAsrError, DatasetError, RunError, user_code
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.config.schema import AsrConfig, DatasetSection
from danish_asr.recipe.data.index import TARGET, Index, Rows
from danish_asr.recipe.data.sampler import (
    BatchLimits,
    Epoch,
    Sharding,
    TrainingEpochs,
    evaluation_batches,
)
from danish_asr.recipe.data.targets import FrameCount, Targets
from danish_asr.recipe.data.transforms import Transform, Waveform, at_speed, transforms_of_training

T = TypeVar("T")


class ReaderSetup(NamedTuple):
    """What a reader takes beside the configuration."""

    tokenizer: Tokenizer
    gangs: Gangs  # the data-parallel one decides which batches this process reads
    frames: FrameCount  # of the model


def open_reader(
    setup: ReaderSetup, config: AsrConfig, index: Index, *, training: bool
) -> "BatchReader":
    """Read the rows of an index, with targets, in batches.

    In training rows are filtered, mixed, shuffled and transformed as the configuration says. In
    evaluation every row comes exactly once over all processes, whatever it says.

    Raises:
        ConfigError: A setting is impossible, with these rows or at all.
        DatasetError: The filters leave nothing, or there are fewer rows than processes.
    """
    section, seed, gangs = config.dataset, config.common.seed, setup.gangs
    targets, epochs, num_accumulate = Targets(setup.tokenizer), None, 1
    if training:
        epochs = TrainingEpochs(index, targets, setup.frames, section, seed=seed)
        num_accumulate = config.trainer.grad_accumulation.num_batches
    stage = Stage(
        index=index,
        make_epoch=epochs.make if epochs else _every_row(index, section),
        targets=targets,
        dtype=waveform_dtype(gangs, config),
        normalize=section.asr_task_config.normalize_audio,
        shortest=setup.frames.shortest_input(),
        transforms=transforms_of_training(section) if training else (),
        pin_memory=gangs.root.device.type == "cuda",
    )
    sharding = Sharding(gangs.dp.rank, gangs.dp.size, num_accumulate)
    reader = BatchReader(stage, sharding, seed=seed, training=training)
    if epochs:
        reader.digests = {0: index.digest(epochs.kept)}
        reader.filtered, reader.mix = epochs.filtered, epochs.mix
    return reader


def waveform_dtype(gangs: Gangs, config: AsrConfig) -> torch.dtype:
    """Return full precision, unless sharded parameters in half precision accept nothing else.

    Autocast reduces the precision inside the model, after the first layer has the waveform.
    """
    trainer, precision = config.trainer, config.trainer.mixed_precision
    sharded = trainer.data_parallelism == "fsdp" and gangs.dp.size > 1
    if sharded and precision.mode == "static":
        return cast(torch.dtype, getattr(torch, precision.dtype))
    return torch.float32


def _every_row(index: Index, section: DatasetSection) -> Callable[[int], Epoch]:
    batches = evaluation_batches(index.lengths, BatchLimits.of_evaluation(section))
    epoch = Epoch(batches, index.lengths, np.ones(len(index)))
    return lambda _: epoch


class EpochSize(NamedTuple):
    """The size of an epoch over all processes; rows that come several times count so."""

    steps: int
    rows: int
    padding: float  # the share of the padded samples that is padding
    hours: float
    longest: int  # samples of the longest row


class BatchReader(DataReader[Seq2SeqBatch]):
    """Reads batches, the same number on every process, without any communication.

    The state is the place in the epoch that was *consumed*, whatever was read ahead; it is the same
    on all processes and fits any number of them. :meth:`reset` begins the next epoch, which has
    batches of its own in training and the same ones in evaluation.

    In training the largest batches come first (`Sharding.largest_first`) at the begin, at each
    stage, after a step of ``frees_layers``, and when another number of processes continues.

    Attributes:
        digests: Of the rows of training, by the first step of their stage; a checkpoint must agree.
        filtered: A table of what training's filters kept and removed.
        mix: A table of the effective mix of training.
        epoch: The current epoch, counted from 0.
        step: Steps that training has taken; they decide which stage is read.
        frees_layers: Steps of training after which more layers learn, which takes more memory.
        before_step: Called before each step is read; it may end the run with an exception.
    """

    filtered = mix = ""
    frees_layers: Collection[int] = ()

    def __init__(self, stage: "Stage", sharding: Sharding, *, seed: int, training: bool) -> None:
        self.before_step: Callable[[], None] = lambda: None
        self.digests: dict[int, str] = {}
        self.step, self.stages = 0, {0: stage}
        self._sharding, self._seed, self._training = sharding, seed, training
        self._begin_epoch(0)
        if training:
            self._read_largest_first()
        if not self._steps:
            usable = f"{len(self._batches.rows)} of {len(stage.index)} utterances can be used"
            fault = f"{usable}, too few for {sharding.world_size} processes"
            raise DatasetError(f"split '{stage.index.name}': {fault}")

    def add_stage(self, first: int, other: "BatchReader") -> None:
        """From step ``first`` on, read what another reader of training reads."""
        self.stages[first] = other.stages[0]
        self.digests[first] = other.digests[0]

    @property
    def _due_stage(self) -> int:
        return max(first for first in self.stages if first <= self.step)

    def _begin_epoch(self, number: int, stage: int = 0, position: int = 0) -> None:
        self.epoch, self._stage, self._position = number, stage, position
        self._read = self.stages[stage].make_epoch(number)
        self._batches = self._read.batches
        self._order = np.arange(len(self._batches))
        self._share_out()

    def _share_out(self) -> None:
        """Begin to read the batches from the position on."""
        self._pipeline: Iterator[Seq2SeqBatch] | None = None
        self._steps = self._all_steps(self._position)
        self._done = 0

    def _all_steps(self, position: int) -> list[list[tuple[int, int]]]:
        return self._sharding.steps(self._batches, position, keep_all=not self._training)

    def _read_largest_first(self) -> None:
        """Read the largest of the batches that are left next."""
        memory = self._batches.memory(self._read.lengths)
        self._read_in_order(self._order[self._sharding.largest_first(memory, self._position)])

    def _read_in_order(self, order: NDArray[np.int64]) -> None:
        self._order, self._batches = order, self._read.batches.take(order)
        self._share_out()

    @property
    def epochs_read(self) -> int:
        """Epochs that were read to their end."""
        return self.epoch + (self._done == len(self._steps))

    def epoch_size(self) -> EpochSize:
        """The size of the current epoch."""
        lengths = self._read.lengths
        played = lengths[self._batches.rows]
        return EpochSize(
            steps=len(self._all_steps(0)),
            rows=len(played),
            padding=self._batches.padding(lengths),
            hours=int(played.sum(dtype=np.int64)) / SAMPLE_RATE / 3600,
            longest=int(played.max()),
        )

    def largest_memory(self) -> float:
        """`Batches.memory` of the largest batch of the current epoch."""
        return float(self._batches.memory(self._read.lengths).max())

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
        if self._done == len(self._steps) or self._stage != self._due_stage:
            raise StopIteration
        if self.step in self.frees_layers:
            self._read_largest_first()
        if self._pipeline is None:
            self._pipeline = self._open_pipeline()
        batches = [next(self._pipeline) for _ in self._steps[self._done]]
        self._done += 1
        after = self._position + self._sharding.batches_per_step
        self._position = min(after, len(self._batches))
        return batches

    @override
    def reset(self) -> None:
        if not self._training:
            self._begin_epoch(0)
            return
        changes = self._stage != self._due_stage
        self._begin_epoch(self.epoch + 1, self._due_stage)
        if changes:
            self._read_largest_first()

    @override
    def state_dict(self) -> dict[str, object]:
        return {
            "epoch": self.epoch,
            "stage": self._stage,
            "position": self._position,
            "order": torch.from_numpy(self._order),
            "processes": self._sharding.world_size,
            "digests": dict(self.digests),
        }

    @override
    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Continue where a reader of the same rows and settings was; RunError for other rows."""
        state: dict[str, Any] = dict(state_dict)
        if state["digests"] != self.digests:
            raise RunError(
                "the checkpoint was made with other rows of the dataset; restore them, or start a "
                "new run with the checkpoint as model.path"
            )
        self._begin_epoch(state["epoch"], state["stage"], state["position"])
        self._read_in_order(state["order"].numpy())
        if state["processes"] != self._sharding.world_size:
            self._read_largest_first()

    def _open_pipeline(self) -> Iterator[Seq2SeqBatch]:
        """Decode the remaining batches of this process in the background, in order."""
        spans = [span for step in self._steps[self._done :] for span in step]
        # No reference to the reader itself: a cycle through the native pipeline is never collected,
        # and one that lives until the interpreter ends crashes it.
        stage = self.stages[self._stage]
        rows, epoch = self._batches.rows, self._read
        seed = (self._seed, self.epoch)

        def load(number: int) -> Seq2SeqBatch:
            begin, end = spans[number]
            return stage.load(rows[begin:end], epoch, seed=seed, first=begin)

        return in_background(load, len(spans), ahead=max(2, self._sharding.num_accumulate))


def in_background(load: Callable[[int], T], count: int, *, ahead: int = 2) -> Iterator[T]:
    """Yield what ``load``, which must be thread-safe, makes of 0, 1, ... up to a ``count``."""

    def attempt(number: int) -> T | DanishAsrError:
        try:
            return load(number)
        except DanishAsrError as error:
            return error  # an exception would lose its place in the order

    pipeline = read_sequence(range(count)).map(attempt, num_parallel_calls=usable_cpus())
    for made in pipeline.prefetch(ahead).and_return():
        if isinstance(made, DanishAsrError):
            raise made
        yield made


class ValidationInterrupted(Exception):  # noqa: N818 - it is an event, not an error
    """The run must stop before the validation is complete."""


@final
class SplitsReader(DataReader[Seq2SeqBatch]):
    """Reads several splits one after the other, so that one score covers all of their rows.

    The ``example["split"]`` of a batch is the name of the split in the configuration.

    Attributes:
        indices: The rows of splits, by name.
        interrupted: Called before a batch; if it returns True, which it must do on every rank,
            :class:`ValidationInterrupted` is raised instead.
    """

    def __init__(self, readers: Mapping[str, BatchReader], indices: Mapping[str, Index]) -> None:
        self._readers, self.indices = readers, indices
        self.interrupted: Callable[[], bool] = lambda: False
        self._left = self._batches()

    def _batches(self) -> Iterator[list[Seq2SeqBatch]]:
        # A reader begins with its largest batch, and the first one with the largest of all.
        for name in sorted(self._readers, key=lambda name: -self._readers[name].largest_memory()):
            for batches in self._readers[name]:
                for batch in batches:
                    example = cast(dict[str, Any], batch.example)
                    example["split"] = [name] * batch.num_examples
                yield batches

    @override
    def __iter__(self) -> Self:
        return self

    @override
    def __next__(self) -> list[Seq2SeqBatch]:
        if self.interrupted():
            self.reset()
            raise ValidationInterrupted
        return next(self._left)

    @override
    def reset(self) -> None:
        for reader in self._readers.values():
            reader.reset()
        self._left = self._batches()

    @override
    def state_dict(self) -> dict[str, object]:
        return {}  # a validation always begins with its first row

    @override
    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        pass

    @property
    @override
    def num_accumulate(self) -> int:
        return 1


@dataclass(frozen=True, eq=False)
class Stage:
    """What a stage of training reads, or an evaluation: batches of rows of an index.

    Source sequences are ``(rows, samples)`` in ``dtype``, padded with 0; target sequences are
    ``(rows, tokens)`` int64, padded with the pad index. fairseq2 accepts no target without tokens,
    so the target of a text that gives none is one pad symbol. ``example`` is a dict of lists, one
    item per row: the texts of the index, ``audio_size`` (samples of the recording) and
    ``target_size`` (tokens; 0 for a text that gives none).
    """

    index: Index  # with targets
    make_epoch: Callable[[int], Epoch]
    targets: Targets
    dtype: torch.dtype
    normalize: bool  # each waveform to mean 0 and variance 1
    shortest: int  # shorter waveforms are padded to so many samples: the model's first frame
    transforms: Sequence[Transform]  # but speed, which comes with the epoch
    pin_memory: bool

    def load(self, rows: Rows, epoch: Epoch, *, seed: Sequence[int], first: int) -> Seq2SeqBatch:
        """Load rows of the index, of which the first has this place in the epoch; thread-safe.

        The seed (the run's and the epoch's) and that place fix all that is random.

        Raises:
            DatasetError: A row's audio cannot be read or decoded, or its length is not the index's.
        """
        columns = zip(
            *map(self.index.texts.row, rows.tolist()), strict=True
        )  # faster than a gather
        example = dict(zip(self.index.texts.columns, map(list, columns), strict=True))
        targets = [self.targets(text) for text in example.pop(TARGET)]
        example["audio_size"] = self.index.lengths[rows].tolist()
        example["target_size"] = [len(target) for target in targets]
        sizes = epoch.lengths[rows]
        lengths = np.maximum(sizes, self.shortest)
        waveforms = np.empty((len(rows), lengths.max()), np.float32)
        places = range(first, first + len(rows))
        # One after the other for all rows, which code in a processor's cache makes much faster.
        rngs: list[Any] = [np.random.default_rng([*seed, n]) for n in places if self.transforms]
        for number, (row, size) in enumerate(zip(rows.tolist(), sizes.tolist(), strict=True)):
            waveforms[number, size:] = 0
            self._fill(waveforms[number, :size], row, epoch, rngs[number] if rngs else None)
        target_lengths = [max(1, size) for size in example["target_size"]]
        padded = np.full((len(rows), max(target_lengths)), self.targets.pad)
        for number, target in enumerate(targets):
            padded[number, : len(target)] = target
        return Seq2SeqBatch(
            self._tensor(waveforms, self.dtype),
            lengths.tolist(),
            self._tensor(padded, torch.int64),
            target_lengths,
            example=example,
        )

    def _fill(self, out: Waveform, row: int, epoch: Epoch, rng: Any) -> None:
        speed = float(epoch.speeds[row])
        recorded = out if speed == 1 else np.empty(self.index.lengths[row], np.float32)
        self.index.decode(row, recorded)
        if speed != 1:
            out[:] = at_speed(recorded, speed, len(out))
        self._transform(out, row, rng, after_normalization=False)
        if self.normalize:
            tensor = torch.from_numpy(out)
            # NumPy copies in this thread. Torch would wake its pool for each copy, whose threads
            # then spin: three times the processor time for the whole reader.
            out[:] = layer_norm(tensor, tensor.shape).numpy()
        self._transform(out, row, rng, after_normalization=True)

    def _transform(
        self, out: Waveform, row: int, rng: np.random.Generator, *, after_normalization: bool
    ) -> None:
        for transform in self.transforms:
            if transform.after_normalization == after_normalization:
                try:
                    out[:] = transform(out, rng)
                except Exception:  # only then: to describe a row takes time
                    with user_code(transform, f"on {self.index.audio.describe(row)}"):
                        raise

    def _tensor(self, batch: NDArray[Any], dtype: torch.dtype) -> Tensor:
        tensor = torch.from_numpy(batch).to(dtype)
        return tensor.pin_memory() if self.pin_memory else tensor
