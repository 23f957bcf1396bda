"""How a model computes faster on a CPU: with equal results, or nearly equal ones in int8."""

from __future__ import annotations

from typing import cast

import torch
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrModel
from fairseq2.models.wav2vec2.feature_extractor import (
    Wav2Vec2FeatureExtractionLayer,
    Wav2Vec2FeatureExtractor,
)
from fairseq2.nn import Linear
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import linear


def prepare_for_cpu(module: Wav2Vec2AsrModel, *, int8: bool) -> None:
    """Change a model in place for inference on a CPU; only ``int8`` changes its weights.

    The front end's convolutions become matrix products. With ``int8``, the linear layers of front
    end and encoder have weights in int8, one scale per output; each input gets a scale when it
    comes (dynamic quantisation). The convolutions and the last layer stay in float32.
    """
    frontend = module.encoder_frontend
    layers = cast(Wav2Vec2FeatureExtractor, frontend.feature_extractor).layers
    for number, layer in enumerate(cast(list[Wav2Vec2FeatureExtractionLayer], layers)):
        if layer.layer_norm is not None:
            layers[number] = _MatrixProduct(layer)
    if int8:
        _quantise(frontend)
        _quantise(module.encoder)


class _MatrixProduct(Module):
    """A layer of the front end, (N, C, S) to (N, C, S), as one matrix product.

    Both tensors are views of (N, S, C): what the kernel sees is a row in memory, and the norm needs
    no transposed copy. Parameters keep their names.
    """

    def __init__(self, layer: Wav2Vec2FeatureExtractionLayer) -> None:
        super().__init__()
        self.conv = layer.conv
        self.layer_norm, self.activation = layer.layer_norm, layer.activation

    def forward(self, seqs: Tensor) -> Tensor:
        kernel, stride = self.conv.kernel_size[0], self.conv.stride[0]
        windows = seqs.transpose(1, 2).unfold(1, kernel, stride)  # (N, S, C, kernel)
        weight = self.conv.weight.transpose(1, 2).flatten(1)
        products = linear(windows.transpose(2, 3).flatten(2), weight, self.conv.bias)
        assert self.layer_norm is not None
        return cast(Tensor, self.activation(self.layer_norm(products)).transpose(1, 2))


class _Int8Linear(Module):
    """A linear layer with int8 weights: PyTorch's dynamic quantisation."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        weight = weight.detach()
        # From -127 to 127; -128 is unused, so that zero stays zero.
        scales = weight.abs().amax(dim=1).double().clamp(min=1e-12) / 127
        zeros = torch.zeros(len(weight), dtype=torch.long)
        quantised = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self._packed = torch.ops.quantized.linear_prepack(quantised, bias)

    def forward(self, seqs: Tensor) -> Tensor:
        # Without VNNI, x86 adds two products in 16 bits: inputs then have seven bits.
        vnni = torch.cpu._is_vnni_supported()  # noqa: SLF001 - no public name
        product = torch.ops.quantized.linear_dynamic(seqs, self._packed, reduce_range=not vnni)
        return cast(Tensor, product)


def _quantise(module: Module) -> None:
    """Replace all linear layers of a module; the float32 weights of each are freed at once."""
    for name, child in module.named_children():
        if isinstance(child, Linear):
            setattr(module, name, _Int8Linear(child.weight, child.bias))
        else:
            _quantise(child)
