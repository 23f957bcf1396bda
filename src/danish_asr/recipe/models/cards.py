"""Models, tokenizers and datasets by their cards: what a name or a directory means, and opens.

A configuration's ``common.assets`` comes in. `Assets` finds cards in fairseq2's store and opens
what they describe; `open_model` does so for a model alone, of which nothing but its card is known.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import torch
from fairseq2.assets import (
    AssetCard,
    AssetCardError,
    AssetDirectoryAccessor,
    AssetDownloadError,
    AssetDownloadManager,
    AssetMetadataError,
    AssetStore,
)
from fairseq2.composition.assets import (
    register_checkpoint_models,
    register_file_assets,
    register_in_memory_assets,
)
from fairseq2.data.tokenizers import Tokenizer, TokenizerModelError
from fairseq2.data.tokenizers.char import CHAR_TOKENIZER_FAMILY, load_char_tokenizer
from fairseq2.gang import create_fake_gangs
from fairseq2.models import ModelFamily
from fairseq2.models.wav2vec2 import WAV2VEC2_FAMILY
from fairseq2.models.wav2vec2.asr import (
    WAV2VEC2_ASR_FAMILY,
    Wav2Vec2AsrConfig,
    Wav2Vec2AsrModel,
)
from fairseq2.runtime.dependency import DependencyContainer
from fairseq2.utils.structured import StandardValueConverter, StructureError
from fairseq2.utils.uri import Uri

from danish_asr.base.cluster import rank_info
from danish_asr.base.config_tree import Tree, merge, read_yaml
from danish_asr.base.errors import ConfigError, note
from danish_asr.base.fairseq2_private import library_container
from danish_asr.base.schema import CARDS_DIR, card_directories, without_nested
from danish_asr.corpus.sources.parquet import source_of_dataset
from danish_asr.recipe.config.schema import (
    AsrConfig,
    AssetsConfig,
    CommonSection,
    DatasetSection,
    ModelSection,
    TokenizerSection,
)
from danish_asr.recipe.data.index import DATASET_FAMILY, DanishAsrDataset
from danish_asr.recipe.models.hugging_face import import_model
from danish_asr.recipe.run.run import (
    MODEL_CARD,
    MODELS,
    Checkpoint,
    Run,
    check_model,
    checkpoint_of,
)

SPEECH: Final = "danish_asr"
"""The field of a trained model's card that says how its recordings and texts were prepared."""

DOWNLOAD_HINT: Final = (
    "`danish-asr fetch` with the same configuration gets it where there is internet access (on a "
    "cluster: a login node), into $FAIRSEQ2_CACHE_DIR, which must be the same for both"
)

_MODEL: Final = ("a CTC model (not LLM models)", "model_family", [WAV2VEC2_ASR_FAMILY])

_KINDS: Final[Mapping[str, tuple[str, str, Collection[str]]]] = {
    "dataset.name": ("a dataset of speech", "dataset_family", [DATASET_FAMILY]),
    "model.name": _MODEL,
    "MODEL": _MODEL,  # an argument of commands
    "pretrained_encoder.name": (
        "an encoder without a head",
        "model_family",
        [WAV2VEC2_FAMILY, WAV2VEC2_ASR_FAMILY],
    ),
    "tokenizer.name": ("a tokenizer of characters", "tokenizer_family", [CHAR_TOKENIZER_FAMILY]),
}
"""What each key must name: in words, the field of its card that says so, and its values."""


class ModelDescription(NamedTuple):
    """What a model is, without its weights."""

    family: ModelFamily
    config: Any  # that in the card, or of ``model.arch``, with ``model.config_overrides``
    has_new_head: bool  # it is not trained, and gets the size of the tokenizer


