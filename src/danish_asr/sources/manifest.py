"""Manifests: JSON lines, CSV (with commas or semicolons) or TSV with the paths of audio files.

Paths are relative to the manifest. NeMo's keys and other usual names of columns are found
(`base.USUAL_NAMES`). Without ``--split``, each value of a column ``split`` makes a source file. A
line that is not a JSON object, or has more or fewer fields than the header, is a row as well: it
goes to the ledger. TSV has no quoting.
"""

import csv
import json
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from danish_asr.errors import SourceError
from danish_asr.files import decode_line
from danish_asr.sources import base

_COLUMNS = base.COLUMNS | {"start": "offset", "seconds": "duration"}

_TABLES: Final[dict[str, dict[str, Any]]] = {
    ".csv": {"strict": True},  # with the delimiter that the header has more of
    ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},
}
SUFFIXES: Final = (".jsonl", ".json", *_TABLES)

_ENDS: Final = ("end", "end_time")  # instead of a duration

_GROUP: Final = 1000  # rows that stay together in a shard if they fit

Row = dict[str, Any] | None  # None for a row that cannot be read


@dataclass(frozen=True, kw_only=True)
class ManifestSource(base.Source):
    """A `Source` over manifest files below ``root``."""

    root: Path
    columns: base.Columns

    def read(self, file: base.SourceFile, start: int, stop: int) -> Iterator[base.Utterance]:
        """See `Source.read`."""
        for row, values in self._rows(file, start, stop):
            found = values and {**values, self.columns["audio"]: self._audio(values)}
            yield base.utterance(found, self.columns, file, row)

    def local_files(self, file: base.SourceFile) -> Iterator[Path]:
        """See `Source.local_files`."""
        yield self._path(file)[0]
        for _, values in self._rows(file, 0, file.rows):
            if (audio := self._audio(values)) is not None:
                yield audio

    def _path(self, file: base.SourceFile) -> tuple[Path, str | None]:
        """The manifest of a file, and the value of its column ``split``."""
        path, mark, split = file.name.rpartition("#")
        if mark and not (self.root / file.name).is_file():
            return self.root / path, split
        return self.root / file.name, None

    def _rows(self, file: base.SourceFile, start: int, stop: int) -> Iterator[tuple[int, Row]]:
        path, wanted = self._path(file)
        if wanted is None:
            return read_rows(path, start, stop)
        rows = (values for split, values in _with_splits(path) if split == wanted)
        return (
            (row, values and _with_usual_names(values))
            for row, values in islice(enumerate(rows), start, stop)
        )

    def _audio(self, values: Row) -> Path | None:
        path = (values or {}).get(self.columns["audio"])
        return self.root / path if path and isinstance(path, str) else None


def open_manifest(where: str, options: base.SourceOptions) -> ManifestSource:
    """Open a manifest, or all manifests of a folder."""
    corpus, columns = options.checked_corpus(), options.checked_columns(_COLUMNS)
    place = Path(where)
    if not place.exists():
        raise SourceError(f"{where}: no such file or folder")

    def open_all() -> Iterator[tuple[base.SourceFile, Collection[str]]]:
        for path in sorted(place.glob("[!.]*")) if place.is_dir() else [place]:
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            keys, counts = dict[str, None](), Counter[str]()
            for split, values in _with_splits(path):
                keys |= dict.fromkeys(values or ())
                counts["" if options.split else split] += 1
            status = path.stat()
            for split, rows in sorted((counts or {"": 0}).items()):
                file = base.SourceFile(
                    name=f"{path.name}#{split}" if split else path.name,
                    corpus=corpus,
                    split=options.split_of(PurePosixPath(split or path.name)),
                    row_groups=tuple(min(_GROUP, rows - row) for row in range(0, rows, _GROUP)),
                    fingerprint=f"{status.st_size}-{status.st_mtime_ns}",
                )
                yield file, keys

    what = f"manifest ({', '.join(SUFFIXES)})"
    files = base.list_files(where, open_all(), {corpus: columns}, options, what)
    root = (place if place.is_dir() else place.parent).resolve()
    return ManifestSource(name=where, files=files, root=root, columns=columns)


def read_rows(path: Path, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Row]]:
    """Yield the positions and values of rows, with our names too; blank lines do not count."""
    for row, values in _read(path, start, stop):
        yield row, values and _with_usual_names(values)


def _read(path: Path, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Row]]:
    try:
        if path.suffix in _TABLES:
            yield from _read_table(path, start, stop)
            return
        with path.open("rb") as stream:
            # Lines before the first are skipped, not parsed.
            for row, line in islice(enumerate(filter(bytes.strip, stream)), start, stop):
                try:
                    values = json.loads(line)
                except ValueError:
                    values = None
                yield row, values if isinstance(values, dict) else None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or error})") from error


def _with_splits(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the rows with their column ``split``; a malformed row stays with the row before it."""
    split = ""
    for _, values in _read(path):
        if values is not None:
            name = next((name for name in values if name.lower() == "split"), "split")
            split = str(values.get(name) or "").strip()
        yield split, values


def _read_table(path: Path, start: int, stop: int | None) -> Iterator[tuple[int, Row]]:
    settings = dict(_TABLES[path.suffix])
    if path.suffix == ".csv":
        with path.open("rb") as stream:
            settings["delimiter"] = chr(max(b",;", key=stream.readline().count))
    with path.open(encoding="utf-8-sig", newline="") as text:
        table = csv.reader(text, **settings)
        try:
            names = [name.strip() for name in next(table, ())]
            if len(set(names)) < len(names):
                raise SourceError(f"{path}: line 1 has a column twice; rename one of them")
            for row, fields in islice(enumerate(filter(None, table)), start, stop):
                if len(fields) == len(names):
                    yield row, dict(zip(names, fields, strict=True))
                else:
                    yield row, None
        except UnicodeDecodeError:
            with path.open("rb") as stream:  # the error is one of a block of lines
                for number, line in enumerate(stream, start=1):
                    decode_line(line, f"{path}:{number}", SourceError)
            raise
        except csv.Error as error:
            raise SourceError(
                f"{path}: cannot be read after line {max(0, table.line_num - 1)} ({error}); "
                'expected quotes inside quoted fields doubled: "ja, ""tak"""'
            ) from error


def _with_usual_names(values: dict[str, Any]) -> dict[str, Any]:
    """Add our default names of columns, where a row has them under other usual names."""
    lower = {name.lower(): name for name in values}
    found = dict(values)
    for ours, others in base.USUAL_NAMES.items():
        names = (_COLUMNS[ours], *others)
        name = next((lower[name] for name in names if name in lower), None)
        if name is not None:
            found.setdefault(_COLUMNS[ours], values[name])
    end = next((values[lower[other]] for other in _ENDS if other in lower), None)
    if end not in (None, "") and "duration" not in lower:
        try:
            begin = str(found.get("offset") or 0)
            found["duration"] = float(str(end).replace(",", ".")) - float(begin.replace(",", "."))
        except (TypeError, ValueError):
            found["duration"] = end  # refused as a time
    return found
