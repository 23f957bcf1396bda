"""Models of Hugging Face: fairseq2's wav2vec 2.0 and ``Wav2Vec2ForCTC`` are the same network.

Both compute the same numbers if every convolution of the feature extractor has a layer norm and the
encoder normalises before each layer, as in omniASR, XLS-R and the models made from them. Nothing
here imports transformers: a configuration is the mapping in its ``config.json``.

A directory as ``model.path`` is read in place, under a card made for fairseq2. Card and tokenizer
are small files in ``$XDG_CACHE_HOME/danish-asr/hugging-face``. The symbols get fairseq2's order,
with the blank first, and the rows of the head follow them.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import sentencepiece
import torch
from fairseq2.composition import register_model_family
from fairseq2.models.transformer import TransformerNormOrder
from fairseq2.models.wav2vec2 import Wav2Vec2EncoderConfig
from fairseq2.models.wav2vec2.asr import (
    Wav2Vec2AsrConfig,
    Wav2Vec2AsrModel,
    apply_ac_to_wav2vec2_asr,
    apply_fsdp_to_wav2vec2_asr,
    convert_wav2vec2_asr_state_dict,
    create_wav2vec2_asr_model,
)
from fairseq2.runtime.dependency import DependencyContainer
from torch import Tensor

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import publish, publish_text, to_yaml

HUGGING_FACE_FAMILY: Final = "wav2vec2_asr_hugging_face"
"""fairseq2's name for models whose weights have the names of transformers."""

_HAS_HEAD: Final = {
    "Wav2Vec2ForCTC": True,
    "Wav2Vec2ForPreTraining": False,
    "Wav2Vec2Model": False,
}

_NEVER: Final = -100.0
"""The bias of symbols that the file's head does not have: they are never the best."""

_FRONT, _LAYER = "encoder_frontend", "encoder.layers.#"
_HF, _HF_LAYER = "wav2vec2", "wav2vec2.encoder.layers.#"
_WEIGHT: Final = f"{_HF}.encoder.pos_conv_embed.conv.parametrizations.weight.original"

_NAMES: Final = (
    (f"{_FRONT}.feature_extractor.layers.#", f"{_HF}.feature_extractor.conv_layers.#"),
    (f"{_FRONT}.post_extract_layer_norm", f"{_HF}.feature_projection.layer_norm"),
    (f"{_FRONT}.model_dim_proj", f"{_HF}.feature_projection.projection"),
    (f"{_FRONT}.pos_encoder.conv.weight_g", f"{_WEIGHT}0"),
    (f"{_FRONT}.pos_encoder.conv.weight_v", f"{_WEIGHT}1"),
    # Also weight_g and weight_v of checkpoints from before torch 2's parametrizations.
    (f"{_FRONT}.pos_encoder.conv", f"{_HF}.encoder.pos_conv_embed.conv"),
    (f"{_LAYER}.self_attn_layer_norm", f"{_HF_LAYER}.layer_norm"),
    (f"{_LAYER}.self_attn.output_proj", f"{_HF_LAYER}.attention.out_proj"),
    (f"{_LAYER}.self_attn", f"{_HF_LAYER}.attention"),
    (f"{_LAYER}.ffn_layer_norm", f"{_HF_LAYER}.final_layer_norm"),
    (f"{_LAYER}.ffn.inner_proj", f"{_HF_LAYER}.feed_forward.intermediate_dense"),
    (f"{_LAYER}.ffn.output_proj", f"{_HF_LAYER}.feed_forward.output_dense"),
    ("encoder.layer_norm", f"{_HF}.encoder.layer_norm"),
    ("final_proj", "lm_head"),
)
"""Beginnings of the names of parameters in fairseq2 and in transformers; # is a number."""

