"""Write the Parquet file of a shard, row by row."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.schema import ROW_GROUP_BYTES, ROW_GROUP_SIZE, UTTERANCE_SCHEMA
from danish_asr.text.profiles import normalize

_REPEATING: Final = ["speaker_id", "dialect", "sub_dialect", "age_group", "gender", "country_birth"]
_COMPRESSION: Final = dict.fromkeys(UTTERANCE_SCHEMA.names, "zstd") | {"audio_bytes": "none"}


class ShardWriter:
    """Writes row groups, and digests the bytes on their way.

    A row group has `ROW_GROUP_SIZE` rows, or `ROW_GROUP_BYTES` of audio if that comes first.
    ``rows``, ``samples`` and the ``characters`` of the texts are counted.
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
        """Add a row of `UTTERANCE_SCHEMA`."""
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
        """Bytes written; all of them once the writer is closed."""
        return self._sink.size

    @property
    def sha256(self) -> str:
        """Digest of what was written; that of the file once the writer is closed."""
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
