"""The rows of `benchmarks/gpu.py`: a model, a batch and a configuration each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from fairseq2.device import Device
from fairseq2.models import ModelFamily
from fairseq2.models.wav2vec2.asr import WAV2VEC2_ASR_FAMILY, Wav2Vec2AsrConfig
from fairseq2.runtime.config_registry import get_config

from danish_asr.base.fairseq2_private import library_container
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.planning.memory import Batch, Model, step_memory
from danish_asr.recipe.config.schema import AsrConfig, OptimizerSection
from danish_asr.recipe.data.targets import FrameCount
from danish_asr.recipe.extension import tiny
from danish_asr.recipe.train.learning import use_fused

DANISH: Final = 80
"""Symbols that ``model.head: danish`` keeps of a Danish text, about."""

CHARACTERS: Final = 14
"""Characters in a second of speech, about."""


@dataclass(frozen=True)
class Row:
    """What a row of the table trains, and how."""

    name: str
    optimizer: str = "adamw"
    checkpointing: bool = False
    danish_head: bool = False
    padding: bool = True
    upstream: bool = False
    key_mask: bool = False
    compiled: bool = False


@dataclass(frozen=True)
class Settings:
    """What all rows share; the batch has ``batch_seconds`` of audio, padding included."""

    arch: str
    device: Device
    batch_seconds: float
    longest_seconds: float
    batches: int
    warm_up: int
    steps: int
    amp: bool
    profile: int
    upstream: Path | None


def model_config(arch: str, row: Row) -> Wav2Vec2AsrConfig:
    """The configuration of the row's model."""
    if arch == "tiny":
        config, vocabulary = tiny(), 1_000
    else:
        config = get_config(library_container(), Wav2Vec2AsrConfig, arch)
        vocabulary = config.target_vocab_size
    config.encoder_config = replace(config.encoder_config, layer_drop_p=0.0)
    return replace(config, target_vocab_size=DANISH if row.danish_head else vocabulary)


def frames_of(config: Wav2Vec2AsrConfig) -> FrameCount:
    """Frames that the model makes of a number of samples."""
    layers = config.encoder_config.feature_extractor_layer_descs
    return FrameCount([(kernel, stride) for _, kernel, stride in layers])


def lengths_of(settings: Settings, row: Row) -> list[int]:
    """Samples of each utterance: all as long as the longest, or from 0.8 to 1 of it."""
    longest = round(settings.longest_seconds * SAMPLE_RATE)
    count = max(round(settings.batch_seconds / settings.longest_seconds), 1)
    least = 0.8 if row.padding else 1.0
    return [round(longest * (1 - (1 - least) * n / max(count - 1, 1))) for n in range(count)]


def make_batch(
    lengths: Sequence[int], vocabulary: int, device: Device, dtype: torch.dtype
) -> tuple[Any, ...]:
    """The arguments of a batch on the host, pinned for a GPU, as the recipe's reader makes it."""
    torch.manual_seed(1)
    waveforms = torch.randn(len(lengths), max(lengths))
    for row, length in enumerate(lengths):
        waveforms[row, length:] = 0
    sizes = [max(round(length / SAMPLE_RATE * CHARACTERS), 1) for length in lengths]
    targets = torch.randint(4, vocabulary, (len(lengths), max(sizes)))
    tensors = [waveforms.to(dtype), targets]
    if device.type == "cuda":
        tensors = [tensor.pin_memory() for tensor in tensors]
    return tensors[0], list(lengths), tensors[1], sizes


def recipe_config(settings: Settings, row: Row) -> AsrConfig:
    """What of a run's configuration differs from the defaults."""
    config = AsrConfig()
    config.model = replace(config.model, name="omniASR_CTC_300M")  # so that it is pretrained
    config.optimizer = OptimizerSection(name=row.optimizer)  # type: ignore[arg-type]
    section = config.trainer
    section.mixed_precision.mode = "auto" if settings.amp else "off"
    section.activation_checkpointing.mode = "layerwise" if row.checkpointing else "off"
    use_fused(config.optimizer.config, torch.device("cuda"))
    return config


def planned_memory(
    settings: Settings, row: Row, config: Wav2Vec2AsrConfig
) -> dict[str, int] | None:
    """The bytes of each component that `danish-asr plan` calculates; None for upstream's step."""
    if row.upstream:
        return None
    family = library_container().resolve(ModelFamily, key=WAV2VEC2_ASR_FAMILY)
    lengths = lengths_of(settings, row)
    batch = Batch(len(lengths), max(lengths))
    return step_memory(recipe_config(settings, row), Model(family, config), batch)
