"""Which rows of a split are scored: a choice that every score names.

A filter tells for a row why it is left out, so that what is left out can be counted by reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from danish_asr.errors import ConfigError
from danish_asr.scoring.predictions import Prediction

Reason = Callable[[Prediction], str | None]
"""Returns why a row is left out, or None for a row that is scored."""

SHORTEST: Final = 0.5
LONGEST: Final = 10.0
"""Seconds. Bounds of CoRal's official evaluation; a row of exactly that length is left out."""


def row_filter_reason(name: str) -> Reason:
    """Return the filter of that name.

    Raises:
        ConfigError: There is no such filter.
    """
    try:
        return _FILTERS[name]
    except KeyError:
        known = ", ".join(ROW_FILTERS)
        raise ConfigError([f"row filter: expected one of {known}; found '{name}'"]) from None


def _all(_: Prediction) -> str | None:
    return None


def _coral(row: Prediction) -> str | None:
    """CoRal's official filter. A row is "rejected" where the file has ``validated`` and says so."""
    if row.duration <= SHORTEST:
        return f"{SHORTEST:g} s or shorter"
    if row.duration >= LONGEST:
        return f"{LONGEST:g} s or longer"
    if not row.reference.strip():
        return "empty reference"
    if (row.extra.get("validated") or "").lower() == "rejected":
        return "rejected by the corpus's validators"
    return None


_FILTERS: Final[Mapping[str, Reason]] = {"all": _all, "coral": _coral}

ROW_FILTERS: Final = tuple(_FILTERS)
"""Names of the row filters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsUsed:
    """Which rows of a split a score is made of.

    ``left_out`` counts the rows that the row filter removed, by reason. ``in_split`` is None where
    nothing tells how many rows the split has.
    """

    scored: int
    left_out: Mapping[str, int]
    in_split: int | None

    @property
    def in_file(self) -> int:
        """Rows scored and rows left out."""
        return self.scored + sum(self.left_out.values())

    @property
    def is_partial(self) -> bool:
        """Whether the file holds fewer rows than the split."""
        return self.in_split is not None and self.in_file < self.in_split

    def why_left_out(self) -> str:
        """Say in brackets how many rows were left out and why, or nothing where none was."""
        reasons = "; ".join(f"{count} left out: {why}" for why, count in self.left_out.items())
        return f" ({reasons})" if reasons else ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "scored": self.scored,
            "in_file": self.in_file,
            "in_split": self.in_split,
            "left_out": dict(self.left_out),
            "partial": self.is_partial,
        }

    def to_line(self) -> dict[str, Any]:
        """Return the same for one line of a table."""
        reasons = "; ".join(f"{reason}: {count}" for reason, count in self.left_out.items())
        return {
            "rows_scored": self.scored,
            "rows_in_file": self.in_file,
            "rows_in_split": self.in_split,
            "left_out": reasons,
        }
