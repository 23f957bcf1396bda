"""The memory of training: on a GPU by component, and on the host."""

from collections import Counter
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

import torch
from fairseq2.device import CPU
from fairseq2.gang import create_fake_gangs
from fairseq2.models import ModelFamily
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from fairseq2.recipe.config import ADAMW_OPTIMIZER
from torch import Tensor

from danish_asr.base.fairseq2_private import new_model
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.planning.activations import COPIES, ENCODER, FRONT_END, HEAD, Batch, Settings, peak
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.sections import ADAMW_OFFLOAD_OPTIMIZER
from danish_asr.recipe.data.sampler import BatchLimits
from danish_asr.recipe.train.freezing import Freezing
from danish_asr.recipe.train.optimizers import state_bytes

GIB: Final = 2**30

CUDA_BYTES: Final = GIB * 3 // 4
"""Assumed, not measured: CUDA's context and kernels, cuBLAS' and cuDNN's workspaces."""

FRAGMENTATION: Final = 0.05
"""Assumed, not measured: the share of all tensors that PyTorch's allocator loses to gaps."""

HOST_BYTES: Final = 3 * GIB
"""Assumed, not measured: Python, PyTorch, fairseq2 and CUDA's libraries in one process."""


class Model(NamedTuple):
    """A model before it is built."""

    family: ModelFamily
    config: Wav2Vec2AsrConfig

    def build(self, config: AsrConfig) -> Wav2Vec2AsrModel:
        """Build it without memory; what never learns requires no gradient."""
        gangs, dtype = create_fake_gangs(CPU), config.model.dtype
        module = new_model(self.family, self.config, gangs, dtype, meta=True)
        Freezing(config).freeze_permanently(cast(Wav2Vec2AsrModel, module))
        return cast(Wav2Vec2AsrModel, module)


