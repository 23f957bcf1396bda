"""The result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial


class Level(Enum):
    """How a finding affects the run."""

    OK = "ok"
    UNKNOWN = "unknown"
    """It cannot be checked from here."""
    WARNING = "warning"
    """It may slow the run down or break it later."""
    ERROR = "error"
    """The run would fail."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and how to fix it; ``fix`` is empty if nothing is wrong."""

    level: Level
    check: str
    found: str
    fix: str = ""


ok = partial(Finding, Level.OK)
unknown = partial(Finding, Level.UNKNOWN)
warning = partial(Finding, Level.WARNING)
error = partial(Finding, Level.ERROR)
