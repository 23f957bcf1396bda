"""Convert one unit of work: source rows in, one shard and its record out.

The record is the marker that the shard is finished: it is written last, and it holds what the
ledger, the statistics and the manifest need, so that no finished shard is ever read again. It also
holds the state of every local file that the shard was made from. Where that has changed when the
work is continued, the rows are converted once more and compared: a source that was copied or
touched is still the same source, and one that was changed is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Final

from danish_asr.audio import AudioError, to_flac
from danish_asr.conversion.shard_writer import ShardWriter
from danish_asr.conversion.work_units import ConvertOptions, Piece, Unit
from danish_asr.errors import SourceError
from danish_asr.files import publish, publish_text
from danish_asr.sources.base import Source, Utterance
from danish_asr.sources.metadata import DIALECTS
from danish_asr.sources.stamps import Stamp, check_stamp, stamp

WORK_DIR: Final = ".convert"
"""Holds the plan and the records of an unfinished conversion, below the dataset's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """One source row that was not written, as it stands in the ledger."""

    source: str
    row: int
    id: str
    dialect: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What converting one unit gave.

    Attributes:
        unit: Number of the unit in the plan.
        rows: Rows written.
        samples: Samples written, over all rows.
        size: Bytes of the shard.
        sha256: Digest of the shard; empty where no row was left to write, and so no shard.
        dropped: The rows that were not written.
        unmapped: How often each dialect name was met that no dialect is known for.
        characters: Those of the written texts, as they are and as profile ``coral`` has them. A
            tokenizer is made from those of the training split.
        source: Digest of the states of the local files that the unit was made from. It never
            enters the dataset.
    """

    unit: int
    rows: int
    samples: int
    size: int
    sha256: str
    dropped: tuple[Dropped, ...]
    unmapped: dict[str, int]
    characters: str
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What every worker needs to convert units."""

    source: Source
    root: Path
    options: ConvertOptions

    def convert(self, unit: Unit) -> Record:
        """Convert one unit and publish its shard, then its record; leave alone what is finished.

        Raises:
            SourceError: A source file cannot be read, or changed since the plan was made or the
                shard was written.
            DanishAsrError: The output cannot be written: the disk is full, say.
        """
        stamps = self._stamps(unit)
        known = finished(self.root, unit)
        if known is not None and known.source == _digest(stamps):
            return known
        record = self._write(unit) if known is None else self.try_out(unit)
        # Rows of a file that changed meanwhile must not pass for those of the plan.
        for path, expected in stamps.items():
            check_stamp(path, expected)
        record = replace(record, source=_digest(stamps))
        if known is not None and replace(known, source=record.source) != record:
            raise SourceError(
                f"{unit.shard(self.root)}: its source has changed since it was written "
                f"({unit.told}); restore that to continue, or delete {self.root} to begin anew"
            )
        publish_text(record_path(self.root, unit), json.dumps(asdict(record), ensure_ascii=False))
        return record

    def try_out(self, unit: Unit) -> Record:
        """What converting a unit gives, without writing it anywhere."""
        with Path(os.devnull).open("wb") as nowhere:
            return _write_rows(self, unit, nowhere)

    def files(self, unit: Unit) -> Iterator[Path]:
        """Every local file that a unit is made from."""
        for piece in unit.pieces:
            if (path := self.source.path(piece.file)) is not None:
                yield path
            if piece.file.beside:
                audio = self.source.audio_files(piece.file, piece.start, piece.stop)
                yield from dict.fromkeys(audio)

    def _stamps(self, unit: Unit) -> dict[Path, Stamp | None]:
        """The unit's files and their states.

        Raises:
            SourceError: A source file is no longer the one that was listed.
        """
        stamps = {path: stamp(path) for path in self.files(unit)}
        for piece in unit.pieces:
            if (path := self.source.path(piece.file)) is not None:
                check_stamp(path, piece.file.stamp)
                stamps[path] = piece.file.stamp
        return stamps

    def _write(self, unit: Unit) -> Record:
        shard = unit.shard(self.root)
        with publish(shard) as stream:
            record = _write_rows(self, unit, stream)
        if not record.rows:
            shard.unlink()  # readers expect rows in a file
        return record


def record_path(root: Path, unit: Unit) -> Path:
    """Where the record of a unit stands."""
    return root / WORK_DIR / f"unit-{unit.number:06d}.json"


def finished(root: Path, unit: Unit) -> Record | None:
    """The record of a unit whose shard is complete, or None."""
    try:
        values = json.loads(record_path(root, unit).read_text(encoding="utf-8"))
        dropped = tuple(Dropped(**row) for row in values.pop("dropped"))
        record = Record(**values, dropped=dropped)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # whatever became of it, the unit is done again
    shard = unit.shard(root)
    there = shard.stat().st_size if shard.is_file() else 0
    return record if there == record.size else None


def _write_rows(job: Job, unit: Unit, stream: IO[bytes]) -> Record:
    dropped: list[Dropped] = []
    unmapped: Counter[str] = Counter()
    with ShardWriter(stream) as writer:
        for piece in unit.pieces:
            for utterance in job.source.read(piece.file, piece.start, piece.stop):
                dialect = utterance.speaker.dialect
                if dialect is not None and dialect not in DIALECTS:
                    unmapped[dialect] += 1
                reason = _add(writer, utterance, piece, job.options)
                if reason is not None:
                    dropped.append(_drop(utterance, piece, reason))
    return Record(
        unit=unit.number,
        rows=writer.rows,
        samples=writer.samples,
        size=writer.size if writer.rows else 0,
        sha256=writer.sha256 if writer.rows else "",
        dropped=tuple(dropped),
        unmapped=dict(sorted(unmapped.items())),
        characters="".join(sorted(writer.characters)),
    )


def _digest(stamps: Mapping[Path, Stamp | None]) -> str:
    """The stamps of a unit's files; the order of its rows stands for their names."""
    return hashlib.sha256(repr([*stamps.values()]).encode()).hexdigest()


def _add(
    writer: ShardWriter, utterance: Utterance, piece: Piece, options: ConvertOptions
) -> str | None:
    """Write an utterance, or return the reason why it cannot be written."""
    if utterance.refused is not None:
        return utterance.refused
    if utterance.row in piece.duplicates:
        return "duplicate id"
    if utterance.text is None or not utterance.text.strip():
        return "empty text"
    if not utterance.audio:
        return "no audio"
    try:
        flac, samples = to_flac(
            utterance.audio,
            start=utterance.start,
            seconds=utterance.seconds,
            max_seconds=options.max_seconds,
        )
    except AudioError as error:
        return str(error)
    writer.add(
        {
            "id": utterance.id,
            "text": utterance.text,
            "audio_bytes": flac,
            "audio_size": samples,
            "source_id": f"{piece.file.name}:{utterance.row}",
            **asdict(utterance.speaker),
        }
    )
    return None


def _drop(utterance: Utterance, piece: Piece, reason: str) -> Dropped:
    return Dropped(
        source=piece.file.name,
        row=utterance.row,
        id=utterance.id,
        dialect=utterance.speaker.dialect,
        reason=reason,
    )
