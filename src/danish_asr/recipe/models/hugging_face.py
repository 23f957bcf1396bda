"""The same network in two libraries: fairseq2's wav2vec 2.0 and ``Wav2Vec2ForCTC`` of transformers.

Both compute the same numbers if every convolution of the feature extractor has a layer norm and the
encoder normalises before each layer, as in omniASR, XLS-R and the models made from them. Nothing
here imports transformers: a configuration is the mapping in its ``config.json``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairseq2.models.transformer import TransformerNormOrder
from fairseq2.models.wav2vec2 import Wav2Vec2EncoderConfig
from torch import Tensor

HUGGING_FACE_FAMILY: Final = "wav2vec2_asr_hugging_face"
"""fairseq2's name for models whose weights have the names of transformers."""

_EPS: Final = 1e-5
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
    "layer_norm_eps": _EPS,
    "add_adapter": False,
}
"""What makes both libraries compute the same; other values have no counterpart in fairseq2."""

_DEFAULTS: Final[Mapping[str, Any]] = {
    "feat_extract_norm": "group",
    "do_stable_layer_norm": False,
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
        f"{key} must be {_shown(value)}, but is {_shown(getattr(config, key))}"
        for key, value in rules.items()
        if getattr(config, key) != value
    ]
    if config.feature_dim == config.model_dim:  # fairseq2 then leaves the projection out
        faults.append(f"feature_dim and model_dim must differ, but both are {config.model_dim}")
    return faults


def _shown(value: object) -> object:
    return value.name if isinstance(value, TransformerNormOrder) else value


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


def import_faults(config: Mapping[str, Any]) -> list[str]:
    """Why the model of a ``config.json`` has no counterpart in fairseq2."""
    found = {"layer_norm_eps": _EPS, "hidden_act": "gelu", "feat_extract_activation": "gelu"}
    found |= {"add_adapter": False, **_DEFAULTS, **config}
    rules = {"model_type": "wav2vec2", **_FIXED, "adapter_attn_dim": None}
    return [
        f"{key} must be {value}, but is {found.get(key)}"
        for key, value in rules.items()
        if found.get(key) != value
    ]


def from_hugging_face_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of ``Wav2Vec2EncoderConfig`` for a ``config.json`` without faults.

    Dropout is as in omniASR's architectures, so that fine-tuning is comparable.
    """
    found = {**_DEFAULTS, **config}
    sizes = zip(found["conv_dim"], found["conv_kernel"], found["conv_stride"], strict=True)
    return {
        **{ours: found[theirs] for ours, theirs in _SIZES.items()},
        "feature_dim": found["conv_dim"][-1],
        "feature_extractor_layer_descs": [list(layer) for layer in sizes],
        "feature_extractor_layer_norm_convs": True,
        "layer_norm_features": False,
        "norm_order": "PRE",
        "dropout_p": 0.0,
        "attn_dropout_p": 0.0,
        "ffn_inner_dropout_p": 0.1,
        "layer_drop_p": 0.1,
    }


def to_hugging_face(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the parameters of a fairseq2 model; those of its masker, for training, are left out.

    Convolutions, attention and layers have the same shapes and orders in both libraries.
    """
    return dict(_renamed(state, _NAMES, skip=("masker.",)))


def from_hugging_face(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the parameters of a ``Wav2Vec2ForCTC``, ``ForPreTraining`` or ``Wav2Vec2Model``.

    What only pretraining and masking need is left out. An encoder alone has no ``final_proj``.
    """
    if not any(name.startswith(f"{_HF}.") for name in state):
        state = {f"{_HF}.{name}": value for name, value in state.items()}
    pairs = [(theirs, ours) for ours, theirs in _NAMES]
    skip = (f"{_HF}.masked_spec_embed", "quantizer.", "project_q.", "project_hid.")
    return dict(_renamed(state, pairs, skip=skip))


def _renamed(
    state: Mapping[str, Tensor], pairs: Sequence[tuple[str, str]], skip: tuple[str, ...]
) -> Iterator[tuple[str, Tensor]]:
    patterns = [
        (re.compile(re.escape(old).replace(r"\#", r"(\d+)") + r"(?=\.|$)"), new.replace("#", r"\1"))
        for old, new in pairs
    ]
    for name, value in state.items():
        if not name.startswith(skip):
            found = next((p for p in patterns if p[0].match(name)), None)
            yield (found[0].sub(found[1], name, count=1) if found else name), value
