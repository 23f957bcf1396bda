"""fairseq2's asset store as a configuration sees it: cards, and what can be opened from them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

from fairseq2.assets import (
    AssetCard,
    AssetCardError,
    AssetDirectoryAccessor,
    AssetDownloadError,
    AssetDownloadManager,
    AssetMetadataError,
    AssetStore,
)
from fairseq2.composition import register_dataset_family
from fairseq2.composition.assets import register_checkpoint_models, register_file_assets
from fairseq2.data.tokenizers import Tokenizer, TokenizerFamily, TokenizerModelError
from fairseq2.data.tokenizers.char import CHAR_TOKENIZER_FAMILY
from fairseq2.datasets import DatasetFamily
from fairseq2.models import ModelFamily
from fairseq2.models.wav2vec2 import WAV2VEC2_FAMILY
from fairseq2.models.wav2vec2.asr import WAV2VEC2_ASR_FAMILY
from fairseq2.runtime.dependency import DependencyContainer
from fairseq2.utils.structured import StandardValueConverter, StructureError
from fairseq2.utils.uri import Uri

from danish_asr.base.config_tree import Tree, merge, unknown_key
from danish_asr.base.errors import ConfigError
from danish_asr.base.fairseq2_private import library_container
from danish_asr.corpus.sources.location import source_of_dataset
from danish_asr.recipe.config.schema import (
    AsrConfig,
    DatasetSection,
    ModelSection,
    TokenizerSection,
    names_of_splits,
)
from danish_asr.recipe.data.dataset import (
    DATASET_FAMILY,
    DanishAsrDataset,
    DanishAsrDatasetConfig,
    open_dataset,
)
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.models.cards import card_directories, without_nested
from danish_asr.recipe.models.hugging_face import HUGGING_FACE_FAMILY
from danish_asr.recipe.run.run_directory import CHECKPOINTS, MODEL_CARD

DATASET_FAMILIES: Final = (DATASET_FAMILY,)
"""The dataset families that this recipe opens; fairseq2 has cards of others."""

DOWNLOAD_HINT: Final = (
    "`danish-asr fetch` with the same configuration gets it where there is internet access (on a "
    "cluster: a login node), into $FAIRSEQ2_CACHE_DIR, which must be the same for both; or give a "
    "model of your own as model.path"
)

ConfigT = TypeVar("ConfigT")

_converter = StandardValueConverter()

_PLACEHOLDER: Final = "example_dataset"
"""The dataset of upstream's configurations, for users to replace; its card has no real path."""

_CTC_FAMILIES: Final = (WAV2VEC2_ASR_FAMILY, HUGGING_FACE_FAMILY)

_KINDS: Final[Mapping[str, tuple[str, str, Collection[str]]]] = {
    "dataset.name": ("a dataset of speech", "dataset", DATASET_FAMILIES),
    "model.name": ("a CTC model (not LLM models)", "model", _CTC_FAMILIES),
    "pretrained_encoder.name": ("an encoder without a head", "model", [WAV2VEC2_FAMILY]),
    "tokenizer.name": ("a tokenizer", "tokenizer", [CHAR_TOKENIZER_FAMILY]),
}
"""What each key must name: in words, the kind of asset, and its families (to suggest)."""


def register_datasets(container: DependencyContainer) -> None:
    """Register the dataset family that this recipe opens."""
    register_dataset_family(
        container, DATASET_FAMILY, DanishAsrDataset, DanishAsrDatasetConfig, opener=open_dataset
    )


class ModelDescription(NamedTuple):
    """What a model is, without its weights."""

    family: ModelFamily
    card_config: Any  # the configuration in the card, or of ``model.arch``
    config: Any  # the same with ``model.config_overrides``
    has_new_head: bool  # it is not trained, and gets the size of the tokenizer


