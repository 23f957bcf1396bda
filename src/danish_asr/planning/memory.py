"""The memory of a training step on one GPU, by a formula.

In: a configuration, the shape of its model and its largest batch. Out: bytes by component at the
peak. The terms are those of Korthikanti et al. 2022 (arXiv 2205.05198, section 4: 34 bytes for each
number that a layer passes on, with dropout). The constants were fitted to traces of this model's
own code (docs/background/measurements.md has how far they are off). No GPU was measured.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast

import torch
from fairseq2.device import CPU
from fairseq2.gang import create_fake_gangs
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from torch.nn import Module, Parameter

from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.config.training_sections import OPTIMIZERS
from danish_asr.recipe.data.reader import EpochSize
from danish_asr.recipe.data.sampler import ATTENTION, BatchLimits
from danish_asr.recipe.models.cards import ModelDescription
from danish_asr.recipe.train.learning import Freezing, keep_layers

CUDA_BYTES: Final = 2**30 * 3 // 4
"""Assumed, not measured: CUDA's context and kernels, cuBLAS' and cuDNN's workspaces."""

GAPS: Final = 0.12
"""The share of all tensors that PyTorch's allocator loses to gaps, from the one published row: 1B
on an A100 of 40 GB with 2 x 60 s in a batch, where 96 % of the card were reserved."""


class Batch(NamedTuple):
    """``rows`` utterances, each padded to ``samples``."""

    rows: int
    samples: int


def build(model: ModelDescription, config: AsrConfig) -> Wav2Vec2AsrModel:
    """Build a model without memory; what never learns requires no gradient."""
    gangs, new_model = create_fake_gangs(CPU), model.family.create_new_model
    module = cast(Wav2Vec2AsrModel, new_model(model.config, gangs, torch.float32, meta=True))
    keep_layers(module, config.model.keep_layers)
    Freezing(config).freeze_permanently(module)
    return module


def largest_batch(config: AsrConfig, epoch: EpochSize | None) -> Batch:
    """Return the batch of an epoch that needs most memory; None: of what the configuration allows.

    Batches of all lengths are filled up to ``max_num_elements``: with the longest utterances, or
    with shorter ones that fill it better.
    """
    limits = BatchLimits.of(config.dataset)
    longest = min(config.dataset.asr_task_config.max_audio_len, limits.max_samples)
    utterances = limits.max_samples
    if epoch is not None:
        longest, utterances = epoch.longest, epoch.rows
    rows = min(limits.rows(longest), utterances)
    batches = [Batch(rows, longest)]
    if not limits.quadratic and limits.multiple_of == 1 and rows != utterances:
        batches.append(Batch(rows + 1, limits.max_samples // (rows + 1)))
    return max(batches, key=lambda b: b.rows * b.samples * (1 + b.samples / ATTENTION))


def step_memory(
    config: AsrConfig, model: ModelDescription, batch: Batch, *, gpus: int = 1
) -> dict[str, int]:
    """Return the bytes of each component at the peak of a training step, on one of ``gpus``.

    The peak is in the forward and backward pass of the second batch of a step, when all gradients
    exist; what learns is that of the last stage of ``trainer.unfreeze``.
    """
    module, trainer, freezing = build(model, config), config.trainer, Freezing(config)
    freezing.begin(max(freezing.stages), module)
    learning = [p for p in module.parameters() if p.requires_grad]
    weights, gradients = _bytes(module.parameters()), _bytes(learning)
    optimizer = OPTIMIZERS[config.optimizer.name]
    moments = 0 if optimizer.on_host else sum(optimizer.state_bytes(p.shape) for p in learning)
    # FSDP shards these; of a layer that computes, and of the next one, each GPU has all.
    shards, gathered = 1, 0
    sharded = gpus > 1 and trainer.data_parallelism == "fsdp"
    if sharded:
        layers = cast(Any, module.encoder.layers)
        shards, gathered = gpus, 2 * max(_bytes(layer.parameters()) for layer in layers)
    parts: dict[str, float] = {
        "weights": weights // shards + gathered,
        "gradients": gradients // shards,
        "optimizer's moments": moments // shards,
        "DDP's buckets of gradients": gradients if gpus > 1 and not sharded else 0,
    }
    parts |= _activations(config, model.config, module, batch)
    parts["gaps (12 % assumed)"] = GAPS * sum(parts.values())
    parts["CUDA, cuBLAS, cuDNN (assumed)"] = CUDA_BYTES
    return {name: int(size) for name, size in parts.items() if size}


def _activations(
    config: AsrConfig, shape: Wav2Vec2AsrConfig, module: Wav2Vec2AsrModel, batch: Batch
) -> dict[str, float]:
    """Return the bytes beside weights, gradients and moments, where most are alive.

    That is where the encoder's backward pass begins, or in the convolutions. The factors were
    fitted; n are the bytes of a number.
    """
    half = half_precision(config)
    n = 2 if half else 4
    width = shape.encoder_config.model_dim
    samples = batch.rows * batch.samples
    frames = batch.samples // 320
    numbers = batch.rows * frames * width  # that a layer passes on
    # An utterance alone has no padding, so that attention needs no mask of frames times frames.
    mask = n * batch.rows * frames**2 if batch.rows > 1 else 0
    # What a layer keeps for its backward pass, and what that needs beside it.
    layer = (20.1 + 12.05 * n) * numbers + mask
    kept, backward = layer, 10.0 * n * numbers
    checkpointing = config.trainer.activation_checkpointing
    if checkpointing.mode == "layerwise":
        kept = n * numbers / checkpointing.every_nth_layer
        backward += checkpointing.every_nth_layer * layer
    layers = sum(count_learning(part) > 0 for part in cast(Any, module.encoder.layers))
    # A logit, its log-probability and its gradient in float32.
    logits = batch.rows * frames * (12 * shape.target_vocab_size + 2 * width)
    # Projection and positions, whose convolution has 8 width² weights.
    front_end: float = 10 * numbers + 6 * 8 * width**2
    convolutions = 1447 * samples  # the peak of their forward pass
    if count_learning(cast(Module, module.encoder_frontend.feature_extractor)):
        front_end += (843 + 416 * n) * samples  # what is kept of it
        convolutions = (2068 + 206 * n) * samples  # the peak of their backward pass
    parts = {
        "activations, front end": front_end,
        "activations, encoder": layers * kept,
        "a layer's backward pass, or logits and CTC": max(layers and backward, logits),
    }
    if half:
        copied = count_learning(module) - count_learning(module.encoder_frontend)
        parts[f"copies of the weights in {half}"] = 2 * copied
    if convolutions > sum(parts.values()):
        return {"activations, convolutions": convolutions}
    return parts


def count_learning(module: Module) -> int:
    """Return how many parameters learn."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def half_precision(config: AsrConfig) -> str | None:
    """The type in which layers compute under autocast; None: that of the weights."""
    mixed = config.trainer.mixed_precision
    return None if mixed.mode == "off" or mixed.dtype == "float32" else str(mixed.dtype)


def _bytes(parameters: Iterable[Parameter]) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in parameters)
