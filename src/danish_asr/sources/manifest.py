"""Manifests: JSON lines, CSV or TSV with the paths of audio files, by default with NeMo's keys.

``audio_filepath`` is relative to the manifest; ``offset`` and ``duration`` (seconds) cut the
utterance out of a longer file. A line that is not a JSON object, or has more or fewer fields than
the header, is a row as well: it goes to the ledger. TSV has no quoting.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from danish_asr.errors import SourceError
from danish_asr.sources.base import Columns, Source, SourceFile, SourceOptions, Utterance, utterance

COLUMNS: Final = Columns(audio="audio_filepath", start="offset", seconds="duration")
"""NeMo's keys, and ours for the rest."""

_TABLES: Final[Mapping[str, Mapping[str, Any]]] = {
    ".csv": {"strict": True},
    ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},
}
SUFFIXES: Final = (".jsonl", ".json", *_TABLES)

_GROUP: Final = 1000
"""Rows that stay together in a shard if they fit."""

Row = dict[str, Any] | None
"""Names and values of a row, or None for one that cannot be read."""


@dataclass(frozen=True, kw_only=True)
class ManifestSource(Source):
    """A `Source` over manifest files.

    Attributes:
        root: The directory that file names are relative to.
        columns: Names of the keys.
    """

    root: Path
    columns: Columns

    def read(self, file: SourceFile, start: int, stop: int) -> Iterator[Utterance]:
        """See `Source.read`. Lines before ``start`` are skipped, not parsed."""
        for row, values in _read_rows(self.root / file.name, start, stop):
            found = values and {**values, self.columns.audio: self._audio(values)}
            yield utterance(found, self.columns, row=row, position=f"{file.name}:{row}")

    def local_files(self, file: SourceFile) -> Iterator[Path]:
        """See `Source.local_files`."""
        yield self.root / file.name
        for _, values in _read_rows(self.root / file.name):
            if (audio := self._audio(values or {})) is not None:
                yield audio

    def _audio(self, values: Mapping[str, Any]) -> Path | None:
        path = values.get(self.columns.audio)
        return self.root / path if path and isinstance(path, str) else None


def open_manifest(where: str, options: SourceOptions) -> ManifestSource:
    """Open a manifest, or all manifests of a folder.

    Raises:
        SourceError: An option is invalid, there are no rows, or a key is in no row.
    """
    corpus, columns = options.checked_corpus(), options.checked_columns(COLUMNS)
    place = Path(where)
    if not place.exists():
        raise SourceError(
            f"{where}: no such file or folder; `danish-asr convert --list` shows the kinds of "
            "sources"
        )
    paths = sorted(place.glob("[!.]*")) if place.is_dir() else [place]
    files, keys = [], dict[str, None]()
    for path in paths:
        if path.suffix in SUFFIXES and path.is_file():
            rows, found = _count_rows(path)
            keys |= found
            if rows:
                columns.check(found, str(path))
            status = path.stat()
            file = SourceFile(
                name=path.name,
                corpus=corpus,
                split=options.checked_split(PurePosixPath(path.name)),
                row_groups=tuple(min(_GROUP, rows - row) for row in range(0, rows, _GROUP)),
                fingerprint=f"{status.st_size}-{status.st_mtime_ns}",
            )
            files.append(file)
    if not sum(file.rows for file in files):
        what = "rows" if files else f"manifest ({', '.join(SUFFIXES)})"
        raise SourceError(f"{where}: the source is empty, it has no {what}")
    columns.check_requested(keys)
    root = (place if place.is_dir() else place.parent).resolve()
    return ManifestSource(name=where, files=tuple(files), root=root, columns=columns)


def _count_rows(path: Path) -> tuple[int, dict[str, None]]:
    """The number of rows of a manifest, and the keys that they have."""
    rows, keys = 0, dict[str, None]()
    for _, values in _read_rows(path):
        rows += 1
        keys |= dict.fromkeys(values or ())
    if rows and not keys:
        raise SourceError(
            f"{path}: none of its {rows} rows can be read; expected one JSON object per line, in "
            'UTF-8, such as {"audio_filepath": "a.wav", "text": "ja"}, or a table with the columns '
            "in its first line"
        )
    return rows, keys


def _read_rows(path: Path, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Row]]:
    """Yield the positions and values of rows; blank lines do not count.

    Raises:
        SourceError: The file cannot be read, or a table is not UTF-8 or has wrong quotes.
    """
    read = _read_table if path.suffix in _TABLES else _read_json
    try:
        yield from read(path, start, stop)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or error})") from error


def _read_json(path: Path, start: int, stop: int | None) -> Iterator[tuple[int, Row]]:
    with path.open("rb") as stream:
        lines = enumerate(line for line in stream if line.strip())
        for row, line in islice(lines, start, stop):
            try:
                values = json.loads(line)
            except ValueError:
                values = None
            yield row, values if isinstance(values, dict) else None


def _read_table(path: Path, start: int, stop: int | None) -> Iterator[tuple[int, Row]]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, **_TABLES[path.suffix])
        try:
            header = [name.strip() for name in next(reader, [])]
            if twice := sorted({name for name in header if header.count(name) > 1}):
                raise SourceError(
                    f"{path}: line 1 has {', '.join(twice)} twice; rename one of these columns"
                )
            for row, fields in islice(enumerate(filter(None, reader)), start, stop):
                fits = len(fields) == len(header)
                yield row, dict(zip(header, fields, strict=True)) if fits else None
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{path}: not UTF-8 after line {reader.line_num} ({error.reason}); convert the "
                "file to UTF-8"
            ) from error
        except csv.Error as error:
            raise SourceError(
                f"{path}: line {reader.line_num}: {error}; quote fields that contain quotes or "
                'commas, and double the quotes inside, such as "ja, ""tak"""'
            ) from error
