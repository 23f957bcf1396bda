"""GPUs by name or size, and the memory that they leave to a process. It imports no torch."""

import re
from typing import Final, NamedTuple, Self

from danish_asr.base.errors import ConfigError

CARDS: Final = {
    "v100-16": 15.7,
    "v100-32": 31.7,
    "a10": 22.0,
    "a40": 44.3,
    "l40s": 44.4,
    "t4": 14.6,
    "a100-40": 39.4,
    "a100-80": 79.1,
    "h100": 79.1,
    "h200": 139.7,
    "rtx3060-12": 11.7,
    "rtx3090": 23.6,
    "rtx4090": 23.6,
}
"""GiB that PyTorch reports as a card's capacity, from published messages of it: the driver, and
error correction, keep the rest of what the card is sold with."""

NO_BFLOAT16: Final = ("v100-16", "v100-32", "t4")

_LEFT: Final = 0.97
"""GiB that remain of each GB of a card, as of those above without error correction."""


class Card(NamedTuple):
    """A GPU, and the bytes that a process can use of it."""

    name: str
    free: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a name of `CARDS`, or a size: ``12GB`` as cards are sold, ``11.6GiB`` as given.

        Raises:
            ConfigError: It is neither.
        """
        name = text.lower()
        if name in CARDS:
            return cls(name, int(CARDS[name] * 2**30))
        size = re.fullmatch(r"(\d+(?:\.\d+)?) ?(gb|gib)", name)
        if not size or not float(size[1]):
            fault = f"--gpu must be a size such as 12GB, or one of {', '.join(CARDS)}"
            raise ConfigError([f"{fault}, but is '{text}'"], where="the command line")
        share = 1.0 if size[2] == "gib" else _LEFT
        return cls(text, int(float(size[1]) * share * 2**30))


def here() -> Card | None:
    """The first GPU of this machine, if there is one."""
    import torch  # noqa: PLC0415 - slow

    if not torch.cuda.is_available():
        return None
    device = torch.cuda.get_device_properties(0)
    return Card(device.name, device.total_memory)
