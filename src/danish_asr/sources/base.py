"""What a corpus gives to conversion: files, and their rows as utterances."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pyarrow as pa

from danish_asr.errors import SourceError
from danish_asr.schema import SPLIT_ALIASES, SPLITS
from danish_asr.sources.metadata import Speaker, clean, speaker

_CORPUS_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_SPLIT_NAME: Final = re.compile(r"^([a-z]+)(?=[-_.]|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file of a corpus.

    Attributes:
        name: Path below the source's root; it identifies the file in ledger and inventory.
        corpus: Name of the corpus in the built dataset.
        split: One of `danish_asr.schema.SPLITS`.
        row_groups: Rows of each part that is cheapest to read as a whole (a Parquet row group).
        fingerprint: Changes with the content: size and time of change of a local file, the hub's
            digest of a remote one.
    """

    name: str
    corpus: str
    split: str
    row_groups: tuple[int, ...]
    fingerprint: str

    @property
    def rows(self) -> int:
        """Rows in the file."""
        return sum(self.row_groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One source row as the corpus has it, before it is checked or converted.

    Attributes:
        row: Position in its file, from 0.
        id: Unique in the corpus; conversion drops duplicates.
        text: The transcript, or None.
        audio: An encoded audio file, or the path of one, or None.
        speaker: Metadata of the speaker.
        start: Seconds into ``audio`` at which the utterance begins.
        seconds: Length of the utterance; None for all of ``audio`` from ``start``.
        refused: Why the corpus itself excludes the row (its reason in the ledger), or None.
    """

    row: int
    id: str
    text: str | None
    audio: bytes | Path | None
    speaker: Speaker = field(default_factory=Speaker)
    start: float = 0.0
    seconds: float | None = None
    refused: str | None = None


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """A corpus that can be converted. It is sent to worker processes, so it must pickle.

    Attributes:
        name: What the user typed; used in messages and in the inventory.
        files: Every file with its number of rows, in an order that does not depend on the machine.
    """

    name: str
    files: tuple[SourceFile, ...]

    @abstractmethod
    def read(self, file: SourceFile, start: int, stop: int) -> Iterator[Utterance]:
        """Yield rows ``start`` to ``stop - 1`` of a file, without holding them all in memory."""

    def ids(self, file: SourceFile) -> pa.Array:
        """The id of every row of a file, as strings, in order."""
        return pa.array((row.id for row in self.read(file, 0, file.rows)), pa.string())

    def local_files(self, file: SourceFile) -> Iterator[Path]:  # noqa: ARG002
        """The local files that a file's rows are read from; conversion detects their changes."""
        yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Names of a corpus's columns; only text and audio are required."""

    text: str = "text"
    audio: str = "audio"
    id: tuple[str, ...] = ("id",)
    """Joined with ``_``; the id of a row without them is its file and position."""
    speaker_id: str = "speaker_id"
    dialect: str = "dialect"
    age: str = "age"
    gender: str = "gender"
    country_birth: str = "country_birth"
    validated: str = "validated"
    """Rows with "rejected" here are dropped."""
    start: str = ""
    """Seconds into the audio at which the utterance begins; empty for its beginning."""
    seconds: str = ""
    """Length of the utterance in seconds; empty for all of the audio."""
    requested: tuple[str, ...] = ()
    """The names that the user gave; each must be in some file."""

    def present(self, columns: Collection[str]) -> list[str]:
        """The columns to read of those that a file has."""
        names = (getattr(self, key) for key in _KEYS if key != "id")
        return [name for name in (*self.id, *names) if name in columns]

    def check(self, columns: Collection[str], path: str) -> None:
        """Raise `SourceError` if a file has no text or no audio."""
        if missing := [name for name in (self.text, self.audio) if name not in columns]:
            raise SourceError(
                f"{path}: no column {' and no column '.join(missing)}; found the columns "
                f"{', '.join(columns)}. Map yours with --column, such as --column text=sentence"
            )

    def check_requested(self, found: Collection[str]) -> None:
        """Raise `SourceError` if a column that the user named is not in any file."""
        if missing := [name for name in self.requested if name not in found]:
            raise SourceError(
                f"--column: no file has a column {' or a column '.join(missing)}; found the "
                f"columns {', '.join(found)}"
            )


_KEYS: Final = tuple(own.name for own in fields(Columns) if own.name != "requested")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What the user adds to a source that does not define it itself, as CoRal does.

    Attributes:
        corpus: Name of the corpus in the built dataset.
        columns: ``OURS=THEIRS`` assignments, such as ``text=sentence`` or ``id=recording,segment``.
        split: The split of all files; None to infer it from their names.
    """

    corpus: str | None = None
    columns: tuple[str, ...] = ()
    split: str | None = None

    def checked_corpus(self) -> str:
        """The name of the corpus; raises `SourceError` if it is missing or invalid."""
        if self.corpus is None or not _CORPUS_NAME.fullmatch(self.corpus):
            raise SourceError(
                f"--corpus {self.corpus or ''}: this kind of source needs a name for its corpus, "
                "of up to 100 letters, digits, '_', '-' and '.'"
            )
        return self.corpus

    def checked_split(self, path: PurePosixPath) -> str:
        """The split of a file, also inferred from its path; raises `SourceError` if unknown."""
        if self.split is None:
            return split_of(path)
        split = SPLIT_ALIASES.get(self.split, self.split)
        if split not in SPLITS:
            raise SourceError(f"--split {split}: expected one of {', '.join(SPLITS)}")
        return split

    def checked_columns(self, default: Columns) -> Columns:
        """The columns with the user's names; raises `SourceError` for an invalid assignment."""
        changes: dict[str, Any] = {}
        requested: list[str] = []
        for assignment in self.columns:
            ours, _, theirs = assignment.partition("=")
            if ours not in _KEYS or not theirs:
                raise SourceError(
                    f"--column {assignment}: expected OURS=THEIRS, with OURS one of "
                    f"{', '.join(_KEYS)}"
                )
            names = tuple(theirs.split(",")) if ours == "id" else (theirs,)
            changes[ours] = names if ours == "id" else theirs
            requested += names
        return replace(default, **changes, requested=tuple(requested))


def utterance(
    values: Mapping[str, Any] | None, columns: Columns, *, row: int, position: str
) -> Utterance:
    """Make an utterance of a row's values, in which ``audio`` is bytes, a path or None.

    A row that could not be read (None), or with invalid text or times, is refused.

    Args:
        values: Values by the corpus's column names.
        columns: Names of the columns.
        row: Position in the file.
        position: The id of a row that has none in the corpus.
    """
    if values is None:
        return Utterance(row=row, id=position, text=None, audio=None, refused="malformed row")
    parts = [values.get(name) for name in columns.id]
    id_ = "_".join(map(str, parts)) if parts and None not in parts else position
    try:
        text = _text(values.get(columns.text))
        start = _seconds(values.get(columns.start))
        seconds = _seconds(values.get(columns.seconds))
    except (ValueError, TypeError):
        return Utterance(row=row, id=id_, text=None, audio=None, refused="malformed row")
    rejected = (clean(values.get(columns.validated)) or "").lower() == "rejected"
    return Utterance(
        row=row,
        id=id_,
        text=text,
        audio=values.get(columns.audio),
        speaker=speaker(
            speaker_id=values.get(columns.speaker_id),
            dialect=values.get(columns.dialect),
            age=values.get(columns.age),
            gender=values.get(columns.gender),
            country_birth=values.get(columns.country_birth),
        ),
        start=start or 0.0,
        seconds=seconds,
        refused="rejected" if rejected else None,
    )


def split_of(path: PurePosixPath) -> str:
    """Our name for the split that a file belongs to, from its name or a folder above it.

    Raises:
        SourceError: Neither contains the name of a split.
    """
    for part in (path.name, *reversed(path.parent.parts)):
        match = _SPLIT_NAME.match(part)
        split = SPLIT_ALIASES.get(match[1], match[1]) if match else None
        if split in SPLITS:
            return split
    raise SourceError(
        f"{path}: cannot infer the split from the file name; expected one that begins with "
        f"{', '.join((*SPLITS, *SPLIT_ALIASES))}. Rename the file, or set the split of all files "
        "with --split"
    )


def _text(value: Any) -> str | None:
    """A transcript; a CSV or JSON file may hold it as a whole number."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError
    return str(value)


def _seconds(value: Any) -> float | None:
    """A time, or None if there is none."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    seconds = float(value)
    if not 0 <= seconds < math.inf:
        raise ValueError
    return seconds
