"""What a plan reads: the model's description, and the dataset's lengths if it is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast

from fairseq2.assets import AssetCard
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.device import CPU
from fairseq2.gang import FakeGang, create_fake_gangs
from fairseq2.models import ModelFamily
from fairseq2.models.wav2vec2.asr import WAV2VEC2_ASR_FAMILY, Wav2Vec2AsrConfig

from danish_asr.base.errors import ConfigError, DanishAsrError
from danish_asr.planning.memory import Model
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.sections import FULL
from danish_asr.recipe.data.dataset import AsrDataset
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.reader import EpochSize
from danish_asr.recipe.models.assets import Assets, described_model, overridden, training_rows
from danish_asr.recipe.models.cards import tokenizer_of, with_named_model
from danish_asr.recipe.models.hugging_face import HUGGING_FACE_FAMILY
from danish_asr.recipe.train.readers import ReaderSetup, model_frames, open_reader

DANISH_SYMBOLS: Final = 100
"""More symbols than ``model.head: danish`` keeps."""

_MANY_ROWS: Final = 100_000
"""Above this many the texts are not normalised, which takes 7 microseconds each."""


class Inputs:
    """The cards that a configuration names, opened once for all changes of other keys.

    Attributes:
        notes: What cannot be known here.

    Raises:
        ConfigError: There is no such model.
    """

    def __init__(self, config: AsrConfig) -> None:
        config, faults = with_named_model(config), list[str]()
        self._assets, self.notes = Assets(config), list[str]()
        name, section = config.model.name, config.dataset
        self._card = self._assets.find("model.name", name, faults) if name else None
        if faults:
            raise ConfigError(faults)
        self._own: AssetCard | None = None
        self._dataset: AsrDataset | None = None
        try:
            if section.name:
                self._own = self._assets.find("dataset.name", section.name, faults)
                faults = [f"dataset.name: no dataset '{section.name}' is known here"] * bool(faults)
            if not faults:
                self._dataset = self._assets.open_dataset(section, self._own)
                self._index: Index = training_rows(self._dataset, section)
        except (DanishAsrError, OSError) as error:
            faults = list(getattr(error, "faults", [str(error)]))
        if faults:
            self._dataset = None
            self.notes += [f"{faults[0]}. Steps and padding of an epoch are unknown"]

    def model(self, config: AsrConfig) -> Model:
        """Return the model of a configuration, with the head that it will have."""
        section, faults = config.model, list[str]()
        kind = self._card.field("model_family").as_(str) if self._card else WAV2VEC2_ASR_FAMILY
        family = cast(ModelFamily, self._assets.model_family(kind))
        found = described_model(section, self._card, family, faults)
        if found is None:
            raise ConfigError(faults)
        model: Wav2Vec2AsrConfig = overridden(found, section.config_overrides, "model")
        new = self._card is None or (kind == HUGGING_FACE_FAMILY and not found.head_rows)
        given = cast(Mapping[str, object], section.config_overrides or {})
        if new and "target_vocab_size" not in given:
            model = replace(model, target_vocab_size=self._symbols(config))
        if section.head != FULL:
            size = min(model.target_vocab_size, DANISH_SYMBOLS)
            model = replace(model, target_vocab_size=size)
        return Model(family, model)

    def _symbols(self, config: AsrConfig) -> int:
        """The size of a new head: that of its tokenizer."""
        tokenizer = self._tokenizer(config)
        if tokenizer is not None:
            return tokenizer.vocab_info.size
        note = f"the tokenizer is not here: the new head counts with {DANISH_SYMBOLS} symbols"
        self.notes = list(dict.fromkeys([*self.notes, note]))
        return DANISH_SYMBOLS

    def _tokenizer(self, config: AsrConfig) -> Tokenizer | None:
        """The dataset's own, which is here if the dataset is, or the one that is named."""
        section, own = config.tokenizer, tokenizer_of(self._own)
        if section.path is None and own is not None:
            section = type(section)(name=own)
        return self._assets.open_tokenizer(section, [])

    def epoch(self, config: AsrConfig, model: Model, gpus: int) -> EpochSize | None:
        """Return the first epoch of a run on so many GPUs; None, with a note, if it is unknown."""
        tokenizer = self._tokenizer(config) if self._dataset else None
        if self._dataset is None or tokenizer is None:
            return None
        if len(self._index) > _MANY_ROWS:
            config = replace(config, dataset=replace(config.dataset, text_profile="raw"))
        gangs = replace(create_fake_gangs(CPU), dp=FakeGang(CPU, size=gpus))
        setup = ReaderSetup(self._dataset, tokenizer, gangs, model_frames(model.config))
        try:
            return open_reader(setup, config, self._index, training=True).epoch_size()
        except DanishAsrError as error:
            faults = getattr(error, "faults", [str(error)])
            self.notes = list(dict.fromkeys([*self.notes, f"a run would be refused: {faults[0]}"]))
            return None
