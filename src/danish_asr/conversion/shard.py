"""Convert one shard task: source rows in, one shard and its record out.

The record marks the shard as finished: it is written last, and it holds what the ledger, the
statistics and the inventory need, so that no finished shard is read again.
"""

from __future__ import annotations

import hashlib
import io
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
from danish_asr.conversion import ConvertOptions
from danish_asr.conversion.plan import WORK_DIR, RowSlice, ShardTask
from danish_asr.files import publish, publish_text
from danish_asr.schema import LEDGER_SCHEMA, ROW_GROUP_BYTES, ROW_GROUP_SIZE, UTTERANCE_SCHEMA
from danish_asr.sources.base import Source, Utterance
from danish_asr.sources.metadata import DIALECTS
from danish_asr.text.profiles import normalize

_REPEATED: Final = ["speaker_id", "dialect", "sub_dialect", "age_group", "gender", "country_birth"]
_COMPRESSION: Final = dict.fromkeys(UTTERANCE_SCHEMA.names, "zstd") | {"audio_bytes": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The result of one task.

    Attributes:
        task: Number of the task in the plan.
        rows: Rows written.
        samples: Samples written, over all rows.
        size: Bytes of the shard.
        sha256: Digest of the shard; empty if no row was written, and so no shard.
        dropped: The rows that were not written, as rows of the ledger.
        unmapped: Rows per dialect name that maps to no dialect.
        characters: Those of the written texts, raw and in profile ``coral``. The tokenizer is
            made from those of the training split.
    """

    task: int
    rows: int
    samples: int
    size: int
    sha256: str
    dropped: list[dict[str, Any]]
    unmapped: dict[str, int]
    characters: str

    def measure(self) -> tuple[int, int]:
        """Source rows and samples."""
        return self.rows + len(self.dropped), self.samples


@dataclass(frozen=True, kw_only=True)
class ConversionContext:
    """What every worker needs to convert tasks."""

    source: Source
    root: Path
    options: ConvertOptions

    def convert(self, task: ShardTask) -> Record:
        """Convert one task and publish its shard, then its record.

        Raises:
            SourceError: A source file cannot be read.
            DanishAsrError: The output cannot be written, for example because the disk is full.
        """
        shard = self.root / task.path
        with publish(shard) as stream:
            record = self._write_rows(task, stream)
        if not record.rows:
            shard.unlink()  # readers expect rows in a file
        content = json.dumps(asdict(record), ensure_ascii=False)
        publish_text(_record_path(self.root, task), content)
        return record

    def _write_rows(self, task: ShardTask, stream: IO[bytes]) -> Record:
        dropped: list[dict[str, Any]] = []
        unmapped: Counter[str] = Counter()
        with _ShardWriter(stream) as writer:
            for rows in task.slices:
                for utterance in self.source.read(rows.file, rows.start, rows.stop):
                    dialect = utterance.speaker.dialect
                    if dialect is not None and dialect not in DIALECTS:
                        unmapped[dialect] += 1
                    reason = self._add(writer, utterance, rows)
                    if reason is not None:
                        values = rows.file.name, utterance.row, utterance.id, dialect, reason
                        dropped.append(dict(zip(LEDGER_SCHEMA.names, values, strict=True)))
        return Record(
            task=task.number,
            rows=writer.rows,
            samples=writer.samples,
            size=writer.sink.size if writer.rows else 0,
            sha256=writer.sink.digest.hexdigest() if writer.rows else "",
            dropped=dropped,
            unmapped=dict(sorted(unmapped.items())),
            characters="".join(sorted(writer.characters)),
        )

    def _add(self, writer: _ShardWriter, utterance: Utterance, rows: RowSlice) -> str | None:
        """Write an utterance, or return the reason why it cannot be written."""
        if utterance.refused is not None:
            return utterance.refused
        if utterance.row in rows.duplicates:
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
                max_seconds=self.options.max_seconds,
            )
        except AudioError as error:
            return str(error)
        writer.add(
            {
                "id": utterance.id,
                "text": utterance.text,
                "audio_bytes": flac,
                "audio_size": samples,
                "source_id": f"{rows.file.name}:{utterance.row}",
                **asdict(utterance.speaker),
            }
        )
        return None


def read_record(root: Path, task: ShardTask) -> Record | None:
    """The record of a task whose shard is complete, or None."""
    try:
        record = Record(**json.loads(_record_path(root, task).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # missing or damaged: the task is done again
    shard = root / task.path
    size = shard.stat().st_size if shard.is_file() else 0
    return record if size == record.size else None


def _record_path(root: Path, task: ShardTask) -> Path:
    return root / WORK_DIR / f"task-{task.number:06d}.json"


class _ShardWriter:
    """Writes the Parquet file of a shard, and digests its bytes on their way.

    A row group has `ROW_GROUP_SIZE` rows, or `ROW_GROUP_BYTES` of audio if that comes first.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.rows = self.samples = 0
        self.characters: set[str] = set()
        self.sink = _DigestingSink(stream)
        self._pending: list[dict[str, Any]] = []
        self._pending_bytes = 0
        self._parquet = pq.ParquetWriter(
            pa.PythonFile(self.sink, mode="w"),
            UTTERANCE_SCHEMA,
            compression=_COMPRESSION,
            use_dictionary=_REPEATED,
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
        # A writer that is left open writes its footer when it is collected, into a closed file.
        # An error raised here would hide the one that ended the block.
        with suppress(Exception):
            self._parquet.close()

    def add(self, row: dict[str, Any]) -> None:
        """Add a row of `UTTERANCE_SCHEMA`."""
        self._pending.append(row)
        self._pending_bytes += len(row["audio_bytes"])
        self.rows += 1
        self.samples += row["audio_size"]
        self.characters.update(row["text"])
        self.characters.update(normalize(row["text"], "coral"))
        if len(self._pending) == ROW_GROUP_SIZE or self._pending_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._parquet.write_table(pa.Table.from_pylist(self._pending, UTTERANCE_SCHEMA))
            self._pending = []
            self._pending_bytes = 0


class _DigestingSink(io.RawIOBase):
    """What Arrow writes to; it passes bytes on, and `publish` flushes and closes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.size = 0
        self.digest = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.size += len(data)
        return self._stream.write(data)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size