class Assets:
    """The cards that a configuration can name, and the families that open them.

    Raises:
        ConfigError: A card is broken, or two have the same name.
    """

    def __init__(self, config: AsrConfig) -> None:
        self._container = library_container()
        register_datasets(self._container)
        section, directories = config.common.assets, card_directories()
        self.extra_paths = without_nested(map(Path, section.extra_paths), directories)
        for path in self.extra_paths:
            register_file_assets(self._container, path, not_exist_ok=True)
        if section.prev_checkpoint_dir is not None:
            if not (section.prev_checkpoint_dir / MODEL_CARD).is_file():
                rule = f"must be OUTDIR/{CHECKPOINTS} of a run, with {MODEL_CARD}"
                found = f"but is '{section.prev_checkpoint_dir}'"
                raise ConfigError([f"common.assets.prev_checkpoint_dir {rule}, {found}"])
            register_checkpoint_models(self._container, section.prev_checkpoint_dir)
        self._searched = [*directories, *self.extra_paths]
        try:
            self._store = self._container.resolve(AssetStore)
        except AssetMetadataError as error:
            rule = (
                "two datasets or runs have the same name, or a card is broken: convert one again "
                "with another --name, or move it away"
            )
            places = ", ".join(map(str, self._searched))
            raise ConfigError([f"cards in {places}: {error} {rule}"]) from error

    def find(self, key: str, name: str, faults: list[str]) -> AssetCard | None:
        """Return the card that ``key`` names; if there is none, add a fault that lists them."""
        description, kind, families = _KINDS[key]
        if card := self._find(name, kind, families if kind != "tokenizer" else ()):
            if kind == "model" and (fault := _card_fault(key, card)):
                faults.append(fault)
            return card
        directories = (f"{p}{'' if p.is_dir() else ' (not a directory)'}" for p in self._searched)
        faults.append(
            f"{key} must be {description}, but none is known here as '{name}'; available: "
            f"{self.available(key, name)}. Besides the installed packages, cards were searched "
            f"for in {', '.join(directories)}; $DANISH_ASR_ASSETS can name more directories."
            f"{_conversion(name) if kind == 'dataset' else ''}"
        )
        return None

    def available(self, key: str, unusable: str) -> str:
        """List what ``key`` can name instead of an ``unusable`` name."""
        _, kind, families = _KINDS[key]
        names = {name.removesuffix("@") for name in self._store.asset_names if name.endswith("@")}
        names -= {unusable, _PLACEHOLDER}
        return ", ".join(n for n in sorted(names) if self._find(n, kind, families)) or "none"

    def _find(self, name: str, kind: str, families: Collection[str]) -> AssetCard | None:
        try:
            card = self._store.maybe_retrieve_card(name)
        except AssetCardError:
            # fairseq2 0.6 itself ships a card whose base card is missing.
            return None
        family = card.maybe_get_field(f"{kind}_family") if card else None
        return card if family and (not families or family.value in families) else None

    def open_dataset(self, section: DatasetSection, card: AssetCard | None) -> DanishAsrDataset:
        """Open the dataset of a card, or of a family; raises what makes that impossible."""
        name = card.field("dataset_family").as_(str) if card else section.family
        family = self._container.resolve(DatasetFamily, key=name)
        config = family.get_dataset_config(card) if card else family.config_kls()
        config = overridden(config, section.config_overrides, "dataset")
        return cast(DanishAsrDataset, family.open_custom_dataset(config))

    def model_family(self, card: AssetCard | None = None) -> ModelFamily:
        """Return fairseq2's handler of the card's family; without a card that of CTC models."""
        name = card.field("model_family").as_(str) if card else WAV2VEC2_ASR_FAMILY
        return self._container.resolve(ModelFamily, key=name)

    def describe_model(
        self, section: ModelSection, card: AssetCard | None, faults: list[str]
    ) -> ModelDescription | None:
        """Describe the model in the card, or of ``model.arch``; add a fault if there is none."""
        family, config = self.model_family(card), None
        if card is not None:
            config = family.get_model_config(card)
        elif section.path is not None and not section.arch:
            faults.append(f"model.path {section.path} must have model.arch: it has no card")
        elif section.arch is not None:
            config = family.maybe_get_arch_config(section.arch)
            if config is None:
                names = ", ".join(sorted(family.get_archs()))
                faults.append(f"model.arch must be one of {names}, but is '{section.arch}'")
        elif not faults:
            faults.append("model.name, model.arch or model.path must say which model to train")
        if config is None:
            return None
        try:
            changed: Any = overridden(config, section.config_overrides, "model")
        except ConfigError as error:
            faults.extend(error.faults)
            return None
        imported = family.name == HUGGING_FACE_FAMILY
        new = card is None or (imported and not changed.head_rows)
        return ModelDescription(family, config, changed, new)

    def open_tokenizer(self, section: TokenizerSection, faults: list[str]) -> Tokenizer | None:
        """Open a tokenizer; add a fault if that is impossible."""
        try:
            if section.path is not None:
                return self._tokenizer_of_file(section, section.path)
            if section.name is not None:
                card = self.find("tokenizer.name", section.name, faults)
                return self._tokenizer_of_card(card) if card else None
        except ConfigError as error:
            faults.extend(error.faults)
        if not faults:  # otherwise the card that names it may be the one that was not found
            faults.append("tokenizer.name must be given: the cards do not name a tokenizer")
        return None

    @property
    def cache(self) -> Path:
        """Where fairseq2 keeps what it has downloaded."""
        return self._container.resolve(AssetDirectoryAccessor).get_cache_dir()

    def download(self, kind: str, uri: Uri, name: str) -> Path:
        """Return the file of a ``model`` or ``tokenizer``, downloaded by fairseq2 if need be."""
        downloads = self._container.resolve(AssetDownloadManager)
        function = getattr(downloads, f"download_{kind}")
        return cast(Path, function(uri, name, progress=False))

    def tokenizer_file(self, section: TokenizerSection) -> Path:
        """Return the file of a tokenizer that can be opened."""
        if section.path is not None:
            return section.path
        card = self.find("tokenizer.name", str(section.name), [])
        assert card is not None
        return self.download("tokenizer", card.field("tokenizer").as_uri(), card.name)

    def _tokenizer_of_card(self, card: AssetCard) -> Tokenizer:
        name = card.field("tokenizer_family").as_(str)
        family = self._container.resolve(TokenizerFamily, key=name)
        config = family.get_tokenizer_config(card)
        try:
            return family.load_tokenizer(card, config, progress=False)
        except AssetDownloadError as error:
            reason = error.__cause__ or error
            fault = f"tokenizer.name: '{card.name}' cannot be downloaded: {reason}"
            raise ConfigError([f"{fault}; {DOWNLOAD_HINT}"]) from None
        except AssetCardError as error:
            raise ConfigError([f"tokenizer.name: {error.__cause__ or error}"]) from None

    def _tokenizer_of_file(self, section: TokenizerSection, path: Path) -> Tokenizer:
        family = self._container.resolve_optional(TokenizerFamily, key=section.family or "")
        if not path.is_file():
            raise ConfigError([f"tokenizer.path {path} is not a file"])
        if family is None:
            raise ConfigError([f"tokenizer.family {section.family} must be char_tokenizer"])
        config = overridden(family.config_kls(), section.config_overrides, "tokenizer")
        try:
            return family.load_custom_tokenizer(path, config)
        except TokenizerModelError as error:
            raise ConfigError([f"tokenizer.path: {error}"]) from None


