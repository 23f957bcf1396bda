"""What every corpus reader gives: its files, the ids in them, and their rows as utterances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from danish_asr.sources.metadata import Speaker


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file of a corpus.

    Attributes:
        name: Path below the source's root; it names the file in ledger and manifest.
        corpus: Name of the corpus as it stands in the built dataset.
        split: One of `danish_asr.schema.SPLITS`.
        chunks: Rows of each part that is cheapest to read as a whole (a Parquet row group).
        fingerprint: Changes with the content, as far as that can be seen without reading it all;
            ``conversion.plan`` adds size and time of change of local files.
        beside: Whether audio may lie in local files of its own, which the file names.
    """

    name: str
    corpus: str
    split: str
    chunks: tuple[int, ...]
    fingerprint: str
    beside: bool = False

    @property
    def rows(self) -> int:
        """Rows in the file."""
        return sum(self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One source row as the corpus has it, before anything is judged or converted.

    Attributes:
        row: Position in its file, from 0.
        id: Unique in a corpus that is in order; conversion checks it.
        text: The transcript, or None.
        audio: An encoded audio file, or the path of one, or None.
        speaker: Who speaks.
        start: Seconds into ``audio`` at which the utterance begins.
        seconds: Length of the utterance; None for all of ``audio`` from ``start``.
        refused: Why the corpus itself takes the row back (its reason in the ledger), or None.
    """

    row: int
    id: str
    text: str | None
    audio: bytes | Path | None
    speaker: Speaker
    start: float = 0.0
    seconds: float | None = None
    refused: str | None = None


class Source(Protocol):
    """A corpus that can be converted. It is sent to worker processes, so it must pickle."""

    @property
    def name(self) -> str:
        """What the user asked for, as it is told in messages and in the manifest."""

    @property
    def files(self) -> Sequence[SourceFile]:
        """Every file, in an order that does not depend on the machine."""

    @property
    def notes(self) -> Sequence[str]:
        """What the user should know about the files, a line each."""

    def ids(self, file: SourceFile) -> pa.Array:
        """The id of every row of a file, as strings, in order."""

    def read(self, file: SourceFile, start: int, stop: int) -> Iterator[Utterance]:
        """Yield rows ``start`` to ``stop - 1`` of a file, without holding them all in memory."""

    def path(self, file: SourceFile) -> Path | None:
        """Where a file lies on this machine; None if it lies elsewhere and cannot change."""

    def audio_files(self, file: SourceFile, start: int, stop: int) -> Iterator[Path]:
        """The local files that audio of these rows may be read from; cheap where none are."""
