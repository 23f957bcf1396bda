"""Memory of one batch's forward and backward pass, from shapes alone.

The model's own code runs on torch's fake tensors, which have no memory, while the bytes of every
storage that is alive are counted. Workspaces within kernels are not seen. The layers of an encoder
are alike: a few of them are traced, and the others added.
"""

# ruff: noqa: SLF001 - operators and modules have no public names for these

from collections import Counter
from contextlib import nullcontext
from functools import partial
from typing import Any, Final, NamedTuple, cast
from weakref import finalize

import torch
from fairseq2.models.transformer.attention_bias import maybe_get_attention_bias_tensor
from fairseq2.models.transformer.sdpa.torch import TorchSDPA
from fairseq2.models.utils.ac import apply_layerwise_ac
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrModel
from fairseq2.nn import BatchLayout, StandardLayerNorm
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import Dropout, Module, ModuleList, Parameter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from typing_extensions import override

from danish_asr.base.schema import SAMPLE_RATE

aten = torch.ops.aten

FRONT_END: Final = "front end"
ENCODER: Final = "encoder"
HEAD: Final = "head"
COPIES: Final = "copies of weights"

_TOKENS_PER_SECOND: Final = 15
"""Characters that Danish speakers read in a second; only CTC's table of paths depends on them."""

_BLOCK: Final = 512
"""Bytes; PyTorch's allocator hands out multiples of it (c10/cuda/CUDACachingAllocator.cpp)."""


class Batch(NamedTuple):
    """``rows`` utterances, each padded to ``samples``."""

    rows: int
    samples: int


class Settings(NamedTuple):
    """What shapes the memory of a batch beside the model."""

    gpu: bool
    amp: torch.dtype | None  # autocast's type
    checkpointing: int = 0  # every n-th layer


def peak(module: Wav2Vec2AsrModel, batch: Batch, settings: Settings) -> Counter[str]:
    """Return the bytes alive at the peak beside weights and gradients, by part of the model.

    All gradients exist before, as they do from the second batch of a step on. ``module``, which may
    be on the meta device and is changed, has frozen what does not learn.
    """
    layers: ModuleList = module.encoder.layers
    learning = sum(any(p.requires_grad for p in layer.parameters()) for layer in layers)
    every, frozen = max(settings.checkpointing, 1), len(layers) - learning
    most = min(2 * every, learning)
    kept = [*layers[: min(frozen, every)], *layers[frozen : frozen + most]]
    module.encoder.layers = ModuleList(kept)
    if settings.gpu:
        _as_on_gpu(module)
    if settings.checkpointing:
        apply_layerwise_ac(module.encoder.layers, settings.checkpointing)
    cast(Any, module.encoder).layer_drop_p = 0.0  # all layers may be kept
    cast(Any, module).masker = None  # it reads values, which these tensors do not have
    with FakeTensorMode(allow_non_fake_inputs=True):
        cast(Any, module)._apply(lambda t: torch.empty(t.shape, dtype=t.dtype))
        for parameter in module.parameters():
            parameter.grad = torch.empty_like(parameter) if parameter.requires_grad else None
        stages = _trace(module, batch, settings)
        if most < learning:
            # What each layer adds shows between two numbers of layers.
            module.encoder.layers = module.encoder.layers[:-every]
            fewer, more = _trace(module, batch, settings)[1], stages[1]
            for part in more:
                more[part] += round((more[part] - fewer[part]) * (learning - most) / every)
    return max(stages, key=Counter.total)


