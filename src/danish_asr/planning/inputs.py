"""The cards and the dataset that a plan reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final, cast

from fairseq2.assets import AssetCard
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.device import CPU
from fairseq2.gang import FakeGang, create_fake_gangs
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig

from danish_asr.base.errors import ConfigError, DanishAsrError
from danish_asr.planning.memory import Model
from danish_asr.recipe.config.schema import FULL, AsrConfig
from danish_asr.recipe.data.index import Index, training_rows
from danish_asr.recipe.data.reader import EpochSize
from danish_asr.recipe.models.cards import Assets, open_tokenizer, tokenizer_of, with_named_model
from danish_asr.recipe.train.readers import ReaderSetup, model_frames, open_reader

_DANISH_SYMBOLS: Final = 100
"""More symbols than ``model.head: danish`` keeps."""


class Inputs:
    """The cards that a configuration names, opened once for all changes of other keys.

    ``notes`` say what cannot be known here. Raises ConfigError if there is no such model.
    """

    def __init__(self, config: AsrConfig) -> None:
        config, section = with_named_model(config), config.dataset
        self._assets, self.notes = Assets(config.common.assets), list[str]()
        name = config.model.name
        self._model_card = self._assets.find("model.name", name) if name else None
        card: AssetCard | None = None
        self._index: Index | None = None
        self._tokenizer_section = config.tokenizer
        try:
            if section.name:
                card = self._assets.find("dataset.name", section.name)
            dataset = self._assets.open_dataset(section, card)
            indices = [training_rows(dataset, stage) for stage in config.stages().values()]
            self._index = max(indices, key=len)
        except (DanishAsrError, OSError) as error:
            reason = _first_fault(error).split(";")[0]  # without the names of all other cards
            self.notes.append(f"{reason}. Steps and padding of an epoch are unknown")
        if config.tokenizer.path is None and (own := tokenizer_of(card)):
            self._tokenizer_section = replace(config.tokenizer, name=own)

    @cached_property
    def _tokenizer(self) -> Tokenizer | None:
        try:
            return open_tokenizer(self._assets.tokenizer_file(self._tokenizer_section))
        except ConfigError:  # it is not here
            return None

    def model(self, config: AsrConfig) -> Model:
        """Return the model of a configuration, with the head that it will have."""
        section = config.model
        description = self._assets.describe_model(section, self._model_card)
        model: Wav2Vec2AsrConfig = description.config
        overrides = cast(Mapping[str, object], section.config_overrides or {})
        if description.has_new_head and "target_vocab_size" not in overrides:
            size = self._tokenizer.vocab_info.size if self._tokenizer else _DANISH_SYMBOLS
            model = replace(model, target_vocab_size=size)
        if section.head != FULL:
            size = min(model.target_vocab_size, _DANISH_SYMBOLS)
            model = replace(model, target_vocab_size=size)
        return Model(description.family, model)

    def epoch(self, config: AsrConfig, model: Model, gpus: int) -> EpochSize | None:
        """Return the first epoch of a run on so many GPUs; None if it is unknown."""
        if self._index is None or self._tokenizer is None:
            return None
        gangs = replace(create_fake_gangs(CPU), dp=FakeGang(CPU, size=gpus))
        setup = ReaderSetup(self._tokenizer, gangs, model_frames(model.config))
        try:
            return open_reader(setup, config, self._index, training=True).epoch_size()
        except DanishAsrError as error:
            self.notes.append(f"a run would be refused: {_first_fault(error)}")
            return None


def _first_fault(error: Exception) -> str:
    return error.faults[0] if isinstance(error, ConfigError) else str(error)
