"""GPUs by name or size: their memory and speed, and the preset for each. No torch."""

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple, Self

from danish_asr.base.errors import ConfigError


class _Sold(NamedTuple):
    gib: float
    tflops: float
    gb_per_second: int


CARDS: Final = {
    "v100-16": _Sold(15.7, 125, 900),
    "v100-32": _Sold(31.7, 125, 900),
    "t4": _Sold(14.6, 65, 320),
    "l4": _Sold(22.0, 121, 300),
    "a10": _Sold(22.0, 125, 600),
    "a40": _Sold(44.3, 150, 696),
    "l40s": _Sold(44.4, 362, 864),
    "a100-40": _Sold(39.4, 312, 1_555),
    "a100-80": _Sold(79.1, 312, 2_039),
    "h100": _Sold(79.1, 989, 3_350),
    "h200": _Sold(139.7, 989, 4_800),
    "b200": _Sold(178.3, 2_250, 8_000),
    "rtx3060-12": _Sold(11.7, 25, 360),
    "rtx3060ti": _Sold(7.7, 32, 448),
    "rtx3090": _Sold(23.6, 71, 936),
    "rtx4070": _Sold(11.6, 58, 504),
    "rtx4090": _Sold(23.6, 165, 1_008),
    "rtx5080": _Sold(15.5, 113, 960),
    "rtx5090": _Sold(31.3, 210, 1_792),
}
"""GiB that PyTorch reports as a card's capacity, from published messages of it: the driver, and
error correction, keep the rest of what the card is sold with. The peak of matrix products in 16
bits without sparsity (TFLOPS), and of memory (GB/s), are the makers' numbers."""

_NO_BFLOAT16: Final = ("v100-16", "v100-32", "t4")

_BFLOAT16_FROM: Final = 8
"""Compute capability (Ampere)."""

_REFERENCE: Final = CARDS["a100-40"]

_LEFT: Final = 0.97
"""GiB that remain of each GB of a card, as of those above without error correction."""


class Card(NamedTuple):
    """A GPU, and the bytes that a process can use of it.

    ``speed`` has its two peaks as multiples of an A100's with 40 GB, the smaller first; None if
    they are not known. What a training step gains lies between them.
    """

    name: str
    free: int
    speed: tuple[float, float] | None = None
    bfloat16: bool = True

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a name of `CARDS`, or a size: ``12GB`` as cards are sold, ``11.6GiB`` as given.

        Raises:
            ConfigError: It is neither.
        """
        name = text.lower()
        if sold := CARDS.get(name):
            return cls(name, int(sold.gib * 2**30), _speed(sold), name not in _NO_BFLOAT16)
        size = re.fullmatch(r"(\d+(?:\.\d+)?) ?(gb|gib)", name)
        if not size or not float(size[1]):
            fault = f"--gpu must be a size such as 12GB, or one of {', '.join(CARDS)}"
            alike = [card for card in CARDS if name in card] or get_close_matches(name, CARDS)
            hint = f"; did you mean {' or '.join(alike)}?" if alike and name else ""
            raise ConfigError([f"{fault}, but is '{text}'{hint}"], where="the command line")
        share = 1.0 if size[2] == "gib" else _LEFT
        return cls(text, int(float(size[1]) * share * 2**30))

    @classmethod
    def of_device(cls, device: str, free: int, *, bfloat16: bool = True) -> Self:
        """A GPU by the name of its driver, such as ``NVIDIA A100-SXM4-40GB``."""
        words = re.split(r"[ -]", re.sub(r"(?<=rtx) |(?<=\d) (?=ti)", "", device.lower()))
        alike = [sold for name, sold in CARDS.items() if name.split("-")[0] in words]
        nearest = min(alike, key=lambda sold: abs(sold.gib * 2**30 - free), default=None)
        return cls(device, free, nearest and _speed(nearest), bfloat16)


def _speed(sold: _Sold) -> tuple[float, float]:
    compute = sold.tflops / _REFERENCE.tflops
    memory = sold.gb_per_second / _REFERENCE.gb_per_second
    return min(compute, memory), max(compute, memory)


def here() -> Card | None:
    """The first GPU of this machine, if there is one, with all of its memory."""
    import torch  # noqa: PLC0415 - slow

    if not torch.cuda.is_available():
        return None
    device = torch.cuda.get_device_properties(0)
    bfloat16 = device.major >= _BFLOAT16_FROM
    return Card.of_device(device.name, device.total_memory, bfloat16=bfloat16)


_PRESETS: Final = (
    (70.0, ("standard", "a100-80")),
    (38.0, ("standard", "a100")),
    (23.5, ("standard",)),
    (0.0, ("standard", "lean")),
)
"""GiB of the card from which on these files of ``configs/`` fit it."""


def preset_for(card: Card | None) -> tuple[list[Path], str]:
    """Return the files for a card, or for a machine without one, and why they are chosen."""
    names: tuple[str, ...] = ("demo",)
    reason = (
        "as there is no GPU here: a tiny model from scratch, to try each step; with model.path add "
        "optimizer.config.lr=1e-4"
    )
    if card is not None:
        gib = card.free / 2**30
        names = next(names for least, names in _PRESETS if gib >= least)
        reason = f"for {card.name} with {gib:.1f} GiB"
    return [Path("configs", f"{name}.yaml") for name in names], reason
