"""ONNX files: for onnxruntime, with the normalisation inside, and for sherpa-onnx, without."""

import logging
import shutil
import warnings
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from danish_asr.base.errors import RunError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.inference.export.to_hugging_face import Vocabulary, hugging_face_model
from danish_asr.inference.model import Model

MODEL: Final = "model.onnx"
INT8: Final = "model.int8.onnx"

_OPSET: Final = 17
_EPS: Final = 1e-5  # of torch.nn.functional.layer_norm, which normalises waveforms in training
_LARGE: Final = 1_800_000_000
"""Bytes of weights beyond which they are in a file of their own: protobuf ends at 2 GB."""


class _PaddedBatch(nn.Module):
    """From waveforms, (N, samples) with any padding, and lengths, (N), to logits and frames."""

    def __init__(self, model: Any, shortest: int, *, normalizes: bool) -> None:
        super().__init__()
        self.model, self.shortest, self.normalizes = model, shortest, normalizes

    def forward(self, waveforms: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        positions = torch.arange(waveforms.shape[1])[None]
        valid = positions < lengths[:, None]
        lengths = valid.sum(1)  # not below 0, nor beyond the row
        if self.normalizes:
            # onnxruntime adds up in order: over 14 s, a variance in float32 is wrong by 1e-4.
            exact, samples = waveforms.double(), lengths[:, None].double()
            exact = exact - torch.where(valid, exact, 0.0).sum(1, keepdim=True) / samples
            variance = torch.where(valid, exact, 0.0).square().sum(1, keepdim=True) / samples
            waveforms = (exact / torch.sqrt(variance + _EPS)).to(waveforms.dtype)
        waveforms = torch.where(valid, waveforms, 0.0)
        mask = positions < lengths.clamp(min=self.shortest)[:, None]  # without a frame it fails
        logits = self.model(waveforms, attention_mask=mask.long()).logits
        frames = self.model._get_feat_extract_output_lengths(lengths)  # noqa: SLF001
        return logits, frames.clamp(min=0)


class _Alone(nn.Module):
    """From normalised waveforms, (N, samples), to logits, as sherpa-onnx calls it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, waveforms: Tensor) -> Tensor:
        logits: Tensor = self.model(waveforms).logits
        return logits


def write_onnx(model: Model, folder: Path, *, int8: bool) -> None:
    """Write ``model.onnx``, (``waveforms``, ``lengths``) to (``logits``, ``frames``), and symbols.

    Waveforms are 16 kHz samples as they are, float32 (N, samples), padded at the right; lengths
    are int64 (N). Each row is normalised on its own, so padding changes nothing.

    Raises:
        RunError: The architecture has no counterpart in transformers, which ONNX goes through.
    """
    shortest = model.frames.shortest_input()
    module = _PaddedBatch(hugging_face_model(model), shortest, normalizes=model.normalizes)
    inputs = torch.randn(2, SAMPLE_RATE), torch.tensor([SAMPLE_RATE, SAMPLE_RATE // 2])
    axes = {"waveforms": {0: "batch", 1: "samples"}, "lengths": {0: "batch"}}
    axes |= {"logits": {0: "batch", 1: "max_frames"}, "frames": {0: "batch"}}
    _write(module, inputs, axes, folder, metadata={}, int8=int8)
    Vocabulary(model.tokenizer, model.settings.target_vocab_size).write_tokens(folder)


def write_sherpa_onnx(model: Model, folder: Path, *, int8: bool) -> None:
    """Write ``model.onnx`` and ``tokens.txt`` for ``OfflineRecognizer.from_omnilingual_asr_ctc``.

    sherpa-onnx normalises each waveform itself; the size of the vocabulary must be static.

    Raises:
        RunError: The architecture has no counterpart, or the model takes audio as it is.
    """
    if not model.normalizes:
        raise RunError(
            f"model {model.name} was trained on audio that is not normalised, but sherpa-onnx "
            "normalises all audio; use --to onnx"
        )
    size = model.settings.target_vocab_size
    axes = {"x": {0: "N", 1: "num_samples"}, "logits": {0: "N", 1: "num_frames"}}
    metadata = {
        "model_type": "omnilingual-asr",
        "vocab_size": str(size),
        "sample_rate": str(SAMPLE_RATE),
        "version": "1",
        "comment": "danish-asr",
    }
    module = _Alone(hugging_face_model(model))
    _write(module, (torch.randn(1, SAMPLE_RATE),), axes, folder, metadata=metadata, int8=int8)
    Vocabulary(model.tokenizer, size).write_tokens(folder)


def _write(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    axes: dict[str, dict[int, str]],
    folder: Path,
    *,
    metadata: dict[str, str],
    int8: bool,
) -> None:
    import onnx  # noqa: PLC0415 - an extra
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415

    path = folder / MODEL
    large = sum(p.numel() * p.element_size() for p in module.parameters()) > _LARGE
    parts = folder / "parts"  # torch writes a file per tensor if the model is large
    parts.mkdir()
    outputs = [name for name in axes if name in {"logits", "frames"}]
    with warnings.catch_warnings(), torch.no_grad():
        # Of constants in masks, which are meant, and of dynamo=True, which needs onnxscript.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            inputs,
            parts / MODEL,
            dynamo=False,
            opset_version=_OPSET,
            input_names=[name for name in axes if name not in outputs],
            output_names=outputs,
            dynamic_axes=axes,
        )
    proto = onnx.load(parts / MODEL)
    onnx.helper.set_model_props(proto, metadata)
    onnx.save(proto, path, save_as_external_data=large, location="model.weights" if large else None)
    shutil.rmtree(parts)
    if int8:
        logging.disable(logging.WARNING)  # it recommends shape inference at every call
        quantize_dynamic(
            path,
            folder / INT8,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            use_external_data_format=large,
        )
        logging.disable(logging.NOTSET)
