"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How much a finding matters to the run."""

    OK = "ok"
    WARNING = "warning"
    """The run may suffer from it."""
    ERROR = "error"
    """The run would break."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: What was looked at.
        level: How much it matters.
        found: What was found.
        mend: What to do about it; empty if all is well.
    """

    check: str
    level: Level
    found: str
    mend: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return plain data."""
        return {
            "check": self.check,
            "level": self.level.value,
            "found": self.found,
            "mend": self.mend,
        }


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check=check, level=Level.OK, found=found)


def warning(check: str, found: str, mend: str) -> Finding:
    """The run may suffer."""
    return Finding(check=check, level=Level.WARNING, found=found, mend=mend)


def error(check: str, found: str, mend: str) -> Finding:
    """The run would break."""
    return Finding(check=check, level=Level.ERROR, found=found, mend=mend)
