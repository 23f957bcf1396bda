"""The preset for a machine: files of ``configs/`` by the memory of its GPU."""

from pathlib import Path
from typing import Final

from danish_asr.planning.gpus import Card

_BY_MEMORY: Final = (
    (70.0, ("standard", "a100-80")),
    (38.0, ("standard", "a100")),
    (23.5, ("standard",)),
    (0.0, ("standard", "lean")),
)
"""GiB of the card from which on these files fit; what they need is in choose-a-preset.md."""

_WITHOUT_GPU: Final = ("demo",)


def preset_for(card: Card | None) -> tuple[list[Path], str]:
    """Return the files for a card, or for a machine without one, and why they are chosen."""
    names: tuple[str, ...] = _WITHOUT_GPU
    if card is None:
        reason = "as there is no GPU here: a tiny model from scratch, to try each step"
    else:
        gib = card.free / 2**30
        names = next(names for least, names in _BY_MEMORY if gib >= least)
        reason = f"for {card.name} with {gib:.1f} GiB"
    return [Path("configs", f"{name}.yaml") for name in names], reason