_SIZES: Final = {
    "model_dim": "hidden_size",
    "num_encoder_layers": "num_hidden_layers",
    "num_encoder_attn_heads": "num_attention_heads",
    "ffn_inner_dim": "intermediate_size",
    "pos_conv_kernel_size": "num_conv_pos_embeddings",
    "num_pos_conv_groups": "num_conv_pos_embedding_groups",
    "feature_extractor_bias": "conv_bias",
}

_FIXED: Final[Mapping[str, object]] = {
    "feat_extract_norm": "layer",
    "do_stable_layer_norm": True,
    "hidden_act": "gelu",
    "feat_extract_activation": "gelu",
    "layer_norm_eps": 1e-5,
    "add_adapter": False,
}
"""What makes both libraries compute the same; other values have no counterpart in fairseq2."""

_DEFAULTS: Final[Mapping[str, Any]] = {
    **_FIXED,
    "feat_extract_norm": "group",
    "do_stable_layer_norm": False,
    "adapter_attn_dim": None,
    "conv_bias": False,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "num_conv_pos_embeddings": 128,
    "num_conv_pos_embedding_groups": 16,
    "conv_dim": [512] * 7,
    "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
    "conv_stride": [5, 2, 2, 2, 2, 2, 2],
}
"""Of ``Wav2Vec2Config``, for keys that a ``config.json`` leaves out."""


@dataclass(kw_only=True)
class ImportedAsrConfig(Wav2Vec2AsrConfig):
    """A model whose weights have the names of transformers."""

    head_rows: list[int] = field(default_factory=list)
    """For each symbol its row in the head of the file, or -1. Empty: the head is new."""


def register_imported(container: DependencyContainer) -> None:
    """Register the family of models that are read from a directory of Hugging Face."""
    register_model_family(
        container,
        HUGGING_FACE_FAMILY,
        Wav2Vec2AsrModel,
        ImportedAsrConfig,
        factory=create_wav2vec2_asr_model,
        state_dict_converter=_convert,
        fsdp_applier=apply_fsdp_to_wav2vec2_asr,
        layerwise_ac_applier=apply_ac_to_wav2vec2_asr,
    )


def _convert(state_dict: dict[str, object], config: ImportedAsrConfig) -> dict[str, object]:
    state = cast(dict[str, Tensor], state_dict)
    if "encoder.layer_norm.weight" in state and "final_proj.weight" in state:  # of a run
        return convert_wav2vec2_asr_state_dict(state_dict, config)
    state = _from_hugging_face(state)
    size, width = config.target_vocab_size, config.encoder_config.model_dim
    weight, bias = torch.zeros(size, width), torch.zeros(size)
    if config.head_rows:
        rows = torch.tensor(config.head_rows)
        trained = rows >= 0
        weight[trained] = state["final_proj.weight"][rows[trained]].float()
        bias[trained] = state["final_proj.bias"][rows[trained]].float()
        bias[~trained] = _NEVER
    else:
        torch.nn.init.xavier_uniform_(weight)
    return {**state, "final_proj.weight": weight, "final_proj.bias": bias}


def export_faults(config: Wav2Vec2EncoderConfig) -> list[str]:
    """Why a model of fairseq2 has no counterpart in transformers."""
    rules = {
        "layer_norm_features": False,
        "feature_extractor_layer_norm_convs": True,
        "norm_order": TransformerNormOrder.PRE,
        "use_fbank": False,
        "use_conformer": False,
        "pos_encoder_type": "conv",
        "pos_encoder_depth": 1,
    }
    faults = [
        f"{key} must be {value}, but is {getattr(config, key)}"
        for key, value in rules.items()
        if getattr(config, key) != value
    ]
    if config.feature_dim == config.model_dim:  # fairseq2 then leaves the projection out
        faults.append(f"feature_dim and model_dim must differ, but both are {config.model_dim}")
    return faults


