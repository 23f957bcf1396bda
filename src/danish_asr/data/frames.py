"""How many frames a wav2vec2 feature extractor makes of a waveform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

FrameCount = Callable[[int], int]
"""Samples of an utterance to frames of an utterance."""

WAV2VEC2_LAYERS: Final = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))
"""(kernel, stride) of each convolution: 320 samples a frame, 400 for the first one."""


def frame_count(layers: Sequence[tuple[int, int]] = WAV2VEC2_LAYERS) -> FrameCount:
    """The count for unpadded convolutions with these (kernel, stride) pairs.

    Formula: ``floor((n - kernel) / stride) + 1`` per layer, and never below 0.
    """

    def count(samples: int) -> int:
        for kernel, stride in layers:
            samples = max((samples - kernel) // stride + 1, 0)
        return samples

    return count


def shortest_input(count: FrameCount) -> int:
    """The fewest samples that give one frame."""
    low, high = 0, 1
    while count(high) < 1:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if count(middle) >= 1 else (middle, high)
    return high
