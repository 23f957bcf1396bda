"""Manifests: JSON lines or CSV with the paths of audio files, NeMo's keys among them.

``audio_filepath`` is relative to the manifest; ``offset`` and ``duration`` (seconds) cut the
utterance out of a longer file. A line that cannot be read is a row as any other: it goes to the
ledger.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

import pyarrow as pa

from danish_asr.corpora.base import SourceFile, Utterance
from danish_asr.corpora.columns import Columns, row_id, utterance
from danish_asr.corpora.metadata import Speaker
from danish_asr.corpora.parquet import check_stamp, split_of, stamp
from danish_asr.errors import SourceError

COLUMNS: Final = Columns(audio="audio_filepath", start="offset", seconds="duration")
"""NeMo's keys, and ours for the rest."""

SUFFIXES: Final = (".jsonl", ".json", ".csv")

_CHUNK: Final = 1000
"""Rows between two places where reading can begin."""


@dataclass(frozen=True, kw_only=True)
class ManifestSource:
    """A `Source` over manifest files.

    Attributes:
        name: What the user asked for.
        root: The directory that file names are relative to.
        files: The manifests, in the order of their names.
        columns: Which keys hold what.
        offsets: For each file, where in it every chunk begins, in bytes.
    """

    name: str
    root: Path
    files: tuple[SourceFile, ...]
    columns: Columns
    offsets: dict[str, tuple[int, ...]]

    def ids(self, file: SourceFile) -> pa.Array:
        """See `Source.ids`."""
        rows = self._rows(file, 0, file.rows)
        ids = (row_id(values or {}, self.columns, f"{file.name}:{row}") for row, values in rows)
        return pa.array(ids, pa.string())

    def read(self, file: SourceFile, start: int, stop: int) -> Iterator[Utterance]:
        """See `Source.read`."""
        folder = (self.root / file.name).parent
        for row, values in self._rows(file, start, stop):
            position = f"{file.name}:{row}"
            if values is None:
                yield Utterance(
                    row=row,
                    id=position,
                    text=None,
                    audio=None,
                    speaker=Speaker(),
                    refused="malformed row",
                )
                continue
            path = values.get(self.columns.audio)
            audio = folder / str(path) if path else None
            yield utterance(
                {**values, self.columns.audio: audio}, self.columns, row=row, position=position
            )

    def check_unchanged(self, file: SourceFile) -> None:
        """See `Source.check_unchanged`."""
        check_stamp(self.root / file.name, file.stamp)

    def _rows(
        self, file: SourceFile, start: int, stop: int
    ) -> Iterator[tuple[int, dict[str, Any] | None]]:
        path = self.root / file.name
        with path.open("rb") as stream:
            header = _read_header(stream, path)
            first = start // _CHUNK
            stream.seek(self.offsets[file.name][first])
            records = enumerate(_records(stream, header), start=first * _CHUNK)
            for row, (_, values) in islice(records, stop - first * _CHUNK):
                if row >= start:
                    yield row, values


def open_manifest(
    where: str, *, corpus: str, columns: Columns = COLUMNS, split: str | None = None
) -> ManifestSource:
    """Open a manifest, or all manifests of a folder.

    Args:
        where: A ``.jsonl``, ``.json`` or ``.csv`` file, or a folder with some.
        corpus: Name of the corpus in the built dataset.
        columns: Which keys hold what.
        split: The split of all files; None to tell it from their names.

    Raises:
        SourceError: There is nothing there, there are no rows, or a key is in no row.
    """
    place = Path(where)
    if not place.exists():
        raise SourceError(f"{where}: no such file or folder")
    paths = sorted(place.iterdir()) if place.is_dir() else [place]
    root = place if place.is_dir() else place.parent
    files, offsets = [], {}
    for path in paths:
        if path.suffix in SUFFIXES and path.is_file():
            file, offsets[path.name] = _inspect(path, corpus, columns, split)
            files.append(file)
    if not sum(file.rows for file in files):
        what = "rows" if files else f"manifest ({', '.join(SUFFIXES)})"
        raise SourceError(f"{where}: the source is empty, it has no {what}")
    return ManifestSource(
        name=where, root=root.resolve(), files=tuple(files), columns=columns, offsets=offsets
    )


def _inspect(
    path: Path, corpus: str, columns: Columns, split: str | None
) -> tuple[SourceFile, tuple[int, ...]]:
    """List a manifest, and find where its chunks begin."""
    keys: dict[str, None] = {}
    rows = 0
    with path.open("rb") as stream:
        header = _read_header(stream, path)
        offsets = [stream.tell()]
        for end, values in _records(stream, header):
            rows += 1
            keys.update(dict.fromkeys(values or ()))
            if rows % _CHUNK == 0:
                offsets.append(end)
    if rows:
        columns.check(keys, str(path))
    chunks = [_CHUNK] * (rows // _CHUNK) + ([rows % _CHUNK] if rows % _CHUNK else [])
    file = SourceFile(
        name=path.name,
        corpus=corpus,
        split=split or split_of(PurePosixPath(path.name)),
        chunks=tuple(chunks),
        fingerprint=_digest(path),
        stamp=stamp(path),
    )
    return file, tuple(offsets)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _read_header(stream: IO[bytes], path: Path) -> list[str] | None:
    """The names in the first row of a CSV file, which is then behind us; None for JSON lines."""
    if path.suffix != ".csv":
        return None
    lines = _CountedLines(stream)
    header = next(csv.reader(lines), [])
    stream.seek(lines.end)
    return [name.strip().removeprefix("\ufeff") for name in header]


def _records(
    stream: IO[bytes], header: list[str] | None
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the rows from here on, each with where it ends; None for one that cannot be read."""
    lines = _CountedLines(stream)
    if header is None:
        for line in lines:
            if line.strip():
                yield lines.end, _parse_json(line)
        return
    for fields in csv.reader(lines):
        if fields:
            fits = len(fields) == len(header)
            yield lines.end, dict(zip(header, fields, strict=True)) if fits else None


def _parse_json(line: str) -> dict[str, Any] | None:
    try:
        values = json.loads(line)
    except json.JSONDecodeError:
        return None
    return values if isinstance(values, dict) else None


class _CountedLines:
    """Lines of a binary stream as text, and where the last one ended."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.end = stream.tell()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._stream.readline()
        if not line:
            raise StopIteration
        self.end += len(line)
        return line.decode("utf-8", errors="replace")