def _trace(module: Wav2Vec2AsrModel, batch: Batch, settings: Settings) -> list[Counter[str]]:
    rows, samples = batch.rows, batch.samples
    with _Living(module) as living:
        audio = torch.empty(rows, samples)
        # The others are shorter: then attention needs a mask.
        layout = BatchLayout.of(audio, [samples, *[samples * 3 // 4] * (rows - 1)])
        count = max(1, samples * _TOKENS_PER_SECOND // SAMPLE_RATE)
        targets = torch.empty(rows, count, dtype=torch.int64)
        inputs = (audio, layout, targets, BatchLayout.of(targets))
        with torch.autocast("cpu", settings.amp) if settings.amp else nullcontext():
            loss = module(*inputs)
        cast(Any, loss).backward()
    return cast(list[Counter[str]], living.stages)


def _as_on_gpu(parent: Module) -> None:
    """Replace the operators that save other tensors on a GPU than on a CPU."""
    for name, part in parent.named_children():
        if isinstance(part, StandardLayerNorm) and not part.cast_fp32:
            setattr(parent, name, _GpuLayerNorm(part))
        elif isinstance(part, Dropout):
            setattr(parent, name, _GpuDropout(part.p))
        elif isinstance(part, TorchSDPA):
            setattr(parent, name, _GpuSdpa(part))
        else:
            _as_on_gpu(part)


class _Living(TorchDispatchMode):
    """Counts the storages that are alive, by the part of the model that runs when they appear.

    ``stages`` are the peaks, in bytes by part: of the forward pass up to the encoder, from there to
    the end of the encoder's backward pass, and after that.
    """

    def __init__(self, module: Wav2Vec2AsrModel) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stages = [Counter[str](), Counter[str](), Counter[str]()]
        self._bytes, self._total, self._part, self._stage = Counter[str](), 0, FRONT_END, 0
        grads = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
        tensors = [*module.parameters(), *module.buffers(), *grads]
        self._known = {tensor.untyped_storage()._cdata for tensor in tensors}
        self._hooks = [
            module.encoder.register_forward_pre_hook(self._encoder_begins),
            module.encoder.register_forward_hook(self._encoder_ends),
        ]

    @override
    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        for hook in self._hooks:
            hook.remove()

    def _enter(self, part: str, stage: int) -> None:
        self._part, self._stage = part, stage
        self._note()

    def _encoder_begins(self, _: Module, inputs: tuple[Any, ...]) -> None:
        self._enter(ENCODER, 1)
        if inputs[0].requires_grad:
            cast(Any, inputs[0]).register_hook(lambda _: self._enter(FRONT_END, 2))

    def _encoder_ends(self, _: Module, __: object, output: Tensor) -> None:
        self._enter(HEAD, 1)
        if output.requires_grad:
            cast(Any, output).register_hook(lambda _: self._enter(ENCODER, 1))

    @override
    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = _STAND_INS.get(func, func)(*args, **(kwargs or {}))
        copied = func is aten._to_copy.default and isinstance(args[0], Parameter)
        tree_map_only(Tensor, partial(self._count, COPIES if copied else self._part), out)
        if func in _CONVOLUTIONS or func in _LAYER_NORMS:
            tensors = [leaf for leaf in tree_leaves((args, out)) if isinstance(leaf, Tensor)]
            if func in _LAYER_NORMS:
                tensors = [tensor for tensor in tensors if not tensor.is_contiguous()]
            self._note(sum(tensor.numel() * tensor.element_size() for tensor in tensors))
        return out

    def _count(self, part: str, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = -(-storage.nbytes() // _BLOCK) * _BLOCK
        self._known.add(key)
        self._bytes[part] += size
        self._total += size
        finalize(storage, self._freed, key, part, size).atexit = False
        self._note()

    def _freed(self, key: int, part: str, size: int) -> None:
        self._known.discard(key)
        self._bytes[part] -= size
        self._total -= size

    def _note(self, within: int = 0) -> None:
        """Compare what is alive, and ``within`` a kernel, with the peak."""
        if self._total + within > self.stages[self._stage].total():
            self.stages[self._stage] = self._bytes + Counter({self._part: within})


def _ctc_loss(log_probs: Tensor, targets: Tensor, *others: object) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """CTC's outputs: the losses, and alpha for each frame and state; neither has a fake kernel."""
    frames, rows = log_probs.shape[:2]
    alpha = log_probs.new_empty((rows, frames, 2 * targets.size(1) + 1))
    return log_probs.new_empty(rows), alpha


_STAND_INS: Final = {
    aten._ctc_loss.Tensor: _ctc_loss,
    aten._ctc_loss_backward.Tensor: lambda _, log_probs, *__: torch.empty_like(log_probs),
}


_CONVOLUTIONS: Final = (aten.convolution.default, aten.convolution_backward.default)
"""oneDNN and cuDNN copy what they read and write into layouts of their own."""

_LAYER_NORMS: Final = (aten.native_layer_norm.default, aten.native_layer_norm_backward.default)
"""Their kernels make what they read contiguous."""


class _GpuLayerNorm(Module):
    """Autocast computes it in float32 on GPUs."""

    def __init__(self, norm: StandardLayerNorm) -> None:
        super().__init__()
        self.norm = norm

    @override
    def forward(self, seqs: Tensor) -> Tensor:
        return self.norm(seqs.float())


class _GpuDropout(Module):
    """Keeps a mask of bytes."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self._p = p

    @override
    def forward(self, seqs: Tensor) -> Tensor:
        return torch.native_dropout(seqs, self._p, self.training)[0]


class _GpuSdpa(Module):
    """The kernel that PyTorch takes for a mask of numbers, which any padding makes."""

    def __init__(self, sdpa: TorchSDPA) -> None:
        super().__init__()
        self._bias, self._dropout = sdpa.bias, sdpa.dropout_p

    @override
    def forward(
        self, q: Tensor, q_layout: Any, k: Tensor, k_layout: Any, v: Tensor, cache: Any, **_: bool
    ) -> tuple[Tensor, None]:
        bias = maybe_get_attention_bias_tensor(self._bias, q, q_layout, k_layout, cache)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if bias is not None:
            if missing := -bias.size(-1) % 8:
                # aten/src/ATen/native/transformers/attention.cpp, pad_bias: a copy for each layer.
                bias = torch.nn.functional.pad(bias, (0, missing))[..., : bias.size(-1)]
            bias = bias.expand(*q.shape[:3], k.size(2))
        attend = aten._scaled_dot_product_efficient_attention
        out = attend(q, k, v, bias, compute_log_sumexp=True, dropout_p=self._dropout)[0]
        return out.transpose(1, 2), None
