"""What the names in a configuration stand for, looked up before any model is built.

Datasets, tokenizers and models are fairseq2 assets: a name leads to a card. The look-up here
answers with the names that exist when one does not, fills in what the cards already know (the
tokenizer, the size of the head) and holds the parts against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fairseq2.assets import AssetCard, AssetCardError, AssetDownloadError, AssetStore
from fairseq2.composition import _register_library
from fairseq2.composition.assets import register_checkpoint_models, register_file_assets
from fairseq2.data.tokenizers import Tokenizer, TokenizerFamily, resolve_tokenizer_reference
from fairseq2.models import ModelFamily
from fairseq2.recipe.config import ModelSection
from fairseq2.runtime.dependency import DependencyContainer

from danish_asr.dataset import DATASET_FAMILY, MANIFEST_FAMILY
from danish_asr.errors import ConfigError, RunError
from danish_asr.extension import card_directories
from danish_asr.schema import CARDS_DIR

from .config import AsrConfig
from .run_directory import checkpoint_steps

OPENS = (DATASET_FAMILY, MANIFEST_FAMILY)
"""The dataset families that this recipe opens; fairseq2 knows cards of others."""

HEAD_SIZE = "target_vocab_size"
"""The key of ``model.config_overrides`` that sizes a new head."""


class Assets:
    """fairseq2's asset store as the given configuration sees it."""

    def __init__(self, config: AsrConfig) -> None:
        container = DependencyContainer()
        _register_library(container)
        section = config.common.assets
        for path in section.extra_paths:
            register_file_assets(container, Path(path), not_exist_ok=True)
        if section.prev_checkpoint_dir is not None:
            register_checkpoint_models(container, section.prev_checkpoint_dir)
        self._container = container
        self._store = container.resolve(AssetStore)
        self._looked_in = [*card_directories(), *map(Path, section.extra_paths)]

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
        known = ", ".join(self._names_of(kind)) or "none"
        looked_in = ", ".join(str(path) for path in self._looked_in) or "no directory"
        faults.append(
            f"{key} '{name}' is no known {kind}. Known: {known}. Beside the installed packages "
            f"these were searched for cards: {looked_in}. More can be named in $DANISH_ASR_ASSETS."
        )
        return None

    def _names_of(self, kind: str) -> list[str]:
        names = {name.removesuffix("@") for name in self._store.asset_names if name.endswith("@")}
        return sorted(name for name in names if self._is_a(kind, name))

    def _is_a(self, kind: str, name: str) -> bool:
        try:
            card = self._store.maybe_retrieve_card(name)
        except AssetCardError:
            # fairseq2 0.6 itself ships a card whose base card is missing.
            return False
        family = card.maybe_get_field(f"{kind}_family") if card else None
        return family is not None and (kind != "dataset" or family.value in OPENS)

    def model_family(self, name: str) -> ModelFamily | None:
        """Return fairseq2's handler of a model family, or None."""
        return self._container.resolve_optional(ModelFamily, key=name)

    def head_size(self, card: AssetCard) -> int | None:
        """Return the number of symbols of a CTC model's head; None for other models."""
        family = self.model_family(card.field("model_family").as_(str))
        return getattr(family.get_model_config(card), HEAD_SIZE, None) if family else None

    def tokenizer_card(self, name: str) -> AssetCard:
        """Return the card of a tokenizer, or the one that a model's card refers to."""
        return resolve_tokenizer_reference(self._store, self._store.retrieve_card(name))

    def tokenizer(self, name: str) -> Tokenizer:
        """Load the tokenizer that a card stands for, or that it refers to.

        Raises:
            RunError: It must be downloaded, and cannot be.
        """
        card = self.tokenizer_card(name)
        family_name = card.field("tokenizer_family").as_(str)
        family = self._container.resolve(TokenizerFamily, key=family_name)
        try:
            return family.load_tokenizer(card, family.get_tokenizer_config(card), progress=False)
        except AssetDownloadError as error:
            raise RunError(
                f"the tokenizer '{card.name}' cannot be downloaded: {error.__cause__ or error}. On "
                "a node without internet, first run the same command with --config "
                "regime.num_steps=1 on one that has it; $FAIRSEQ2_CACHE_DIR keeps what it fetches."
            ) from None