class Assets:
    """The cards that a configuration can name, and what opens them.

    Raises:
        ConfigError: A card is broken, or two have the same name.
    """

    def __init__(self, section: AssetsConfig, placed: Sequence[Tree] = ()) -> None:
        """Find the cards, and take those of models that were ``placed`` by a path."""
        self._container = library_container()
        directories = card_directories()
        self.extra_paths = without_nested(section.extra_paths, directories)
        for path in self.extra_paths:
            register_file_assets(self._container, path, not_exist_ok=True)
        if (checkpoints := section.prev_checkpoint_dir) is not None:
            if not (checkpoints / MODEL_CARD).is_file():
                fault = f"common.assets.prev_checkpoint_dir {checkpoints} has no {MODEL_CARD}"
                raise ConfigError([fault])
            register_checkpoint_models(self._container, checkpoints)
        register_placed(self._container, placed)
        self._searched = ", ".join(map(str, [*directories, *self.extra_paths]))
        try:
            self._store = self._container.resolve(AssetStore)
        except AssetMetadataError as error:
            rule = "two datasets or models have the same name, or a card is broken: move one away"
            raise ConfigError([f"cards in {self._searched}: {error} {rule}"]) from error

    def find(self, key: str, name: str) -> AssetCard:
        """Return the card that ``key`` names.

        Raises:
            ConfigError: There is none (the message lists those that exist), or it is unsafe.
        """
        if card := self._find(key, name):
            restrict = card.maybe_get_field("restrict")
            if restrict is None or restrict.value is True:
                return card
            rule = f"must be without restrict: {restrict.value}, as its checkpoint could run code"
            raise ConfigError([f"{key}: the card of '{name}' {rule}"])
        fault = (
            f"{key} must be {_KINDS[key][0]}, and there is no '{name}'; available: "
            f"{self.available(key, name)}. Cards were also searched for in {self._searched}; "
            "$DANISH_ASR_ASSETS can name more directories."
        )
        if key == "dataset.name":
            fault += f" `danish-asr convert {source_of_dataset(name) or 'SOURCE'} --name {name}"
            fault += " --out data/parquet` makes it, or goes on with it; `--dataset DIR` names one "
            fault += "that was moved."
        raise ConfigError([fault])

    def available(self, key: str, unusable: str) -> str:
        """List what ``key`` can name instead of an ``unusable`` name."""
        names = {name.removesuffix("@") for name in self._store.asset_names if name.endswith("@")}
        return ", ".join(n for n in sorted(names - {unusable}) if self._find(key, n)) or "none"

    def _find(self, key: str, name: str) -> AssetCard | None:
        _, field, families = _KINDS[key]
        try:
            card = self._store.maybe_retrieve_card(name)
        except AssetCardError:  # fairseq2 0.6 itself ships a card whose base card is missing
            return None
        family = card.maybe_get_field(field) if card else None
        return card if family and family.value in families else None

    def open_dataset(self, section: DatasetSection, card: AssetCard | None) -> DanishAsrDataset:
        """Open the dataset of a card; raises `ConfigError` if no directory is named."""
        field = card.maybe_get_field("dataset_config") if card else None
        config = dict(cast(Tree, field.value)) if field else {}
        config |= cast(Tree, section.config_overrides or {})
        if "data" not in config:
            raise ConfigError(["dataset.name must say what to read; or give --dataset DIR"])
        return DanishAsrDataset(Path(config["data"]))

    def describe_model(self, section: ModelSection, card: AssetCard | None) -> ModelDescription:
        """Describe the model in the card, or of ``model.arch``.

        Raises:
            ConfigError: There is none, or ``model.config_overrides`` do not fit it.
        """
        name = card.field("model_family").as_(str) if card else WAV2VEC2_ASR_FAMILY
        family = self._container.resolve(ModelFamily, key=name)
        if card is not None:
            config = family.get_model_config(card)
        else:
            config = family.maybe_get_arch_config(section.arch or "")
        if config is None:
            names = ", ".join(sorted(family.get_archs()))
            rule = f"must be one of {names} without model.name or model.path"
            raise ConfigError([f"model.arch {rule}, but is {section.arch}"])
        converter, overrides = StandardValueConverter(), section.config_overrides or {}
        tree = cast(Tree, converter.unstructure(config))
        try:
            changed = converter.structure(merge(tree, overrides), type(config))
        except StructureError as error:
            reason = error.__cause__ or error
            fault = f"model.config_overrides do not fit the model: {reason}"
            raise ConfigError([fault]) from None
        return ModelDescription(family, changed, card is None)

    def tokenizer_file(self, section: TokenizerSection) -> Path:
        """Return the file of the tokenizer, downloaded by fairseq2 if need be.

        Raises:
            ConfigError: There is none.
        """
        if section.path is not None:
            return section.path
        if section.name is None:
            raise ConfigError(["tokenizer.name must be given: the cards do not name a tokenizer"])
        card = self.find("tokenizer.name", section.name)
        try:
            return self.download("tokenizer", card.field("tokenizer").as_uri(), card.name)
        except AssetDownloadError as error:
            reason = error.__cause__ or error
            fault = f"tokenizer.name: '{card.name}' cannot be downloaded: {reason}"
            raise ConfigError([f"{fault}; {DOWNLOAD_HINT}"]) from None

    @property
    def cache(self) -> Path:
        """Where fairseq2 keeps what it has downloaded."""
        return self._container.resolve(AssetDirectoryAccessor).get_cache_dir()

    def download(self, kind: str, uri: Uri, name: str) -> Path:
        """Return the file of a ``model`` or ``tokenizer``, downloaded by fairseq2 if need be."""
        downloads = self._container.resolve(AssetDownloadManager)
        function = getattr(downloads, f"download_{kind}")
        return cast(Path, function(uri, name, progress=False))


