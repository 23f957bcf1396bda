"""Which rows of a split are scored: a choice that every score names.

A filter tells for a row why it is left out, so that what is left out can be counted by reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from danish_asr.errors import ConfigError
from danish_asr.predictions import Prediction

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
    if row.extra.get("validated") == "rejected":
        return "rejected by the corpus's validators"
    return None


_FILTERS: Final[Mapping[str, Reason]] = {"all": _all, "coral": _coral}

ROW_FILTERS: Final = tuple(_FILTERS)
"""Names of the row filters."""
