"""Convert one unit of work: source rows in, one shard and its record out.

The record is the marker that the shard is finished: it is written last, and it holds what the
ledger, the statistics and the manifest need, so that no finished shard is ever read again.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.audio import AudioError, to_flac
from danish_asr.conversion.work_units import ConvertOptions, Piece, Unit
from danish_asr.corpora.base import Source, Utterance
from danish_asr.corpora.metadata import DIALECTS
from danish_asr.files import publish, publish_text
from danish_asr.schema import ROW_GROUP_SIZE, UTTERANCE_SCHEMA
from danish_asr.text import normalize

WORK_DIR: Final = ".convert"
"""Holds the plan and the records of an unfinished conversion, below the dataset's root."""

ROW_GROUP_BYTES: Final = 32 << 20
"""Audio after which a row group is closed, however few its rows: it is held in memory until then,
and Arrow copies it twice."""

_REPEATING: Final = ["speaker_id", "dialect", "sub_dialect", "age_group", "gender", "country_birth"]
_COMPRESSION: Final = dict.fromkeys(UTTERANCE_SCHEMA.names, "zstd") | {"audio_bytes": "none"}


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
    """

    unit: int
    rows: int
    samples: int
    size: int
    sha256: str
    dropped: tuple[Dropped, ...]
    unmapped: dict[str, int]
    characters: str


@dataclass(frozen=True, kw_only=True)
class Job:
    """What every worker needs to convert units."""

    source: Source
    root: Path
    options: ConvertOptions

    def convert(self, unit: Unit) -> Record:
        """Convert one unit and publish its shard, then its record.

        Raises:
            SourceError: A source file cannot be read, or changed since the plan was made.
            DanishAsrError: The output cannot be written: the disk is full, say.
        """
        for piece in unit.pieces:
            self.source.check_unchanged(piece.file)
        record = _write_shard(self, unit)
        # Rows of a file that changed meanwhile must not pass for those of the plan.
        for piece in unit.pieces:
            self.source.check_unchanged(piece.file)
        publish_text(record_path(self.root, unit), json.dumps(asdict(record), ensure_ascii=False))
        return record


def record_path(root: Path, unit: Unit) -> Path:
    """Where the record of a unit stands."""
    return root / WORK_DIR / f"unit-{unit.number:06d}.json"


def finished(root: Path, unit: Unit) -> Record | None:
    """The record of a unit whose shard is complete, or None."""
    path = record_path(root, unit)
    if not path.is_file():
        return None
    values = json.loads(path.read_text(encoding="utf-8"))
    dropped = tuple(Dropped(**row) for row in values.pop("dropped"))
    record = Record(**values, dropped=dropped)
    shard = unit.shard(root)
    there = shard.stat().st_size if shard.is_file() else 0
    return record if there == record.size else None


def _write_shard(job: Job, unit: Unit) -> Record:
    dropped: list[Dropped] = []
    unmapped: Counter[str] = Counter()
    shard = unit.shard(job.root)
    with publish(shard) as stream, _ShardWriter(stream) as writer:
        for piece in unit.pieces:
            for utterance in job.source.read(piece.file, piece.start, piece.stop):
                dialect = utterance.speaker.dialect
                if dialect is not None and dialect not in DIALECTS:
                    unmapped[dialect] += 1
                reason = _add(writer, utterance, piece, job.options)
                if reason is not None:
                    dropped.append(_drop(utterance, piece, reason))
    if not writer.rows:
        shard.unlink()  # readers expect rows in a file
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


def _add(
    writer: _ShardWriter, utterance: Utterance, piece: Piece, options: ConvertOptions
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


class _ShardWriter:
    """Writes row groups, and digests the bytes on their way.

    A row group has `ROW_GROUP_SIZE` rows, or `ROW_GROUP_BYTES` of audio if that comes first.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.rows = self.samples = 0
        self.characters: set[str] = set()
        self._sink = _DigestingSink(stream)
        self._pending: list[dict[str, Any]] = []
        self._pending_bytes = 0
        self._parquet = pq.ParquetWriter(
            pa.PythonFile(self._sink, mode="w"),
            UTTERANCE_SCHEMA,
            compression=_COMPRESSION,
            use_dictionary=_REPEATING,
            write_statistics=[name for name in UTTERANCE_SCHEMA.names if name != "audio_bytes"],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
            self._parquet.close()
            return
        # A writer that is left open writes its footer when it is collected, into a closed file;
        # and what fails here would only hide the error that ended the block.
        with suppress(Exception):
            self._parquet.close()

    def add(self, row: dict[str, Any]) -> None:
        self._pending.append(row)
        self._pending_bytes += len(row["audio_bytes"])
        self.rows += 1
        self.characters.update(row["text"])
        self.characters.update(normalize(row["text"], "coral"))
        self.samples += row["audio_size"]
        if len(self._pending) == ROW_GROUP_SIZE or self._pending_bytes >= ROW_GROUP_BYTES:
            self._flush()

    @property
    def size(self) -> int:
        return self._sink.size

    @property
    def sha256(self) -> str:
        return self._sink.digest.hexdigest()

    def _flush(self) -> None:
        if self._pending:
            self._parquet.write_table(pa.Table.from_pylist(self._pending, UTTERANCE_SCHEMA))
            self._pending = []
            self._pending_bytes = 0


class _DigestingSink:
    """The part of a file object that Arrow needs for writing."""

    closed = False

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.size = 0
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.size += len(data)
        return self._stream.write(data)

    def flush(self) -> None:
        """Publishing flushes, once."""

    def tell(self) -> int:
        return self.size

    def close(self) -> None:
        """Publishing closes."""