def open_tokenizer(file: Path) -> Tokenizer:
    """Open a tokenizer of characters; raises ConfigError if the file is none."""
    try:
        return load_char_tokenizer(file, None)
    except (TokenizerModelError, FileNotFoundError) as error:
        raise ConfigError([f"tokenizer {file}: {error}"]) from None


def tokenizer_of(card: AssetCard | None) -> str | None:
    """The tokenizer that a model's or dataset's card names, or that it holds itself."""
    if card is None:
        return None
    if card.has_field("tokenizer_ref"):
        return card.field("tokenizer_ref").as_(str)
    return card.name if card.has_field("tokenizer_family") else None


class OpenModel(NamedTuple):
    """A model that is ready to be loaded, and how its recordings and texts are prepared.

    The card may come from others, so `text.profiles.profile_in` checks ``text_profile`` before use.
    """

    card: AssetCard
    family: ModelFamily
    placed: Sequence[Tree]  # the card, if a path named it
    tokenizer: Tokenizer
    text_profile: str  # how the texts were normalised that it was trained on
    normalize_audio: bool  # each waveform to mean 0 and variance 1
    max_audio_len: int  # samples of the longest utterance in training
    amp_dtype: str | None  # of autocast on a GPU; None: float32

    def load(self, device: torch.device) -> tuple[Wav2Vec2AsrModel, Wav2Vec2AsrConfig]:
        """Read its weights in float32; return it with its configuration."""
        gangs = create_fake_gangs(device)
        model = self.family.load_model(
            self.card, gangs, torch.float32, None, mmap=False, progress=False
        )
        settings = self.family.get_model_config(self.card)
        return cast(Wav2Vec2AsrModel, model), cast(Wav2Vec2AsrConfig, settings)


def open_model(model: str | Path, section: AssetsConfig | None = None) -> OpenModel:
    """Open a run (its best checkpoint), a checkpoint, a directory of Hugging Face or a name.

    ``section`` says where cards are searched beside the usual places. Which checkpoint of a run it
    is, goes to the standard error.

    Raises:
        ConfigError: There is no such name (the message lists those that exist), or tokenizer and
            head do not fit.
        RunError: The path is no directory with a model.
    """
    path = check_model(model)
    if (run := Run(path)).best is not None and rank_info().rank == 0:
        note(f"{model} is {run.best_in_words}")
    named = ModelSection(path=path) if path.is_dir() else ModelSection(name=str(path))
    common = CommonSection(assets=section or AssetsConfig())
    try:
        return _opened(AsrConfig(model=named, common=common))
    except ConfigError as error:
        raise ConfigError(error.faults, where=f"model {model}") from None