def largest_batch(
    config: AsrConfig, longest: int | None = None, utterances: int | None = None
) -> Batch:
    """Return the batch that needs most memory, if the longest of so many has so many samples.

    Both are by default what the configuration allows. Batches of all lengths are filled up to
    ``max_num_elements``: with the longest utterances, or with shorter ones that fill it better.
    """
    section = config.dataset
    quadratic = section.quadratic_seconds and section.quadratic_seconds * SAMPLE_RATE
    limits = BatchLimits.of(section.asr_task_config, quadratic)
    if utterances:
        limits = replace(limits, max_rows=min(limits.max_rows or utterances, utterances))
    most, task = limits.max_samples, section.asr_task_config
    longest = longest or min(task.max_audio_len, most or task.max_audio_len)
    rows = limits.rows(longest)
    batches = [Batch(rows, longest)]
    if most is not None and not quadratic and limits.multiple_of == 1 and rows != limits.max_rows:
        batches.append(Batch(rows + 1, most // (rows + 1)))
    # In a layer of 300M a frame takes about 35,000 bytes, and 2 for each frame that it attends to.
    return max(batches, key=lambda b: b.rows * b.samples * (1 + b.samples / (350 * SAMPLE_RATE)))


def step_memory(
    config: AsrConfig, model: Model, batch: Batch, *, gpus: int = 1, on_gpu: bool = True
) -> dict[str, int]:
    """Return the bytes of each component at the peak of a training step, on one of ``gpus``.

    The peak is in the forward and backward pass of the second batch of a step, when all gradients
    exist, or in the optimizer's step.
    """
    module, trainer, freezing = model.build(config), config.trainer, Freezing(config)
    freezing.begin(max(freezing.stages), module)
    everything, optimizer = list(module.parameters()), config.optimizer.name
    learning = [p for p in everything if p.requires_grad]
    offloaded = optimizer == ADAMW_OFFLOAD_OPTIMIZER
    moments = 0 if offloaded else sum(state_bytes(optimizer, p) for p in learning)
    # FSDP shards these; of a layer that computes, and of the next one, each GPU has all.
    sharded = gpus > 1 and trainer.data_parallelism == "fsdp"
    shards, gathered = (gpus, 2 * max(map(_bytes_of, _layers(module)))) if sharded else (1, 0)
    parts = {
        "weights": _size(everything) // shards + gathered,
        "gradients": _size(learning) // shards,
        "optimizer's moments": moments // shards,
        "moving average": (trainer.ema is not None) * _size(learning) // shards,
        "DDP's buckets of gradients": (gpus > 1 and not sharded) * _size(learning),
    }
    checkpointing = trainer.activation_checkpointing
    every = checkpointing.every_nth_layer if checkpointing.mode == "layerwise" else 0
    views = 1 if config.masking.consistency_scale is None else 2
    settings = Settings(on_gpu, mixed_precision(config), every, views)
    found = _cached_peak(config, model, module, batch, settings)
    # PyTorch's foreach loop makes a tensor of every size at once; fused kernels none.
    foreach = optimizer == ADAMW_OPTIMIZER and cast(Any, config.optimizer.config).impl == "foreach"
    step = _size(learning) // shards if on_gpu and foreach else 0
    if step > found.total():
        parts["temporaries of the optimizer"] = step
    else:
        half = str(settings.amp).removeprefix("torch.")
        parts[f"copies of the weights in {half}"] = found[COPIES]
        parts["activations, front end"] = found[FRONT_END]
        parts["activations, encoder"] = found[ENCODER]
        parts["logits, softmax, CTC"] = found[HEAD]
    if on_gpu:
        parts["gaps (5 % assumed)"] = int(FRAGMENTATION * sum(parts.values()))
        parts["CUDA, cuBLAS, cuDNN (assumed)"] = CUDA_BYTES
    return {name: size for name, size in parts.items() if size}


_peaks: dict[str, Counter[str]] = {}


def _cached_peak(
    config: AsrConfig, model: Model, module: Wav2Vec2AsrModel, batch: Batch, settings: Settings
) -> Counter[str]:
    learning = [name for name, p in module.named_parameters() if p.requires_grad]
    key = repr((model.config, config.model.dtype, batch, settings, learning))
    if key not in _peaks:
        _peaks[key] = peak(module, batch, settings)
    return _peaks[key]


def mixed_precision(config: AsrConfig) -> torch.dtype | None:
    """The type in which layers compute under autocast; None: that of the weights."""
    mixed = config.trainer.mixed_precision
    return None if mixed.mode == "off" or mixed.dtype == torch.float32 else mixed.dtype


def host_memory(config: AsrConfig, module: Wav2Vec2AsrModel, batch: Batch) -> int:
    """Return the bytes of one process on the host, beside the dataset's index, which is shared.

    A step's batches are read ahead, and one by each of four cores. A checkpoint is copied to the
    host before it is written.
    """
    waiting = config.trainer.grad_accumulation.num_batches + 4
    optimizer = config.optimizer.name
    states = sum(state_bytes(optimizer, p) for p in module.parameters() if p.requires_grad)
    copies = 2 if optimizer == ADAMW_OFFLOAD_OPTIMIZER else 1
    return (
        HOST_BYTES + 4 * batch.rows * batch.samples * waiting + _bytes_of(module) + copies * states
    )


def parameters_by_part(module: Wav2Vec2AsrModel) -> dict[str, tuple[int, int]]:
    """Return how many parameters front end, encoder and head have, and how many of them learn."""
    names = {"encoder_frontend": FRONT_END, "masker": FRONT_END, "encoder": ENCODER}
    counts = {part: [0, 0] for part in (FRONT_END, ENCODER, HEAD)}
    for name, parameter in module.named_parameters():
        count = counts[names.get(name.split(".")[0], HEAD)]
        count[0] += parameter.numel()
        count[1] += parameter.numel() * parameter.requires_grad
    return {part: (every, learning) for part, (every, learning) in counts.items()}


def _layers(module: Wav2Vec2AsrModel) -> Any:
    return module.encoder.layers


def _bytes_of(module: torch.nn.Module) -> int:
    return _size(list(module.parameters()))


def _size(tensors: list[Tensor] | list[torch.nn.Parameter]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
