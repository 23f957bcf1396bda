"""The memory of training, on a GPU by component and on the host, and changes that reduce it."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple, cast

import torch
from fairseq2.device import CPU
from fairseq2.gang import create_fake_gangs
from fairseq2.models import ModelFamily
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from torch import Tensor

from danish_asr.base.config_tree import Tree
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.planning.activations import COPIES, ENCODER, FRONT_END, HEAD, Batch, Settings, peak
from danish_asr.recipe.config.schema import (
    ADAMW_8BIT,
    ADAMW_OFFLOAD,
    FULL,
    OPTIMIZERS,
    AsrConfig,
)
from danish_asr.recipe.data.sampler import ATTENTION, BatchLimits
from danish_asr.recipe.train.learning import Freezing, keep_layers

GIB: Final = 2**30

CUDA_BYTES: Final = GIB * 3 // 4
"""Assumed, not measured: CUDA's context and kernels, cuBLAS' and cuDNN's workspaces."""

FRAGMENTATION: Final = 0.12
"""The share of all tensors that PyTorch's allocator loses to gaps, from the one published row: 1B
on an A100 of 40 GB with 2 x 60 s in a batch, where 96 % of the card were reserved."""

HOST_BYTES: Final = 3 * GIB
"""Assumed, not measured: Python, PyTorch, fairseq2 and CUDA's libraries in one process."""

_ENOUGH: Final = 60 * SAMPLE_RATE
"""Samples; with less in a batch, checkpointing of activations costs less speed than halving it."""


class Model(NamedTuple):
    """A model before it is built."""

    family: ModelFamily
    config: Wav2Vec2AsrConfig

    def build(self, config: AsrConfig) -> Wav2Vec2AsrModel:
        """Build it without memory; what never learns requires no gradient."""
        gangs, dtype = create_fake_gangs(CPU), torch.float32
        new_model = self.family.create_new_model
        module = cast(Wav2Vec2AsrModel, new_model(self.config, gangs, dtype, meta=True))
        keep_layers(module, config.model.keep_layers)
        Freezing(config).freeze_permanently(module)
        return module


