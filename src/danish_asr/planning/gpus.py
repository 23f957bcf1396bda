"""GPUs by name or size: their memory and speed, and the preset for each. No torch."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from danish_asr.base.errors import ConfigError


class Card(NamedTuple):
    """A GPU; its speeds are 0 if they are not known."""

    name: str
    gib: float  # that a process can use
    tflops: float = 0  # peak of matrix products in 16 bits without sparsity
    bandwidth: int = 0  # of its memory, GB/s
    bfloat16: bool = True


CARDS: Final = {
    card.name: card
    for card in (
        Card("v100-32", 31.7, 125, 900, bfloat16=False),
        Card("t4", 14.6, 65, 320, bfloat16=False),
        Card("l4", 22.0, 121, 300),
        Card("a10", 22.0, 125, 600),
        Card("a40", 44.3, 150, 696),
        Card("l40s", 44.4, 362, 864),
        Card("a100-40", 39.4, 312, 1_555),
        Card("a100-80", 79.1, 312, 2_039),
        Card("h100", 79.1, 989, 3_350),
        Card("h200", 139.7, 989, 4_800),
        Card("b200", 178.3, 2_250, 8_000),
        Card("rtx3060-12", 11.7, 25, 360),
        Card("rtx3060ti", 7.7, 32, 448),
        Card("rtx3090", 23.6, 71, 936),
        Card("rtx4070", 11.7, 58, 504),
        Card("rtx4090", 23.6, 165, 1_008),
        Card("rtx5090", 31.3, 210, 1_792),
    )
}
"""GiB that PyTorch reports as a card's capacity, from published messages of it: the driver, and
error correction, keep the rest of what the card is sold with. Peaks are the makers' numbers."""


def card_of(text: str) -> Card:
    """Return a card of `CARDS` by its name, or of a size such as ``12GB``; else ConfigError."""
    if card := CARDS.get(text.lower()):
        return card
    size = re.fullmatch(r"(\d+(?:\.\d+)?) ?gb", text.lower())
    if size is None:
        fault = f"--gpu must be a size such as 12GB, or one of {', '.join(CARDS)}"
        raise ConfigError([f"{fault}, but is '{text}'"], where="the command line")
    return Card(text, float(size[1]) * 0.97)  # GiB of a GB, as of those without error correction


def here() -> Card | None:
    """Return the first GPU of this machine, if there is one, with all of its memory."""
    import torch  # noqa: PLC0415 - slow

    if not torch.cuda.is_available():
        return None
    device = torch.cuda.get_device_properties(0)
    bfloat16 = device.major >= 8  # Ampere
    return Card(device.name, device.total_memory / 2**30, bfloat16=bfloat16)


_STANDARD_GIB: Final = 23.1
_LEAN_GIB: Final = 9.9
"""What the presets need, as `plan` says (docs/howto/presets.md), and a tenth."""


def preset_for(card: Card | None) -> tuple[list[Path], str]:
    """Return the files for a card, or for a machine without one, and why they are chosen.

    Where even the smallest preset does not fit, the reason says what does.
    """
    if card is None:
        return [Path("configs/demo.yaml")], "no GPU is here: a tiny model, to try each step"
    names = ["standard"]
    if card.gib >= 70:
        names.append("a100-80")
    elif card.gib >= 38:
        names.append("a100")
    elif card.gib < _STANDARD_GIB:
        names.append("lean")
    if not card.bfloat16:
        names.append("float16")
    reason = f"for {card.name} with {card.gib:.1f} GiB"
    if card.gib < _LEAN_GIB:
        halved = "dataset.asr_task_config.max_num_elements=1_920_000"
        reason += f", which it exceeds ({_LEAN_GIB} GiB): add {halved}, batches half as large"
    return [Path("configs", f"{name}.yaml") for name in names], reason