def _opened(config: AsrConfig) -> OpenModel:
    config, placed = with_named_model(config)
    assets = Assets(config.common.assets, placed)
    card = assets.find("MODEL", config.model.name) if config.model.name else None
    if card is None or tokenizer_of(card) is None:
        raise ConfigError(["it is an encoder without a head; train it first"])
    tokenizer = open_tokenizer(assets.tokenizer_file(TokenizerSection(name=tokenizer_of(card))))
    described = assets.describe_model(ModelSection(), card)
    size, rows = tokenizer.vocab_info.size, described.config.target_vocab_size
    if size != rows:
        raise ConfigError([f"its tokenizer has {size} symbols, but its head has {rows}"])
    speech = speech_of(AsrConfig())
    if field := card.maybe_get_field(SPEECH):
        speech |= cast(Tree, field.value)
    return OpenModel(card, described.family, placed, tokenizer, **speech)


def speech_of(config: AsrConfig) -> dict[str, Any]:
    """What a model's card says of its speech: the last four fields of `OpenModel`."""
    task, evaluator = config.dataset.asr_task_config, config.evaluator
    return {
        "text_profile": config.dataset.text_profile,
        "normalize_audio": task.normalize_audio,
        "max_audio_len": task.max_audio_len,
        "amp_dtype": evaluator.amp_dtype if evaluator.amp else None,
    }


def with_named_model(config: AsrConfig) -> tuple[AsrConfig, list[Tree]]:
    """Replace a ``model.path`` by the name of its card; return that card too.

    Of a run it is the best checkpoint (`checkpoint_of`). An encoder of Hugging Face becomes
    ``pretrained_encoder``, below a new head.

    Raises:
        ConfigError: The directory has no model, or one that cannot be converted.
    """
    path = config.model.path
    if path is None:
        return config, []
    card = _placed_card(path)
    model = replace(config.model, path=None, name=card["name"])
    if "tokenizer" in card:
        return replace(config, model=model), [card]
    changes = {key: card["model_config"][key] for key in ("use_masking", "encoder_config")}
    overrides = merge(changes, model.config_overrides or {})
    model = replace(model, name=None, arch="base_10h", config_overrides=overrides)
    encoder = replace(config.pretrained_encoder, name=card["name"])
    return replace(config, model=model, pretrained_encoder=encoder), [card]


def _placed_card(path: Path) -> Tree:
    """Return the card of the model in a directory."""
    if meant := checkpoint_of(path):
        return card_of(meant)
    is_hugging_face = (path / "config.json").is_file()
    folder = import_model(path) if is_hugging_face else path / CARDS_DIR
    for file in sorted(folder.glob("*.yaml")):
        card = _placed(file, name=path.resolve().name)
        if "model_family" in card:  # a dataset has cards too, of itself and of its tokenizer
            return card
    raise ConfigError([f"model.path {path} must be {MODELS}"])


def card_of(checkpoint: Checkpoint) -> Tree:
    """Return the card of a run's checkpoint; raises ConfigError if the run has none."""
    run = checkpoint.run
    name = f"{run.folder.resolve().name} step_{checkpoint.step}"
    return _placed(
        run.checkpoints / MODEL_CARD, name=name, checkpoint=str(checkpoint.weights.resolve())
    )


def _placed(file: Path, *, name: str, **fields: str) -> Tree:
    """Return the card in a file with other fields, and with a name that no other card has."""
    try:
        card = read_yaml(file)
    except ConfigError as error:
        raise ConfigError([f"{file}: {fault}" for fault in error.faults]) from None
    # Its paths are relative to this place, as fairseq2 knows of a card in a file.
    place = {"__base_path__": file.parent.resolve()}
    return card | fields | place | {"name": f"model.path {name}".replace("@", " ")}


def register_placed(container: DependencyContainer, cards: Sequence[Tree]) -> None:
    """Let what a container resolves find these cards."""
    entries = [dict(card) for card in cards]  # fairseq2 takes the name out of each
    register_in_memory_assets(container, "model.path", entries)
