"""Models of Hugging Face: fairseq2's wav2vec 2.0 and ``Wav2Vec2ForCTC`` are the same network.

Both compute the same numbers if every convolution of the feature extractor has a layer norm and the
encoder normalises before each layer, as in omniASR, XLS-R and the models made from them. Nothing
here imports transformers: a configuration is the mapping in its ``config.json``.

`import_model` converts a directory at its first use to a card and a checkpoint of fairseq2;
`to_hugging_face` and `to_hugging_face_config` are the way back, for the export.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Final

import sentencepiece
import torch
from fairseq2.models.transformer import TransformerNormOrder
from fairseq2.models.wav2vec2 import Wav2Vec2EncoderConfig
from fairseq2.models.wav2vec2.asr import WAV2VEC2_ASR_FAMILY
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from danish_asr.base.errors import ConfigError, refused_content
from danish_asr.base.files import publish, publish_text, to_yaml
from danish_asr.corpus.cards import build_char_tokenizer

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
    "model_type": "wav2vec2",
    "feat_extract_norm": "layer",
    "do_stable_layer_norm": True,
    "hidden_act": "gelu",
    "feat_extract_activation": "gelu",
    "layer_norm_eps": 1e-5,
    "add_adapter": False,
    "adapter_attn_dim": None,
}
"""What makes both libraries compute the same; other values have no counterpart in fairseq2."""

_WITH_HEAD: Final = "Wav2Vec2ForCTC"
_KINDS: Final = (_WITH_HEAD, "Wav2Vec2ForPreTraining", "Wav2Vec2Model")


def import_model(path: Path) -> Path:
    """Convert a directory of Hugging Face, unless that is done; return the directory of the card.

    It is ``$XDG_CACHE_HOME/danish-asr/hugging-face/<digest>``, with the weights once more. A
    ``Wav2Vec2ForCTC`` keeps its head and symbols, which get fairseq2's order, with the blank first.
    An encoder (``Wav2Vec2Model``, ``Wav2Vec2ForPreTraining``) has no tokenizer, and a head of one
    row.

    Raises:
        ConfigError: The architecture, the symbols or the files cannot be used, with the reasons.
    """
    files = sorted(path.resolve().iterdir())
    states = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    digest = hashlib.sha256(str(states).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "danish-asr" / "hugging-face" / digest
    if not [*folder.glob("*.yaml")]:
        try:
            _convert(path.resolve(), folder)
        except ConfigError as error:
            raise ConfigError([f"{path}: {fault}" for fault in error.faults]) from error
    return folder


def _convert(path: Path, folder: Path) -> None:
    """Write the card last: without it the conversion is not complete."""
    config = _read(path, "config.json")
    kind = (config.get("architectures") or ["Wav2Vec2Model"])[0]
    weights = [*sorted(path.glob("*.safetensors"))] or [path / "pytorch_model.bin"]
    faults = [
        f"{key} must be {value}, but is {config[key]}"
        for key, value in _FIXED.items()
        if config.get(key, value) != value  # old models lack a key or two
    ]
    if kind not in _KINDS:
        faults.append(f"architectures must be one of {', '.join(_KINDS)}, but is {kind}")
    if not weights[0].exists():
        faults.append("there is neither model.safetensors nor pytorch_model.bin")
    if faults:
        raise ConfigError(faults)
    encoder, rows = _encoder_config(config), [-1]
    card: dict[str, Any] = {"name": f"{path.name}-hf", "model_family": WAV2VEC2_ASR_FAMILY}
    if kind == _WITH_HEAD:
        tokenizer, rows = _symbols(path, config)
        with publish(folder / "tokenizer.model") as stream:
            stream.write(tokenizer)
        card |= {"tokenizer_family": "char_tokenizer", "tokenizer": "tokenizer.model"}
    with publish(folder / "model.pt") as stream:
        torch.save({"model": _converted(weights, rows, int(encoder["model_dim"]))}, stream)
    settings = {"use_masking": False, "target_vocab_size": len(rows), "encoder_config": encoder}
    card |= {"model_config": settings, "checkpoint": "model.pt"}
    publish_text(folder / f"{card['name']}.yaml", to_yaml(card))


def _converted(weights: Sequence[Path], rows: Sequence[int], width: int) -> dict[str, Tensor]:
    """The state of fairseq2's model; ``rows`` are those of its head in the file's, or -1."""
    state: dict[str, Tensor] = {}
    for file in weights:
        try:
            if file.suffix == ".safetensors":
                state |= load_file(file)
            else:
                state |= torch.load(file, map_location="cpu", weights_only=True)
        except (SafetensorError, UnpicklingError, RuntimeError, EOFError) as error:
            raise ConfigError([f"{file.name}: {refused_content(error)}"]) from error
    state = _from_hugging_face(state)
    trained = torch.tensor(rows) >= 0
    weight, bias = torch.zeros(len(rows), width), torch.full((len(rows),), _NEVER)
    if trained.any():
        of_file = torch.tensor(rows)[trained]
        weight[trained] = state["final_proj.weight"][of_file].float()
        bias[trained] = state["final_proj.bias"][of_file].float()
    return {**state, "final_proj.weight": weight, "final_proj.bias": bias}


def _symbols(path: Path, config: Mapping[str, Any]) -> tuple[bytes, list[int]]:
    """Return a tokenizer of the characters in ``vocab.json``, and the row of each symbol."""
    vocab = _read(path, "vocab.json")
    settings = {**_read(path, "special_tokens_map.json"), **_read(path, "tokenizer_config.json")}
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    for key, default in special.items():
        token = settings.get(key, default)
        special[key] = str(token["content"] if isinstance(token, dict) else token)
    space = settings.get("word_delimiter_token", "|")
    control = {*special.values(), space, " "}
    characters = {token: row for token, row in vocab.items() if token not in control}
    longer = [token for token in characters if len(token) > 1]
    if longer or not vocab:
        text = ", ".join(longer) or "none"
        raise ConfigError([f"vocab.json must have the rows of characters, but has {text}"])
    tokenizer = build_char_tokenizer(characters)
    rows = {"<s>": config["pad_token_id"], "</s>": vocab.get(special["eos_token"], -1)}
    rows |= {"<unk>": vocab.get(special["unk_token"], -1), "<pad>": -1}
    rows |= {"▁": vocab.get(space, vocab.get(" ", -1)), **characters}
    pieces = sentencepiece.SentencePieceProcessor(model_proto=tokenizer)
    names = [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]
    return tokenizer, [rows[name] for name in names]


def _read(path: Path, name: str) -> dict[str, Any]:
    """A mapping in JSON; empty if there is no such file."""
    file = path / name
    return dict(json.loads(file.read_bytes())) if file.is_file() else {}


def _encoder_config(config: Mapping[str, Any]) -> dict[str, Any]:
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
    """Rename the parameters of transformers; what only pretraining and masking need is left out."""
    if not any(name.startswith(f"{_HF}.") for name in state):
        state = {f"{_HF}.{name}": value for name, value in state.items()}
    pairs = [(theirs, ours) for ours, theirs in _NAMES]
    skip = (f"{_HF}.masked_spec_embed", "quantizer.", "project_q.", "project_hid.")
    return {_renamed(n, pairs): value for n, value in state.items() if not n.startswith(skip)}


def _renamed(name: str, pairs: Sequence[tuple[str, str]]) -> str:
    for old, new in pairs:
        pattern = re.escape(old).replace(r"\#", r"(\d+)") + r"(?=\.|$)"
        if re.match(pattern, name):
            return re.sub(pattern, new.replace("#", r"\1"), name, count=1)
    return name


def export_faults(config: Wav2Vec2EncoderConfig) -> list[str]:
    """Why a model of fairseq2 has no counterpart in transformers."""
    rules = {
        "layer_norm_features": False,
        "feature_extractor_layer_norm_convs": True,
        "norm_order": TransformerNormOrder.PRE,
    }
    return [
        f"{key} must be {value}, but is {getattr(config, key)}"
        for key, value in rules.items()
        if getattr(config, key) != value
    ]


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
    return {_renamed(n, _NAMES): value for n, value in state.items() if not n.startswith("masker.")}
