"""fairseq2's asset store, as a configuration sees it, with answers for names that lead nowhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, cast

from fairseq2.assets import (
    AssetCard,
    AssetCardError,
    AssetDownloadError,
    AssetMetadataError,
    AssetStore,
)
from fairseq2.composition import register_dataset_family
from fairseq2.composition.assets import register_checkpoint_models, register_file_assets
from fairseq2.data.tokenizers import (
    TokenizerFamily,
    TokenizerModelError,
    resolve_tokenizer_reference,
)
from fairseq2.data.tokenizers.char import CHAR_TOKENIZER_FAMILY
from fairseq2.datasets import DatasetFamily
from fairseq2.device import CPU
from fairseq2.gang import create_fake_gangs
from fairseq2.models import ModelFamily
from fairseq2.models.wav2vec2 import WAV2VEC2_FAMILY
from fairseq2.models.wav2vec2.asr import WAV2VEC2_ASR_FAMILY, Wav2Vec2AsrConfig
from fairseq2.recipe.config import DatasetSection, ModelSection, TokenizerSection
from fairseq2.runtime.dependency import DependencyContainer

from danish_asr.data.dataset import (
    DATASET_FAMILY,
    MANIFEST_FAMILY,
    AsrDataset,
    DanishAsrDatasetConfig,
    open_dataset,
    open_manifest,
)
from danish_asr.errors import ConfigError, RunError
from danish_asr.recipe.config import AsrConfig
from danish_asr.recipe.extension import card_directories, searched_once
from danish_asr.recipe.fairseq2_private import library_container
from danish_asr.recipe.loading import ConfigT, inspect, merge, unstructure

OPENS = (DATASET_FAMILY, MANIFEST_FAMILY)
"""The dataset families that this recipe opens; fairseq2 knows cards of others."""

USEFUL: Final[Mapping[str, tuple[str, ...]]] = {
    "dataset.name": OPENS,
    "model.name": (WAV2VEC2_ASR_FAMILY,),
    "pretrained_encoder.name": (WAV2VEC2_FAMILY,),
    "tokenizer.name": (CHAR_TOKENIZER_FAMILY,),
}
"""The families that are of use under a key; the others that fairseq2 ships are not suggested."""

HEAD_SIZE = "target_vocab_size"
"""The key of ``model.config_overrides`` that sizes a new head."""


def register_datasets(container: DependencyContainer) -> None:
    """Register the dataset families that this recipe opens."""
    for name, opener in ((DATASET_FAMILY, open_dataset), (MANIFEST_FAMILY, open_manifest)):
        register_dataset_family(container, name, AsrDataset, DanishAsrDatasetConfig, opener=opener)


class Assets:
    """fairseq2's asset store as the given configuration sees it.

    Attributes:
        extra_paths: The configuration's, without those that are searched anyway.

    Raises:
        ConfigError: A card is broken, or two have one name.
    """

    def __init__(self, config: AsrConfig) -> None:
        container = library_container()
        register_datasets(container)
        section, usual = config.common.assets, card_directories()
        self.extra_paths = searched_once(map(Path, section.extra_paths), usual)
        for path in self.extra_paths:
            register_file_assets(container, path, not_exist_ok=True)
        if section.prev_checkpoint_dir is not None:
            register_checkpoint_models(container, section.prev_checkpoint_dir)
        self._container = container
        try:
            self._store = container.resolve(AssetStore)
        except AssetMetadataError as error:
            fault = (
                f"{error} Mend or rename one of the cards, or leave its place out of "
                "common.assets.extra_paths and $DANISH_ASR_ASSETS."
            )
            raise ConfigError([fault]) from error
        self._looked_in = [*usual, *self.extra_paths]
        self._told_where = False

    def find(self, key: str, name: str, kind: str, faults: list[str]) -> AssetCard | None:
        """Return the card of ``name``; if there is none, note it with the names that exist.

        Args:
            key: The dotted key of the configuration that names the asset.
            name: The name.
            kind: ``model``, ``dataset`` or ``tokenizer``: the card has a ``<kind>_family``.
            faults: Takes the fault, if any.
        """
        if self._is_a(kind, name):
            return self._store.retrieve_card(name)
        known = ", ".join(self._names_of(kind, USEFUL.get(key))) or "none"
        fault = f"{key} '{name}' is no known {kind}. Known: {known}."
        if not self._told_where:
            fault += (
                " Beside the installed packages these were searched for cards: "
                f"{', '.join(map(_place, self._looked_in))}. More can be named in "
                "$DANISH_ASR_ASSETS."
            )
        self._told_where = True
        faults.append(fault)
        return None

    def _names_of(self, kind: str, families: Collection[str] | None) -> list[str]:
        names = {name.removesuffix("@") for name in self._store.asset_names if name.endswith("@")}
        return sorted(name for name in names if self._is_a(kind, name, families))

    def _is_a(self, kind: str, name: str, families: Collection[str] | None = None) -> bool:
        try:
            card = self._store.maybe_retrieve_card(name)
        except AssetCardError:
            # fairseq2 0.6 itself ships a card whose base card is missing.
            return False
        family = card.maybe_get_field(f"{kind}_family") if card else None
        if family is None or (kind == "dataset" and family.value not in OPENS):
            return False
        return families is None or family.value in families

    def open_dataset(self, section: DatasetSection, card: AssetCard | None) -> AsrDataset:
        """Open the dataset of a card, or of a family with its overrides.

        Raises:
            DatasetError: It cannot be opened.
            ConfigError: The overrides are none.
        """
        name = card.field("dataset_family").as_(str) if card else str(section.family)
        family = self._container.resolve(DatasetFamily, key=name)
        config = family.get_dataset_config(card) if card else family.config_kls()
        config = overridden(config, section.config_overrides, "dataset")
        return cast(AsrDataset, family.open_custom_dataset(config))

    def build(self, section: ModelSection, config: object) -> None:
        """Build a model without memory, to see whether it can be built.

        Raises:
            ConfigError: It cannot.
        """
        family = self._container.resolve(ModelFamily, key=section.family or "")
        try:
            family.create_new_model(config, create_fake_gangs(CPU), section.dtype, meta=True)
        except Exception as error:  # noqa: BLE001 - whatever torch has to say about sizes
            raise ConfigError([f"model: no model can be built of this: {error}"]) from None

    def model_family(self, name: str) -> ModelFamily | None:
        """Return fairseq2's handler of a model family, or None."""
        return self._container.resolve_optional(ModelFamily, key=name)

    def head_size(self, card: AssetCard) -> int | None:
        """Return the number of symbols of a CTC model's head; None for other models."""
        family = self.model_family(card.field("model_family").as_(str))
        return getattr(family.get_model_config(card), HEAD_SIZE, None) if family else None

    def encoder_layers(self, section: ModelSection, card: AssetCard | None) -> int | None:
        """Return the number of layers of the model's encoder; None if that cannot be known."""
        if card is not None:
            family = self.model_family(card.field("model_family").as_(str))
            config = family.get_model_config(card) if family else None
        else:
            family = self.model_family(section.family or "")
            config = family.maybe_get_arch_config(section.arch or "") if family else None
            try:
                config = config and overridden(config, section.config_overrides, "model")
            except ConfigError:  # which is told where the model is built
                return None
        if not isinstance(config, Wav2Vec2AsrConfig):
            return None
        return config.encoder_config.num_encoder_layers

    def tokenizer_card(self, name: str) -> AssetCard:
        """Return the card of a tokenizer, or the one that a model's card refers to."""
        return resolve_tokenizer_reference(self._store, self._store.retrieve_card(name))

    def vocabulary_size(self, name: str) -> int:
        """The number of symbols of a known tokenizer.

        Raises:
            RunError: It must be downloaded, and cannot be.
        """
        card = self.tokenizer_card(name)
        family = self._container.resolve(TokenizerFamily, key=_tokenizer_family(card))
        try:
            tokenizer = family.load_tokenizer(
                card, family.get_tokenizer_config(card), progress=False
            )
        except AssetDownloadError as error:
            raise RunError(
                f"the tokenizer '{card.name}' cannot be downloaded: {error.__cause__ or error}. On "
                "a node without internet, first run the same command with --config "
                "regime.num_steps=1 on one that has it; $FAIRSEQ2_CACHE_DIR keeps what it fetches."
            ) from None
        return tokenizer.vocab_info.size

    def vocabulary_size_of_file(self, section: TokenizerSection) -> int:
        """The number of symbols of the tokenizer in ``tokenizer.path``.

        Raises:
            RunError: There is none, or none of that family.
        """
        family = self._container.resolve_optional(TokenizerFamily, key=section.family or "")
        if section.path is None or not section.path.is_file():
            raise RunError(f"tokenizer.path {section.path} is no file")
        if family is None:
            raise RunError(
                f"tokenizer.family '{section.family}' is not known; is it char_tokenizer?"
            )
        config = overridden(family.config_kls(), section.config_overrides, "tokenizer")
        try:
            return family.load_custom_tokenizer(section.path, config).vocab_info.size
        except TokenizerModelError as error:
            raise RunError(f"tokenizer.path: {error}") from None


def _tokenizer_family(card: AssetCard) -> str:
    return card.field("tokenizer_family").as_(str)


def overridden(config: ConfigT, overrides: object, section: str) -> ConfigT:
    """Return a configuration with what ``config_overrides`` of a section say.

    Raises:
        ConfigError: They have faults.
    """
    if not isinstance(overrides, Mapping):
        return config
    tree = merge(unstructure(config), overrides)
    result, faults = inspect(type(config), tree, f"{section}.config_overrides")
    if faults:
        raise ConfigError(faults)
    return result


def _place(path: Path) -> str:
    return str(path) if path.is_dir() else f"{path} (which is no directory)"
