"""The data readers of a run, what they report, and what they refuse."""

from collections.abc import Mapping
from typing import Final, cast

from fairseq2.data.tokenizers import Tokenizer
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig

from danish_asr.base.errors import ConfigError
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.reader import BatchReader, ReaderSetup, SplitsReader, open_reader
from danish_asr.recipe.data.targets import (
    FrameCount,
    Targets,
    UnknownSymbols,
    count_unknown,
    count_without_loss,
)
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


def any_row_has_loss(setup: ReaderSetup, config: AsrConfig, indices: Mapping[str, Index]) -> bool:
    """Say which rows of splits have no loss; return whether any row has one.

    ConfigError if none has and the loss is the score of a run.
    """
    targets = Targets(setup.tokenizer)
    counts = [count_without_loss(index, targets, setup.frames) for index in indices.values()]
    empty, too_long = map(sum, zip(*counts, strict=True))
    rows = sum(map(len, indices.values()))
    if not empty + too_long:
        return True
    text = (
        f"{empty + too_long:,} of {rows:,} rows of {', '.join(indices)} have no loss: {empty:,} "
        f"with an empty text under the profile {config.dataset.text_profile}, {too_long:,} with "
        "fewer frames than CTC needs (targets + repeats)"
    )
    if rows > empty + too_long:
        log.info("{}; WER and CER are of all rows", text)
        return True
    if config.regime.score_metric == "loss":
        fix = "set regime.score_metric=wer, or another dataset.valid_split or dataset.text_profile"
        raise ConfigError([f"regime.score_metric is loss, but {text}; {fix}"])
    log.warning("{}; WER and CER are of all rows", text)
    return False