def resolve(config: AsrConfig, *, where: str) -> AsrConfig:
    """Return the configuration with what its cards know filled in; the given one is not changed.

    Raises:
        ConfigError: A name is unknown, or model, tokenizer and head do not fit together.
        RunError: ``model.path`` is the directory of a run that is not finished.
    """
    config = _name_own_model(config)
    assets = Assets(config)
    faults: list[str] = []
    dataset = None
    if config.dataset.name:
        dataset = assets.find("dataset.name", config.dataset.name, "dataset", faults)
    model = None
    if config.model.name:
        model = assets.find("model.name", config.model.name, "model", faults)
        if model is not None and assets.head_size(model) is None:
            faults.append(
                f"model.name '{config.model.name}' has no CTC head; this recipe trains and scores "
                "models of the family wav2vec2_asr, such as omniASR_CTC_300M"
            )
    if config.pretrained_encoder.name:
        assets.find("pretrained_encoder.name", config.pretrained_encoder.name, "model", faults)
    if faults:
        raise ConfigError(faults, where=where)

    tokenizer_name = config.tokenizer.name or _named_by(model) or _named_by(dataset)
    if config.tokenizer.path is None:
        config = replace(config, tokenizer=replace(config.tokenizer, name=tokenizer_name))
    size = _vocabulary_size(assets, config, faults)
    if size is not None:
        head = _with_head(assets, config.model, model, size, faults)
        config = replace(config, model=head)
    if faults:
        raise ConfigError(faults, where=where)
    return config


def _name_own_model(config: AsrConfig) -> AsrConfig:
    """Let ``model.path`` be the directory of a finished run: its model goes by the run's card."""
    run = config.model.path
    if run is None or not checkpoint_steps(run):
        return config
    cards = sorted((run / CARDS_DIR).glob("*.yaml"))
    if not cards:
        raise RunError(
            f"model.path {run} holds a run that is not finished; its command continues it, or "
            f"name a checkpoint: model.path={run}/checkpoints/step_<n>/model with model.arch"
        )
    model = replace(config.model, path=None, name=cards[0].stem)
    paths = [*config.common.assets.extra_paths, cards[0].parent]
    common = replace(config.common, assets=replace(config.common.assets, extra_paths=paths))
    return replace(config, model=model, common=common)


def tokenizer_card(config: AsrConfig) -> AssetCard | None:
    """The card of the tokenizer of a resolved configuration; None if it is given as a path."""
    return Assets(config).tokenizer_card(config.tokenizer.name) if config.tokenizer.name else None


def _named_by(card: AssetCard | None) -> str | None:
    """The tokenizer that a model's or dataset's card names, or that it holds itself."""
    if card is None:
        return None
    if card.has_field("tokenizer_ref"):
        return card.field("tokenizer_ref").as_(str)
    return card.name if card.has_field("tokenizer_family") else None


def _vocabulary_size(assets: Assets, config: AsrConfig, faults: list[str]) -> int | None:
    if config.tokenizer.path is not None:
        return None
    if config.tokenizer.name is None:
        faults.append(
            "tokenizer.name is missing, and neither the model's nor the dataset's card "
            "names a tokenizer"
        )
        return None
    card = assets.find("tokenizer.name", config.tokenizer.name, "tokenizer", faults)
    return None if card is None else assets.tokenizer(card.name).vocab_info.size


def _with_head(
    assets: Assets,
    section: ModelSection,
    card: AssetCard | None,
    size: int,
    faults: list[str],
) -> ModelSection:
    """Size a new head for the tokenizer, or hold a trained head against it."""
    if card is not None:
        if (head := assets.head_size(card)) != size:
            faults.append(
                f"tokenizer has {size} symbols, but the head of '{section.name}' has {head}; "
                "leave tokenizer.name out to get the model's own"
            )
        return section
    family = assets.model_family(section.family or "")
    if family is None:
        faults.append(f"model.family '{section.family}' is no known model family")
        return section
    if section.arch is not None and family.maybe_get_arch_config(section.arch) is None:
        faults.append(
            f"model.arch '{section.arch}' is no architecture of {section.family}; "
            f"known: {', '.join(sorted(family.get_archs()))}"
        )
        return section
    overrides = section.config_overrides
    given = dict(overrides) if isinstance(overrides, Mapping) else {}
    if given.get(HEAD_SIZE, size) != size:
        faults.append(
            f"model.config_overrides.{HEAD_SIZE} must be {size}, the tokenizer's number "
            f"of symbols, but is {given[HEAD_SIZE]}; leave it out"
        )
    return replace(section, config_overrides={**given, HEAD_SIZE: size})