def to_hugging_face_config(config: Wav2Vec2EncoderConfig, vocab_size: int) -> dict[str, Any]:
    """Return the keywords of ``Wav2Vec2Config`` for a model without `export_faults`."""
    dims, kernels, strides = zip(*config.feature_extractor_layer_descs, strict=True)
    return {
        **{theirs: getattr(config, ours) for ours, theirs in _SIZES.items()},
        **_FIXED,
        "conv_dim": list(dims),
        "conv_kernel": list(kernels),
        "conv_stride": list(strides),
        "num_feat_extract_layers": len(dims),
        "vocab_size": vocab_size,
        # Fine-tuning in transformers would mask with an embedding that the model may not have.
        "mask_time_prob": 0.0,
        "mask_feature_prob": 0.0,
        "layerdrop": 0.0,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def to_hugging_face(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the parameters of a fairseq2 model; those of its masker, for training, are left out.

    Convolutions, attention and layers have the same shapes and orders in both libraries.
    """
    return _renamed(state, _NAMES, skip=("masker.",))


def is_hugging_face(path: Path) -> bool:
    """Whether a directory may be a model of transformers."""
    return (path / "config.json").is_file()


def import_model(path: Path) -> tuple[Path, str]:
    """Write the card of a directory of Hugging Face; return its directory and its name.

    A ``Wav2Vec2ForCTC`` keeps its head and symbols; an encoder (``Wav2Vec2Model``,
    ``Wav2Vec2ForPreTraining``) gets a new head.

    Raises:
        ConfigError: The architecture, the symbols or the files cannot be used, with the reasons.
    """
    path = path.resolve()
    config = {**_DEFAULTS, **_read(path, "config.json")}
    kind = (config.get("architectures") or ["Wav2Vec2Model"])[0]
    weights = path if [*path.glob("*.safetensors")] else path / "pytorch_model.bin"
    faults = _import_faults(path, config)
    if kind not in _HAS_HEAD:
        faults.append(f"architectures must be one of {', '.join(_HAS_HEAD)}, but is {kind}")
    if not weights.exists():
        faults.append("there is neither model.safetensors nor pytorch_model.bin")
    if faults:
        raise ConfigError([f"model.path {path}: {fault}" for fault in faults])
    card: dict[str, Any] = {
        "name": f"{path.name}-hf",
        "model_family": HUGGING_FACE_FAMILY,
        "model_config": {"use_masking": False, "encoder_config": _from_hugging_face_config(config)},
        "checkpoint": str(weights),
    }
    tokenizer = b""
    if _HAS_HEAD[kind]:
        tokenizer, rows = _symbols(path, config)
        card["model_config"] |= {"head_rows": rows, "target_vocab_size": len(rows)}
        card |= {"tokenizer_family": "char_tokenizer", "tokenizer": "tokenizer.model"}
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(to_yaml(card).encode() + tokenizer).hexdigest()[:16]
    folder = cache / "danish-asr" / "hugging-face" / digest
    if tokenizer:
        with publish(folder / "tokenizer.model") as stream:
            stream.write(tokenizer)
    publish_text(folder / f"{card['name']}.yaml", to_yaml(card))
    return folder, str(card["name"])


def _import_faults(path: Path, config: Mapping[str, Any]) -> list[str]:
    """Why a model of transformers has no counterpart in fairseq2, or is damaged."""
    rules = {"model_type": "wav2vec2", **_FIXED, "adapter_attn_dim": None}
    faults = [
        f"{key} must be {value}, but is {config.get(key)}"
        for key, value in rules.items()
        if config.get(key) != value
    ]
    processor = _read(path, "processor_config.json").get("feature_extractor", {})  # transformers 5
    if not {**processor, **_read(path, "preprocessor_config.json")}.get("do_normalize", True):
        faults.append("do_normalize of the feature extractor must be true, but is false")
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - only here

    for file in sorted(path.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt"):  # it compares the header with the file's size
                pass
        except (SafetensorError, OSError) as error:
            faults.append(f"{file.name} is damaged ({error}); download or copy it again")
    return faults


def _from_hugging_face_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of ``Wav2Vec2EncoderConfig``.

    Dropout is as in omniASR's architectures, so that fine-tuning is comparable.
    """
    sizes = zip(config["conv_dim"], config["conv_kernel"], config["conv_stride"], strict=True)
    return {
        **{ours: config[theirs] for ours, theirs in _SIZES.items()},
        "feature_dim": config["conv_dim"][-1],
        "feature_extractor_layer_descs": [list(layer) for layer in sizes],
        "feature_extractor_layer_norm_convs": True,
        "layer_norm_features": False,
        "norm_order": "PRE",
        "dropout_p": 0.0,
        "attn_dropout_p": 0.0,
        "ffn_inner_dropout_p": 0.1,
        "layer_drop_p": 0.1,
    }


def _from_hugging_face(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the parameters of a ``Wav2Vec2ForCTC``, ``ForPreTraining`` or ``Wav2Vec2Model``.

    What only pretraining and masking need is left out. An encoder alone has no ``final_proj``.
    """
    if not any(name.startswith(f"{_HF}.") for name in state):
        state = {f"{_HF}.{name}": value for name, value in state.items()}
    pairs = [(theirs, ours) for ours, theirs in _NAMES]
    skip = (f"{_HF}.masked_spec_embed", "quantizer.", "project_q.", "project_hid.")
    return _renamed(state, pairs, skip=skip)


def _renamed(
    state: Mapping[str, Tensor], pairs: Sequence[tuple[str, str]], skip: tuple[str, ...]
) -> dict[str, Tensor]:
    renamed = {}
    for name, value in state.items():
        if name.startswith(skip):
            continue
        new_name = name
        for old, new in pairs:
            pattern = re.escape(old).replace(r"\#", r"(\d+)") + r"(?=\.|$)"
            if re.match(pattern, name):
                new_name = re.sub(pattern, new.replace("#", r"\1"), name, count=1)
                break
        renamed[new_name] = value
    return renamed


def _symbols(path: Path, config: Mapping[str, Any]) -> tuple[bytes, list[int]]:
    """Return a tokenizer of the characters in ``vocab.json``, and the row of each symbol."""
    # The extension imports this file into every program that uses fairseq2.
    from danish_asr.corpus.cards import build_char_tokenizer  # noqa: PLC0415

    vocab = _read(path, "vocab.json")
    settings = {**_read(path, "special_tokens_map.json"), **_read(path, "tokenizer_config.json")}
    if not vocab or not all(isinstance(row, int) for row in vocab.values()):
        raise ConfigError([f"model.path {path}: expected vocab.json with the row of each symbol"])
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    for key, default in special.items():
        token = settings.get(key, default)
        special[key] = str(token["content"] if isinstance(token, dict) else token)
    space = settings.get("word_delimiter_token", "|")
    lower = bool(settings.get("do_lower_case"))
    characters = {
        token.lower() if lower else token: row
        for token, row in vocab.items()
        if token not in {*special.values(), space, " "}
    }
    if longer := [token for token in characters if len(token) > 1]:
        shown = ", ".join(longer[:5])
        rule = "vocab.json must have characters only"
        raise ConfigError([f"model.path {path}: {rule}, but has {shown}"])
    tokenizer = build_char_tokenizer(characters)
    rows = {"<s>": config["pad_token_id"], "</s>": vocab.get(special["eos_token"], -1)}
    rows |= {"<unk>": vocab.get(special["unk_token"], -1), "<pad>": -1}
    rows |= {"▁": vocab.get(space, vocab.get(" ", -1)), **characters}
    pieces = sentencepiece.SentencePieceProcessor(model_proto=tokenizer)
    names = [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]
    return tokenizer, [rows[name] for name in names]


def _read(path: Path, name: str) -> dict[str, Any]:
    file = path / name
    try:
        content = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except ValueError as error:
        raise ConfigError([f"model.path: {file} is not JSON: {error}"]) from error
    return content if isinstance(content, dict) else {}
