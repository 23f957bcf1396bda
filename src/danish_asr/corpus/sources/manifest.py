"""Manifests: JSON lines, CSV (with commas or semicolons) or TSV with the paths of audio files.

Paths are relative to the manifest. NeMo's keys and other usual names of columns are found
(`columns.USUAL_NAMES`). Without ``--split``, each value of a column ``split`` makes a source file.
A line that is not a JSON object, or has more or fewer fields than the header, is a row as well: it
goes to the ledger. TSV has no quoting.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.base.schema import SPLIT_ALIASES, SPLITS
from danish_asr.base.tables import CSV_FORMS, Row, read_rows
from danish_asr.corpus.sources import base
from danish_asr.corpus.sources.columns import FileListing, usual_columns
from danish_asr.corpus.sources.metadata import utterance

SUFFIXES: Final = (".jsonl", ".json", *CSV_FORMS)

_COLUMNS: Final = base.COLUMNS | {"start": "offset", "seconds": "duration"}
_ENDS: Final = ("end", "end_time")  # instead of a duration

_CSV_ROWS: Final = "as many fields in each row as in the header"
_JSON_ROWS: Final = (
    "an object on each line; `jq -c '.[]' FILE > NEW.jsonl` makes such lines of a JSON array"
)


@dataclass(frozen=True, kw_only=True)
class ManifestSource(base.Source):
    """A `Source` over manifests below ``root``; ``NAME#SPLIT`` are the rows of one split."""

    root: Path
    columns: base.Columns

    def read(self, file: base.SourceFile, start: int, stop: int) -> Iterator[base.Utterance]:
        """See `Source.read`."""
        for row, values in self._rows(file, start, stop):
            with_path = values and values | {self.columns["audio"]: self._audio(values)}
            yield utterance(with_path, self.columns, file, row)

    def local_files(self, file: base.SourceFile) -> Iterator[Path]:
        """See `Source.local_files`."""
        yield self._path(file)[0]
        for _, values in self._rows(file, 0, file.rows):
            audio = self._audio(values) if values else None
            if audio is not None:
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

    def _rows(
        self, file: base.SourceFile, start: int, stop: int
    ) -> Iterator[tuple[int, Row | None]]:
        path, wanted = self._path(file)
        rows: Iterator[Row | None]
        if wanted is None:
            rows = (row.values for row in read_rows(path, SourceError, start, stop))
        else:
            of_split = (values for split, _, values in _with_splits(path) if split == wanted)
            rows = islice(of_split, start, stop)
        for row, values in enumerate(rows, start):
            yield row, None if values is None else _with_usual_names(values)

    def _audio(self, values: Row) -> Path | None:
        path = values.get(self.columns["audio"])
        return self.root / path if path and isinstance(path, str) else None


def open_manifest(location: str, options: base.SourceOptions) -> ManifestSource:
    """Open a manifest, or all manifests of a folder."""
    columns = options.checked_columns(_COLUMNS)
    options.checked_corpus()
    place = Path(location)
    if not place.exists():
        raise SourceError(f"{location}: no such file or folder")
    listing = FileListing(location, options, f"manifest ({', '.join(SUFFIXES)})")
    for path in sorted(place.glob("[!.]*")) if place.is_dir() else [place]:
        if path.suffix in SUFFIXES and path.is_file():
            _add_manifest(path, columns, options, listing)
    return ManifestSource(
        name=location,
        files=listing.checked(),
        notes=listing.notes(),
        root=(place if place.is_dir() else place.parent).resolve(),
        columns=columns,
    )


def _add_manifest(
    path: Path, columns: base.Columns, options: base.SourceOptions, listing: FileListing
) -> None:
    """Add the file of each split of a manifest."""
    keys: dict[str, None] = {}
    rows_of: Counter[str] = Counter()
    first_line: dict[str, int] = {}
    for split, line, values in _with_splits(path):
        keys |= dict.fromkeys(values or ())
        rows_of["" if options.split else split] += 1
        first_line.setdefault(split, line)
    if rows_of and not keys:
        raise SourceError(
            f"{path.name}: none of its {rows_of.total():,} rows can be read; expected "
            f"{_CSV_ROWS if path.suffix in CSV_FORMS else _JSON_ROWS}"
        )
    own_columns = usual_columns(columns, keys, _COLUMNS)
    also_read = [key for key in keys if key.lower() in {"split", *_ENDS}]
    for split, rows in sorted((rows_of or {"": 0}).items()):
        file = base.SourceFile(
            name=f"{path.name}#{split}" if split else path.name,
            corpus=options.checked_corpus(),
            split=_split_of(split, path.name, first_line.get(split), keys, options),
            row_groups=base.row_groups(rows),
            fingerprint=base.fingerprint(path),
        )
        listing.add(file, keys, own_columns, also_read)


def _split_of(
    value: str, name: str, line: int | None, keys: Collection[str], options: base.SourceOptions
) -> str:
    try:
        return options.split_of(PurePosixPath(value or name))
    except SourceError:
        if options.split or not any(key.lower() == "split" for key in keys):
            raise
        raise SourceError(
            f"{name}, line {line}: the column split has {value!r}; expected one of "
            f"{', '.join((*SPLITS, *SPLIT_ALIASES))} in each row, or --split train for all rows"
        ) from None


def _with_splits(path: Path) -> Iterator[tuple[str, int, Row | None]]:
    """Yield the column ``split``, line and values of rows.

    A malformed row stays with the row before it.
    """
    split = ""
    for line, values, _ in read_rows(path, SourceError):
        if values is not None:
            name = next((key for key in values if key.lower() == "split"), "split")
            split = str(values.get(name) or "").strip()
        yield split, line, values


def _with_usual_names(values: Row) -> Row:
    """Add our default names of columns, where a row has them under other usual names."""
    columns = usual_columns(_COLUMNS, values, _COLUMNS)
    named = values | {
        _COLUMNS[ours]: values[theirs] for ours, theirs in columns.items() if theirs in values
    }
    ends = [values[key] for key in values if key.lower() in _ENDS]
    if ends and ends[0] not in (None, "") and "duration" not in named:
        try:
            named["duration"] = _number(ends[0]) - _number(named.get("offset") or 0)
        except ValueError:
            named["duration"] = ends[0]  # refused as a time
    return named


def _number(value: Any) -> float:
    return float(str(value).replace(",", "."))
