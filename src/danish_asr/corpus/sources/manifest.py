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

from danish_asr.base.errors import SourceError
from danish_asr.base.files import decode_line
from danish_asr.base.schema import SPLIT_ALIASES, SPLITS
from danish_asr.corpus.sources import base

_COLUMNS = base.COLUMNS | {"start": "offset", "seconds": "duration"}

_TABLES: Final[dict[str, dict[str, Any]]] = {
    ".csv": {"strict": True},  # with the delimiter that the header has more of
    ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},
}
SUFFIXES: Final = (".jsonl", ".json", *_TABLES)

_ENDS: Final = ("end", "end_time")  # instead of a duration

_TABLE_ROWS: Final = "as many fields in each row as in the header"
_JSON_ROWS: Final = (
    "an object on each line; `jq -c '.[]' FILE > NEW.jsonl` makes such lines of a JSON array"
)

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

    def place(self, file: base.SourceFile, row: int) -> str:
        """See `Source.place`. Names the line."""
        path, wanted = self._path(file)
        lines = (line for split, line, _ in _with_splits(path) if wanted in {None, split})
        return f"{path.name}, line {next(islice(lines, row, None))}"

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
        rows = (values for split, _, values in _with_splits(path) if split == wanted)
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

    all_keys, used = dict[str, None](), set[str]()

    def open_all() -> Iterator[tuple[base.SourceFile, Collection[str]]]:
        for path in sorted(place.glob("[!.]*")) if place.is_dir() else [place]:
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            keys, counts, first = dict[str, None](), Counter[str](), dict[str, int]()
            for split, line, values in _with_splits(path):
                keys |= dict.fromkeys(values or ())
                counts["" if options.split else split] += 1
                first.setdefault(split, line)
            if counts and not keys:
                raise SourceError(
                    f"{path.name}: none of its {counts.total():,} rows can be read; expected "
                    f"{_TABLE_ROWS if path.suffix in _TABLES else _JSON_ROWS}"
                )
            all_keys.update(keys)
            used.update(base.usual_columns(columns, keys, _COLUMNS).values())
            used.update(key for key in keys if _is_split(key) or key.lower() in _ENDS)
            status = path.stat()
            for split, rows in sorted((counts or {"": 0}).items()):
                file = base.SourceFile(
                    name=f"{path.name}#{split}" if split else path.name,
                    corpus=corpus,
                    split=_split_of(split, path.name, first.get(split), keys, options),
                    row_groups=tuple(min(_GROUP, rows - row) for row in range(0, rows, _GROUP)),
                    fingerprint=f"{status.st_size}-{status.st_mtime_ns}",
                )
                yield file, keys

    what = f"manifest ({', '.join(SUFFIXES)})"
    files = base.list_files(where, open_all(), {corpus: columns}, options, what)
    root = (place if place.is_dir() else place.parent).resolve()
    notes = base.ignored_columns(used, all_keys)
    return ManifestSource(name=where, files=files, notes=notes, root=root, columns=columns)


def read_rows(path: Path, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Row]]:
    """Yield the positions and values of rows, with our names too; blank lines do not count."""
    for row, (_, values) in enumerate(_read(path, start, stop), start):
        yield row, values and _with_usual_names(values)


def _read(path: Path, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Row]]:
    """Yield the lines, from 1, and values of rows."""
    try:
        if path.suffix in _TABLES:
            yield from _read_table(path, start, stop)
            return
        with path.open("rb") as stream:
            # Lines before the first are skipped, not parsed.
            lines = ((number, line) for number, line in enumerate(stream, 1) if line.strip())
            for number, line in islice(lines, start, stop):
                try:
                    values = json.loads(line)
                except ValueError:
                    values = None
                yield number, values if isinstance(values, dict) else None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or error})") from error


def _is_split(column: str) -> bool:
    return column.lower() == "split"


def _split_of(
    value: str, name: str, line: int | None, keys: Collection[str], options: base.SourceOptions
) -> str:
    try:
        return options.split_of(PurePosixPath(value or name))
    except SourceError:
        if options.split or not any(map(_is_split, keys)):
            raise
        raise SourceError(
            f"{name}, line {line}: the column split has {value!r}; expected one of "
            f"{', '.join((*SPLITS, *SPLIT_ALIASES))} in each row, or --split train for all rows"
        ) from None


def _with_splits(path: Path) -> Iterator[tuple[str, int, Row]]:
    """Yield the column ``split``, line and values of rows.

    A malformed row stays with the row before it.
    """
    split = ""
    for line, values in _read(path):
        if values is not None:
            name = next(filter(_is_split, values), "split")
            split = str(values.get(name) or "").strip()
        yield split, line, values


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
            for number, fields in islice(_records(table), start, stop):
                fits = len(fields) == len(names)
                yield number, dict(zip(names, fields, strict=True)) if fits else None
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


def _records(table: Any) -> Iterator[tuple[int, list[str]]]:
    """The records that are not blank, and the line on which each begins."""
    line = table.line_num + 1
    for fields in table:
        if fields:
            yield line, fields
        line = table.line_num + 1


def _with_usual_names(values: dict[str, Any]) -> dict[str, Any]:
    """Add our default names of columns, where a row has them under other usual names."""
    usual = base.usual_columns(_COLUMNS, values, _COLUMNS)
    named = {_COLUMNS[ours]: values[name] for ours, name in usual.items() if name in values}
    found = values | named
    end = next((values[name] for name in values if name.lower() in _ENDS), None)
    if end not in (None, "") and "duration" not in found:
        try:
            begin = str(found.get("offset") or 0)
            found["duration"] = float(str(end).replace(",", ".")) - float(begin.replace(",", "."))
        except (TypeError, ValueError):
            found["duration"] = end  # refused as a time
    return found
