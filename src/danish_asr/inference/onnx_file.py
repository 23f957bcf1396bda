"""``model.onnx`` and ``tokens.txt``, which onnxruntime and sherpa-onnx both run.

The graph takes ``x``, a waveform that is normalised to mean 0 and variance 1, and gives
``logits``; its metadata tell sherpa-onnx how to call it.
"""

import logging
import shutil
import warnings
from pathlib import Path
from typing import Final

import torch
from torch import nn

from danish_asr.base.errors import RunError
from danish_asr.base.files import publish_text
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.inference.model import Model
from danish_asr.inference.transformers_folder import hugging_face_model, symbol_names

MODEL: Final = "model.onnx"
INT8: Final = "model.int8.onnx"
TOKENS: Final = "tokens.txt"

_HEAD: Final = "/lm_head/MatMul"
"""The last layer, which stays in float32, as in `on_cpu.prepare_for_cpu`: few weights, of which
each error is one of a log-probability."""

_OPSET: Final = 17
_LARGE: Final = 1_800_000_000
"""Bytes of weights beyond which they are in a file of their own: protobuf ends at 2 GB."""


def write_onnx(model: Model, folder: Path, *, int8: bool) -> None:
    """Write the model and its symbols; with ``int8`` also ``model.int8.onnx``.

    Raises RunError if the architecture has no counterpart in transformers, which ONNX goes through,
    or if the model takes audio as it is.
    """
    if not model.normalizes:
        raise RunError(
            f"model {model.name} was trained on audio that is not normalised, but sherpa-onnx "
            "normalises all audio; use --to hf"
        )
    names = symbol_names(model.tokenizer, "▁")
    module = hugging_face_model(model)
    module.config.return_dict = False  # else ONNX gets a dictionary
    apart = sum(p.numel() * p.element_size() for p in module.parameters()) > _LARGE
    _write(module, folder, len(names), apart=apart)
    # sherpa-onnx leaves SIL and </s> out of texts, but not <s>.
    named = ("SIL" if name == "<s>" else name for name in names)
    lines = (f"{name} {number}\n" for number, name in enumerate(named))
    publish_text(folder / TOKENS, "".join(lines))
    if int8:
        _quantise(folder, apart=apart)


def _write(module: nn.Module, folder: Path, size: int, *, apart: bool) -> None:
    import onnx  # noqa: PLC0415 - an extra

    parts = folder / "parts"  # torch writes a file per tensor if the model is large
    parts.mkdir()
    with warnings.catch_warnings(), torch.no_grad():
        # Of constants in masks, which are meant, and of dynamo=True, which needs onnxscript.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (torch.randn(1, SAMPLE_RATE),),
            parts / MODEL,
            dynamo=False,
            opset_version=_OPSET,
            input_names=["x"],
            output_names=["logits"],
            dynamic_axes={
                "x": {0: "N", 1: "num_samples"},
                "logits": {0: "N", 1: "num_frames"},  # the vocabulary must be static
            },
        )
    proto = onnx.load(parts / MODEL)
    metadata = {
        "model_type": "omnilingual-asr",
        "vocab_size": str(size),
        "sample_rate": str(SAMPLE_RATE),
        "version": "1",
        "comment": "danish-asr",
    }
    onnx.helper.set_model_props(proto, metadata)
    location = "model.weights" if apart else None
    onnx.save(proto, folder / MODEL, save_as_external_data=apart, location=location)
    shutil.rmtree(parts)


def _quantise(folder: Path, *, apart: bool) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415 - an extra

    logging.disable(logging.WARNING)  # it recommends shape inference at every call
    try:
        quantize_dynamic(
            folder / MODEL,
            folder / INT8,
            op_types_to_quantize=["MatMul"],
            nodes_to_exclude=[_HEAD],
            per_channel=True,
            weight_type=QuantType.QInt8,
            use_external_data_format=apart,
        )
    finally:
        logging.disable(logging.NOTSET)
