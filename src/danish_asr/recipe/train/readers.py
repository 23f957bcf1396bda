"""The data readers of a run: one for training, one for all splits of a validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Self, cast, final

from fairseq2.data.tokenizers import Tokenizer
from fairseq2.datasets import DataReader, Seq2SeqBatch
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig
from typing_extensions import override

from danish_asr.base.errors import ConfigError
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.reader import BatchReader, ReaderSetup, open_reader
from danish_asr.recipe.data.targets import FrameCount, Targets, UnknownSymbols, count_unknown
from danish_asr.recipe.train.console import log

_RISKY: Final = 5.0
"""Times the size of a batch in training that validation may not have memory for."""


def model_frames(model: object) -> FrameCount:
    """Frames that a model makes of a number of samples, by its configuration."""
    layers = cast(Wav2Vec2AsrConfig, model).encoder_config.feature_extractor_layer_descs
    return FrameCount([(kernel, stride) for _, kernel, stride in layers])


def check_text(index: Index, tokenizer: Tokenizer, config: AsrConfig) -> None:
    """Say what rows of training lack; refuse, with ConfigError, text that is mostly unknown."""
    section = config.dataset
    if section.train_where:
        log.info("{:,} rows of {} where {}", len(index), section.train_split, section.train_where)
    if slow := index.audio.decoded_shards:
        text = "{:,} Parquet files were not written by this version of convert, and are read slower"
        log.info(text, slow)
    check_symbols(count_unknown(index, Targets(tokenizer)), config)


def check_symbols(unknown: UnknownSymbols, config: AsrConfig) -> None:
    """Warn of symbols that the tokenizer does not have; refuse too large a share of them."""
    if not unknown.symbols:
        return
    limit, name = config.dataset.max_unknown_share, config.tokenizer.name or config.tokenizer.path
    symbols = " ".join(repr(symbol) for symbol, _ in unknown.symbols[:20])
    text = (
        f"{unknown.share:.2%} of the training text is unknown to the tokenizer '{name}': "
        f"{symbols}; dataset.text_profile=coral may leave them out, or another tokenizer has them"
    )
    if unknown.share > limit:
        raise ConfigError([f"dataset.max_unknown_share is {limit:.2%}, but {text}"])
    log.warning("{}", text)


def training_reader(
    setup: ReaderSetup, config: AsrConfig, indices: Mapping[int, Index]
) -> BatchReader:
    """Open the rows of all stages: filtered, mixed, shuffled and augmented; logs what remains."""
    readers = {}
    for first, stage in config.stages().items():
        if config.trainer.stages:
            log.info("The stage that begins after step {:,}:", first)
        readers[first] = open_reader(setup, stage, indices[first], training=True)
        _report(readers[first], None if config.trainer.stages else config.regime.num_steps)
    reader = readers.pop(0)
    for first, later in readers.items():
        reader.add_stage(first, later)
    return reader


def _report(reader: BatchReader, num_steps: int | None) -> None:
    log.info("Training data\n{}", reader.filtered)
    log.info("Effective mix\n{}", reader.mix)
    epoch = reader.epoch_size()
    line = (
        f"Steps per epoch: {epoch.steps} | Padding: {epoch.padding:.1%} | "
        f"Audio per step: {60 * epoch.hours / epoch.steps:.3g} minutes"
    )
    if num_steps:
        line += f" | {num_steps} steps are {num_steps / epoch.steps:.1f} epochs"
    log.info("{}", line)


def splits_reader(
    setup: ReaderSetup, config: AsrConfig, indices: Mapping[str, Index]
) -> SplitsReader:
    """Read the rows of splits, by name, for validation or evaluation."""
    times = (config.dataset.valid_elements or 0) / config.dataset.asr_task_config.max_num_elements
    if times >= _RISKY:
        text = "dataset.valid_max_num_elements is {:.3g} times the size in training; 3x is safe"
        log.warning(text, times)
    readers = {
        name: open_reader(setup, config, index, training=False) for name, index in indices.items()
    }
    return SplitsReader(readers, indices)


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
