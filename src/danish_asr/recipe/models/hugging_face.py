"""Models of Hugging Face: fairseq2's wav2vec 2.0 and ``Wav2Vec2ForCTC`` are the same network.

Both compute the same numbers if every convolution of the feature extractor has a layer norm and the
encoder normalises before each layer, as in omniASR, XLS-R and the models made from them. Nothing
here imports transformers: a configuration is the mapping in its ``config.json``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

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

HUGGING_FACE_FAMILY: Final = "wav2vec2_asr_hugging_face"
"""fairseq2's name for models whose weights have the names of transformers."""

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

FIXED: Final[Mapping[str, object]] = {
    "feat_extract_norm": "layer",
    "do_stable_layer_norm": True,
    "hidden_act": "gelu",
    "feat_extract_activation": "gelu",
    "layer_norm_eps": 1e-5,
    "add_adapter": False,
}
"""What makes both libraries compute the same; other values have no counterpart in fairseq2."""

DEFAULTS: Final[Mapping[str, Any]] = {
    **FIXED,
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
        **FIXED,
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


def from_hugging_face_config(config: Mapping[str, Any]) -> dict[str, Any]:
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