def configured_dataset(config: AsrConfig) -> DanishAsrDataset:
    """Open the dataset of a configuration that was checked."""
    assets, section = Assets(config), config.dataset
    card = assets.find("dataset.name", section.name, []) if section.name else None
    return assets.open_dataset(section, card)


def training_rows(dataset: DanishAsrDataset, config: AsrConfig) -> Index:
    """Index the rows that a run, or a stage of it, trains on, before the filters, with weights."""
    section = config.dataset
    weights = [(weight.where, weight.factor) for weight in section.weights]
    index = dataset.read_index(str(section.train_split), section.train_where, weights)
    if section.train_share is not None:
        index = index.share(section.train_share, config.common.seed)
    size = section.train_subset
    return index if size is None else index.subset(size)


def validation_indices(
    dataset: DanishAsrDataset, section: DatasetSection, splits: str, subset: int | None = None
) -> dict[str, Index]:
    """Index the rows to validate on or to evaluate, or about ``subset`` of each, by split."""
    indices = {}
    for name in names_of_splits(splits):
        index = dataset.read_index(name, section.valid_where)
        indices[name] = index if subset is None else index.subset(subset)
    return indices


def open_tokenizer(name_or_file: str, card_directories: Sequence[Path]) -> Tokenizer:
    """Open a tokenizer by its file or by the name of its card; raises `ConfigError`."""
    config = AsrConfig()
    config.common.assets.extra_paths = [*card_directories]
    section = TokenizerSection(name=name_or_file)
    if Path(name_or_file).is_file():
        section = TokenizerSection(path=Path(name_or_file), family=CHAR_TOKENIZER_FAMILY)
    faults: list[str] = []
    tokenizer = Assets(config).open_tokenizer(section, faults)
    if tokenizer is None:
        raise ConfigError(faults, where="--tokenizer")
    return tokenizer


def overridden(config: ConfigT, overrides: Mapping[str, Any] | None, section: str) -> ConfigT:
    """Return a configuration changed by a section's overrides; raises their ConfigError."""
    if overrides is None:  # also for families without a configuration
        return config
    key, tree = f"{section}.config_overrides", cast(Tree, _converter.unstructure(config))
    if faults := list(_unknown_overrides(overrides, tree, key)):
        raise ConfigError(faults)
    try:
        return cast(ConfigT, _converter.structure(merge(tree, overrides), type(config)))
    except StructureError as error:
        raise ConfigError([f"{key} does not fit the card's: {error}"]) from None


def _unknown_overrides(overrides: Mapping[str, Any], tree: Tree, path: str) -> Iterator[str]:
    for name, value in overrides.items():
        key = f"{path}.{name}"
        if name not in tree:
            yield unknown_key(key, name, get_close_matches(name, tree, n=1))
        elif isinstance(tree[name], dict) and isinstance(value, Mapping):
            yield from _unknown_overrides(value, tree[name], key)


def _conversion(name: str) -> str:
    """Offer the command that makes a dataset of this name; of CoRal, the whole command."""
    source = source_of_dataset(name)
    command = f"danish-asr convert {source or 'SOURCE'} --name {name} --out data/parquet"
    prepare = "; `danish-asr train` does so with --prepare" if source else ""
    return f" `{command}` makes it, or goes on with it{prepare}."


def _card_fault(key: str, card: AssetCard) -> str | None:
    """Return the fault of a model's card that lets fairseq2 unpickle any code."""
    field = card.maybe_get_field("restrict")
    if field is None or field.value is True:
        return None
    return (
        f"{key}: the card of '{card.name}', in {card.metadata['__source__']}, has restrict: "
        f"{field.value}, which would run any code in its checkpoint. Remove the line; a checkpoint "
        "of tensors loads without it"
    )
