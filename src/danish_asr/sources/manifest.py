"""Manifests: JSON lines or CSV with the paths of audio files, NeMo's keys among them.

``audio_filepath`` is relative to the manifest; ``offset`` and ``duration`` (seconds) cut the
utterance out of a longer file. A line that cannot be read is a row as any other: it goes to the
ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

import pyarrow as pa

from danish_asr.errors import SourceError
from danish_asr.sources.base import SourceFile, Utterance
from danish_asr.sources.columns import Columns, row_id, utterance
from danish_asr.sources.manifest_rows import CSV_SUFFIX, Row, read_header, read_rows
from danish_asr.sources.splits import split_of

COLUMNS: Final = Columns(audio="audio_filepath", start="offset", seconds="duration")
"""NeMo's keys, and ours for the rest."""

SUFFIXES: Final = (".jsonl", ".json", CSV_SUFFIX)

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
        notes: What the user should know.
    """

    name: str
    root: Path
    files: tuple[SourceFile, ...]
    columns: Columns
    offsets: dict[str, tuple[int, ...]]
    notes: tuple[str, ...] = ()

    def ids(self, file: SourceFile) -> pa.Array:
        """See `Source.ids`."""
        rows = self._rows(file, 0, file.rows)
        ids = (row_id(values or {}, self.columns, f"{file.name}:{row}") for row, values in rows)
        return pa.array(ids, pa.string())

    def read(self, file: SourceFile, start: int, stop: int) -> Iterator[Utterance]:
        """See `Source.read`."""
        for row, values in self._rows(file, start, stop):
            found = values and {**values, self.columns.audio: self._audio(file, values)}
            yield utterance(found, self.columns, row=row, position=f"{file.name}:{row}")

    def audio_files(self, file: SourceFile, start: int, stop: int) -> Iterator[Path]:
        """See `Source.audio_files`."""
        for _, values in self._rows(file, start, stop):
            if (audio := self._audio(file, values or {})) is not None:
                yield audio

    def path(self, file: SourceFile) -> Path:
        """See `Source.path`."""
        return self.root / file.name

    def _audio(self, file: SourceFile, values: Mapping[str, Any]) -> Path | None:
        path = values.get(self.columns.audio)
        return self.path(file).parent / path if path and isinstance(path, str) else None

    def _rows(self, file: SourceFile, start: int, stop: int) -> Iterator[tuple[int, Row]]:
        with _open(self.path(file)) as stream:
            header = read_header(stream, self.path(file))
            first = start // _CHUNK
            stream.seek(self.offsets[file.name][first])
            records = enumerate(read_rows(stream, header), start=first * _CHUNK)
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
        raise SourceError(
            f"{where}: no such file or folder; `danish-asr convert --list` shows what a source "
            "can be"
        )
    paths = _visible(place) if place.is_dir() else [place]
    root = place if place.is_dir() else place.parent
    files, offsets, keys = [], {}, {}
    for path in paths:
        if path.suffix in SUFFIXES and path.is_file():
            file, offsets[path.name], keys[path.name] = _inspect(path, corpus, columns, split)
            files.append(file)
    if not sum(file.rows for file in files):
        what = "rows" if files else f"manifest ({', '.join(SUFFIXES)})"
        raise SourceError(f"{where}: the source is empty, it has no {what}")
    return ManifestSource(
        name=where,
        root=root.resolve(),
        files=tuple(files),
        columns=columns,
        offsets=offsets,
        notes=columns.check_asked({name: found for name, found in keys.items() if found}),
    )


def _visible(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise SourceError(f"{folder}: cannot be read ({error.strerror or error})") from error


def _inspect(
    path: Path, corpus: str, columns: Columns, split: str | None
) -> tuple[SourceFile, tuple[int, ...], tuple[str, ...]]:
    """List a manifest, and find where its chunks begin and which keys it has."""
    rows = 0
    with _open(path) as stream:
        header = read_header(stream, path)
        keys = dict.fromkeys(header or ())
        offsets = [stream.tell()]
        for end, values in read_rows(stream, header):
            rows += 1
            keys.update(dict.fromkeys(values or ()))
            if rows % _CHUNK == 0:
                offsets.append(end)
        digest = _digest(stream)
    if rows and not keys:
        raise SourceError(
            f"{path}: none of its {rows} rows can be read; expected one JSON object a line, in "
            'UTF-8, such as {"audio_filepath": "a.wav", "text": "ja"}'
        )
    if rows:
        columns.check(keys, str(path))
    chunks = [_CHUNK] * (rows // _CHUNK) + ([rows % _CHUNK] if rows % _CHUNK else [])
    file = SourceFile(
        name=path.name,
        corpus=corpus,
        split=split or split_of(PurePosixPath(path.name)),
        chunks=tuple(chunks),
        fingerprint=digest,
        beside=True,
    )
    return file, tuple(offsets), tuple(keys)


def _digest(stream: IO[bytes]) -> str:
    digest = hashlib.sha256()
    stream.seek(0)
    while block := stream.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or error})") from error
