"""Which columns (or keys) of a corpus hold what, and how a row becomes an utterance."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from danish_asr.errors import SourceError
from danish_asr.sources.base import Utterance
from danish_asr.sources.metadata import Speaker, clean, speaker


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
    asked: tuple[str, ...] = ()
    """The names among them that the user gave, so that each must be somewhere."""

    def names(self) -> tuple[str, ...]:
        """All names, the optional ones included."""
        single = (getattr(self, key) for key in _KEYS if key != "id")
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

    def check_asked(self, found: Mapping[str, Collection[str]]) -> tuple[str, ...]:
        """Check that what the user asked for is there; return what is to be told about it.

        Args:
            found: The columns of each file.

        Raises:
            SourceError: A name is in no file; all such names are told.
        """
        having = {name: [f for f, names in found.items() if name in names] for name in self.asked}
        if missing := [name for name, files in having.items() if not files]:
            known = dict.fromkeys(name for names in found.values() for name in names)
            raise SourceError(
                f"--column: no file has a column {' or a column '.join(missing)}; the columns are "
                f"{', '.join(known)}"
            )
        return tuple(
            f"column {name}: {len(found) - len(files)} of {len(found)} files lack it, such as "
            f"{next(file for file in found if file not in files)}; it is null there"
            for name, files in having.items()
            if len(files) < len(found)
        )


_KEYS: Final = tuple(field.name for field in fields(Columns) if field.name != "asked")


def parse_columns(assignments: Collection[str], default: Columns) -> Columns:
    """Apply ``OURS=THEIRS`` assignments, such as ``text=sentence`` or ``id=recording,segment``.

    Raises:
        SourceError: An assignment names no column of ours.
    """
    changes: dict[str, Any] = {}
    asked: list[str] = []
    for assignment in assignments:
        ours, _, theirs = assignment.partition("=")
        if ours not in _KEYS or not theirs:
            raise SourceError(
                f"--column {assignment}: expected OURS=THEIRS, with OURS one of {', '.join(_KEYS)}"
            )
        names = tuple(theirs.split(",")) if ours == "id" else (theirs,)
        changes[ours] = names if ours == "id" else theirs
        asked += names
    return replace(default, **changes, asked=tuple(asked))


def row_id(values: Mapping[str, Any], columns: Columns, position: str) -> str:
    """The id of a row; its position where the corpus gives it none."""
    parts = [values.get(name) for name in columns.id]
    if not parts or any(part is None for part in parts):
        return position
    return "_".join(str(part) for part in parts)


def utterance(
    values: Mapping[str, Any] | None, columns: Columns, *, row: int, position: str
) -> Utterance:
    """Make an utterance of a row's values; ``audio`` is bytes, a path or None by now.

    A row that could not be read (None), or whose text or times are none, is refused: what it means
    can only be guessed.
    """
    if values is None:
        return _malformed(row, position)
    audio = values.get(columns.audio)
    assert audio is None or isinstance(audio, bytes | Path)
    try:
        text = _text(values.get(columns.text))
        start = _seconds(values.get(columns.start))
        seconds = _seconds(values.get(columns.seconds))
    except (ValueError, TypeError, OverflowError):
        return _malformed(row, row_id(values, columns, position))
    refused = (clean(values.get(columns.validated)) or "").lower() == "rejected"
    return Utterance(
        row=row,
        id=row_id(values, columns, position),
        text=text,
        audio=audio,
        speaker=speaker(
            speaker_id=values.get(columns.speaker_id),
            dialect=values.get(columns.dialect),
            age=values.get(columns.age),
            gender=values.get(columns.gender),
            country_birth=values.get(columns.country_birth),
        ),
        start=start or 0.0,
        seconds=seconds,
        refused="rejected" if refused else None,
    )


def _malformed(row: int, name: str) -> Utterance:
    return Utterance(
        row=row, id=name, text=None, audio=None, speaker=Speaker(), refused="malformed row"
    )


def _text(value: Any) -> str | None:
    """A transcript; a whole number is one too, as it was written."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError
    return str(value)


def _seconds(value: Any) -> float | None:
    """A time that is told, or None."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    seconds = float(value)
    if isinstance(value, bool) or not 0 <= seconds < math.inf:
        raise ValueError
    return seconds
