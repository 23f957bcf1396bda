"""Which columns (or keys) of a corpus hold what, and how a row becomes an utterance."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from danish_asr.corpora.base import Utterance
from danish_asr.corpora.metadata import clean, speaker
from danish_asr.errors import SourceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Names of a corpus's columns; all but text and audio may be missing in a file."""

    text: str = "text"
    audio: str = "audio"
    id: tuple[str, ...] = ("id",)
    """Joined with ``_``; a row without them is called after its file and position."""
    speaker_id: str = "speaker_id"
    dialect: str = "dialect"
    age: str = "age"
    gender: str = "gender"
    country_birth: str = "country_birth"
    validated: str = "validated"
    """Rows that say "rejected" here are refused."""
    start: str = ""
    """Seconds into the audio at which the utterance begins; empty if all of it is meant."""
    seconds: str = ""
    """Its length in seconds; empty if all of it is meant."""

    def names(self) -> tuple[str, ...]:
        """All names, the optional ones included."""
        single = (getattr(self, field.name) for field in fields(self) if field.name != "id")
        return tuple(name for name in (*self.id, *single) if name)

    def among(self, present: Collection[str]) -> list[str]:
        """The columns to read of those that a file has."""
        return [name for name in self.names() if name in present]

    def check(self, present: Collection[str], path: str) -> None:
        """Raise `SourceError` if a file has no text or no audio."""
        if missing := [name for name in (self.text, self.audio) if name not in present]:
            raise SourceError(
                f"{path}: no column {' and no column '.join(missing)}; the columns are "
                f"{', '.join(present)}. Name yours with --column, such as --column text=sentence"
            )


_KEYS: Final = tuple(field.name for field in fields(Columns))


def parse_columns(assignments: Collection[str], default: Columns) -> Columns:
    """Apply ``OURS=THEIRS`` assignments, such as ``text=sentence`` or ``id=recording,segment``.

    Raises:
        SourceError: An assignment names no column of ours.
    """
    changes: dict[str, Any] = {}
    for assignment in assignments:
        ours, _, theirs = assignment.partition("=")
        if ours not in _KEYS or not theirs:
            raise SourceError(
                f"--column {assignment}: expected OURS=THEIRS, with OURS one of {', '.join(_KEYS)}"
            )
        changes[ours] = tuple(theirs.split(",")) if ours == "id" else theirs
    return replace(default, **changes)


def row_id(values: Mapping[str, Any], columns: Columns, position: str) -> str:
    """The id of a row; its position where the corpus gives it none."""
    parts = [values.get(name) for name in columns.id]
    if not parts or any(part is None for part in parts):
        return position
    return "_".join(str(part) for part in parts)


def utterance(values: Mapping[str, Any], columns: Columns, *, row: int, position: str) -> Utterance:
    """Make an utterance of a row's values; ``audio`` is bytes, a path or None by now."""
    audio = values.get(columns.audio)
    assert audio is None or isinstance(audio, bytes | Path)
    refused = (clean(values.get(columns.validated)) or "").lower() == "rejected"
    text = values.get(columns.text)
    return Utterance(
        row=row,
        id=row_id(values, columns, position),
        text=None if text is None else str(text),
        audio=audio,
        speaker=speaker(
            speaker_id=values.get(columns.speaker_id),
            dialect=values.get(columns.dialect),
            age=values.get(columns.age),
            gender=values.get(columns.gender),
            country_birth=values.get(columns.country_birth),
        ),
        start=_seconds(values.get(columns.start)) or 0.0,
        seconds=_seconds(values.get(columns.seconds)),
        refused="rejected" if refused else None,
    )


def _seconds(value: Any) -> float | None:
    try:
        return max(0.0, float(value))
    except (TypeError, ValueError):
        return None