def largest_batch(
    config: AsrConfig, longest: int | None = None, utterances: int | None = None
) -> Batch:
    """Return the batch that needs most memory, if the longest of so many has so many samples.

    Both are by default what the configuration allows. Batches of all lengths are filled up to
    ``max_num_elements``: with the longest utterances, or with shorter ones that fill it better.
    """
    limits = BatchLimits.of(config.dataset)
    longest = longest or min(config.dataset.asr_task_config.max_audio_len, limits.max_samples)
    rows = min(limits.rows(longest), utterances or limits.max_samples)
    batches = [Batch(rows, longest)]
    if not limits.quadratic and limits.multiple_of == 1 and rows != utterances:
        batches.append(Batch(rows + 1, limits.max_samples // (rows + 1)))
    return max(batches, key=lambda b: b.rows * b.samples * (1 + b.samples / ATTENTION))


def step_memory(
    config: AsrConfig, model: Model, batch: Batch, *, gpus: int = 1, on_gpu: bool = True
) -> dict[str, int]:
    """Return the bytes of each component at the peak of a training step, on one of ``gpus``.

    The peak is in the forward and backward pass of the second batch of a step, when all gradients
    exist, or in the optimizer's step; parts that are not allocated then are omitted.
    """
    module, trainer, freezing = model.build(config), config.trainer, Freezing(config)
    freezing.begin(max(freezing.stages), module)
    learning = [p for p in module.parameters() if p.requires_grad]
    weights, gradients = _size(module.parameters()), _size(learning)
    optimizer = OPTIMIZERS[config.optimizer.name]
    moments = 0 if optimizer.on_host else sum(optimizer.state_bytes(p.shape) for p in learning)
    # FSDP shards these; of a layer that computes, and of the next one, each GPU has all.
    shards, gathered = 1, 0
    sharded = gpus > 1 and trainer.data_parallelism == "fsdp"
    if sharded:
        layers = cast(Any, module.encoder.layers)
        shards, gathered = gpus, 2 * max(_size(layer.parameters()) for layer in layers)
    parts = {
        "weights": weights // shards + gathered,
        "gradients": gradients // shards,
        "optimizer's moments": moments // shards,
        "DDP's buckets of gradients": gradients if gpus > 1 and not sharded else 0,
    }
    checkpointing = trainer.activation_checkpointing
    every = checkpointing.every_nth_layer if checkpointing.mode == "layerwise" else 0
    settings = Settings(on_gpu, mixed_precision(config), every)
    activations = _cached_peak(model, module, batch, settings)
    half = str(settings.amp).removeprefix("torch.")
    parts[f"copies of the weights in {half}"] = activations[COPIES]
    parts["activations, front end"] = activations[FRONT_END]
    parts["activations, encoder"] = activations[ENCODER]
    parts["logits, softmax, CTC"] = activations[HEAD]
    if on_gpu:
        parts["gaps (12 % assumed)"] = int(FRAGMENTATION * sum(parts.values()))
        parts["CUDA, cuBLAS, cuDNN (assumed)"] = CUDA_BYTES
    return {name: size for name, size in parts.items() if size}


_peaks: dict[str, Counter[str]] = {}


def _cached_peak(
    model: Model, module: Wav2Vec2AsrModel, batch: Batch, settings: Settings
) -> Counter[str]:
    """Return the `peak` of a batch; the search for a plan that fits asks for it again and again."""
    learning = [name for name, p in module.named_parameters() if p.requires_grad]
    key = repr((model.config, batch, settings, learning))
    if key not in _peaks:
        _peaks[key] = peak(module, batch, settings)
    return _peaks[key]


def mixed_precision(config: AsrConfig) -> torch.dtype | None:
    """The type in which layers compute under autocast; None: that of the weights."""
    mixed = config.trainer.mixed_precision
    if mixed.mode == "off" or mixed.dtype == "float32":
        return None
    return cast(torch.dtype, getattr(torch, mixed.dtype))


def host_memory(config: AsrConfig, module: Wav2Vec2AsrModel, batch: Batch) -> int:
    """Return the bytes of one process on the host, beside the dataset's index, which is shared.

    A step's batches are read ahead, and one by each of four cores. A checkpoint is copied to the
    host before it is written.
    """
    waiting = config.trainer.grad_accumulation.num_batches + 4
    audio = 4 * batch.rows * batch.samples * waiting
    optimizer = OPTIMIZERS[config.optimizer.name]
    state = sum(optimizer.state_bytes(p.shape) for p in module.parameters() if p.requires_grad)
    states = 2 * state if optimizer.on_host else state
    return HOST_BYTES + audio + _size(module.parameters()) + states


def parameters_by_part(module: Wav2Vec2AsrModel) -> dict[str, tuple[int, int]]:
    """Return how many parameters front end, encoder and head have, and how many of them learn."""
    names = {"encoder_frontend": FRONT_END, "masker": FRONT_END, "encoder": ENCODER}
    total, learning = Counter[str](), Counter[str]()
    for name, parameter in module.named_parameters():
        part = names.get(name.split(".")[0], HEAD)
        total[part] += parameter.numel()
        learning[part] += parameter.numel() * parameter.requires_grad
    return {part: (total[part], learning[part]) for part in (FRONT_END, ENCODER, HEAD)}


def _size(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class Remedy(NamedTuple):
    """A key, what it costs, and the change; None if it does not help, or not again.

    The change takes the configuration and the number of encoder layers.
    """

    key: str
    cost: str
    change: Callable[[AsrConfig, int], Tree | None]


def _danish_head(config: AsrConfig, _: int) -> Tree | None:
    trained = config.model.name or config.model.path
    return {"model": {"head": "danish"}} if trained and config.model.head == FULL else None


def _optimizer(config: AsrConfig, _: int, *, name: str, replaces: tuple[str, ...]) -> Tree | None:
    return {"optimizer": {"name": name}} if config.optimizer.name in replaces else None


def _smaller_batches(config: AsrConfig, _: int, *, least: int) -> Tree | None:
    task, trainer = config.dataset.asr_task_config, config.trainer
    half = task.max_num_elements // 2
    if half < max(task.max_audio_len, least):
        return None
    tree: Tree = {"dataset": {"asr_task_config": {"max_num_elements": half}}}
    if trainer.effective_audio_minutes is None:
        batches = 2 * trainer.grad_accumulation.num_batches
        tree["trainer"] = {"grad_accumulation": {"num_batches": batches}}
    return tree


def _checkpointing(config: AsrConfig, _: int) -> Tree | None:
    section = config.trainer.activation_checkpointing
    if section.mode == "layerwise" and section.every_nth_layer == 1:
        return None
    return {"trainer": {"activation_checkpointing": {"mode": "layerwise", "every_nth_layer": 1}}}


def _freezing(config: AsrConfig, layers: int) -> Tree | None:
    for number in (layers // 2, layers - 8):
        if number > config.trainer.freeze_encoder_layers:
            return {"trainer": {"freeze_encoder_layers": number}}
    return None


_BATCHES: Final = "dataset.asr_task_config.max_num_elements"
_enough = partial(_smaller_batches, least=_ENOUGH)
_smallest = partial(_smaller_batches, least=0)
_8bit = partial(_optimizer, name=ADAMW_8BIT, replaces=("adamw",))
_offload = partial(_optimizer, name=ADAMW_OFFLOAD, replaces=("adamw", ADAMW_8BIT))
_LAYERWISE: Final = "trainer.activation_checkpointing.mode=layerwise"

REMEDIES: Final = (
    Remedy("model.head=danish", "none: fewer symbols, and faster", _danish_head),
    Remedy("optimizer.name=adamw_8bit", "little: rounded moments", _8bit),
    Remedy(_BATCHES, "little: more and smaller batches in a step", _enough),
    Remedy(_LAYERWISE, "a third more time: activations are computed twice", _checkpointing),
    Remedy(_BATCHES, "time: batches of less than a minute", _smallest),
    Remedy("optimizer.name=adamw_offload", "time: the host computes its step", _offload),
    Remedy("trainer.freeze_encoder_layers", "accuracy: these layers do not learn", _freezing),
)
"""The changes that make a run fit a GPU, those first that cost least speed and quality.

The message of a run whose GPU is too small names their keys in the same order."""
