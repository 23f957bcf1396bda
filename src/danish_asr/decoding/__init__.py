"""Decoders: from a model's logits to text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from torch import Tensor

from danish_asr.decoding.greedy import GreedyDecoder
from danish_asr.extending import find_named

Decoder = Callable[[Tensor, Sequence[int]], list[str]]
"""Takes logits, (N, S, V), and the number of frames of each row; returns one text per row."""

GREEDY: Final = "greedy"

DECODERS: Final[dict[str, Callable[..., Decoder]]] = {GREEDY: GreedyDecoder}
"""What ``decoder.name`` may be, beside ``package.module:name``: each is called with the tokenizer,
and with the keys of ``decoder.config``."""


def find_decoder(name: str) -> Callable[..., Decoder]:
    """Return what creates the decoder ``name``; raises ConfigError if there is none."""
    return find_named(name, DECODERS, "decoder.name")
