"""The result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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

    check: str
    level: Level
    found: str
    fix: str = ""


def ok(check: str, found: str) -> Finding:
    """Nothing is wrong."""
    return Finding(check, Level.OK, found)


def unknown(check: str, found: str, fix: str) -> Finding:
    """It cannot be checked from here."""
    return Finding(check, Level.UNKNOWN, found, fix)


def warning(check: str, found: str, fix: str) -> Finding:
    """The run may be slow or fail later."""
    return Finding(check, Level.WARNING, found, fix)


def error(check: str, found: str, fix: str) -> Finding:
    """The run would fail."""
    return Finding(check, Level.ERROR, found, fix)
