"""Manifests: JSON lines, CSV (with commas or semicolons) or TSV with the paths of audio files.

Paths are relative to the manifest. NeMo's keys and other usual names of columns are found
(`base.USUAL_NAMES`). Without ``--split``, each value of a column ``split`` makes a source file.
A line that is not a JSON object, or has more or fewer fields than the header, is a row as well: it
goes to the ledger. TSV has no quoting.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from danish_asr.base.errors import SourceError
from danish_asr.base.tables import CSV_FORMS, Row, TableRow, read_rows
from danish_asr.corpus.sources import base
from danish_asr.corpus.sources.metadata import utterance

SUFFIXES: Final = (".jsonl", ".json", *CSV_FORMS)

_COLUMNS: Final = base.COLUMNS | {"start": "offset", "seconds": "duration", "end": "end"}


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
        lines = (table_row.line for split, table_row in _with_splits(path) if wanted in {"", split})
        return f"{path.name}, line {next(islice(lines, row, None))}"

    def _path(self, file: base.SourceFile) -> tuple[Path, str]:
        """The manifest of a file, and the value of its column ``split``, '' for all."""
        path, mark, split = file.name.rpartition("#")
        if mark and not (self.root / file.name).is_file():
            return self.root / path, split
        return self.root / file.name, ""

    def _rows(
        self, file: base.SourceFile, start: int, stop: int
    ) -> Iterator[tuple[int, Row | None]]:
        path, wanted = self._path(file)

        def rows(first: int) -> Iterator[TableRow]:
            if not wanted:
                return read_rows(path, SourceError, first)
            of_split = (table_row for split, table_row in _with_splits(path) if split == wanted)
            return islice(of_split, first, None)

        key = path, wanted, file.fingerprint
        for row, table_row in enumerate(base.read_on(key, rows, start, stop), start):
            yield row, None if table_row.values is None else _with_usual_names(table_row.values)

    def _audio(self, values: Row) -> Path | None:
        path = values.get(self.columns["audio"])
        return self.root / path if path and isinstance(path, str) else None


def open_manifest(location: str, options: base.SourceOptions) -> ManifestSource:
    """Open a manifest, or all manifests of a folder."""
    columns = options.checked_columns(_COLUMNS)
    path = Path(location)
    if not path.exists():
        raise SourceError(f"{location}: no such file or folder")
    listing = base.FileListing(location, options, f"manifest ({', '.join(SUFFIXES)})")
    for manifest in sorted(path.glob("[!.]*")) if path.is_dir() else [path]:
        if manifest.suffix in SUFFIXES and manifest.is_file():
            _add_manifest(manifest, columns, listing)
    return ManifestSource(
        name=location,
        files=listing.checked(),
        notes=listing.notes(),
        root=(path if path.is_dir() else path.parent).resolve(),
        columns=columns,
    )


def _add_manifest(path: Path, columns: base.Columns, listing: base.FileListing) -> None:
    """Add the file of each split of a manifest."""
    options = listing.options
    names: dict[str, None] = {}
    rows_of: Counter[str] = Counter()
    first_fault = ""
    for split, table_row in _with_splits(path):
        names |= dict.fromkeys(table_row.values or ())
        rows_of["" if options.split else split] += 1
        first_fault = first_fault or f"line {table_row.line}: {table_row.fault}"
    if rows_of and not names:
        raise SourceError(
            f"{path.name}: none of its {rows_of.total():,} rows can be read; {first_fault}"
        )
    own_columns = base.usual_columns(columns, names, _COLUMNS)
    also_read = [name for name in names if name.lower() == "split"]
    for split, rows in sorted((rows_of or {"": 0}).items()):
        try:
            own_split = options.split_of(PurePosixPath(split or path.name))
        except SourceError as error:
            raise SourceError(f"{path}: {error}") from None
        file = base.SourceFile(
            name=f"{path.name}#{split}" if split else path.name,
            corpus=options.checked_corpus(),
            split=own_split,
            row_groups=base.row_groups(rows),
            fingerprint=base.fingerprint(path),
        )
        listing.add(file, names, own_columns, *also_read)


def _with_splits(path: Path) -> Iterator[tuple[str, TableRow]]:
    """Yield rows with their values of ``split``; a malformed row stays with the one before it."""
    split = ""
    for row in read_rows(path, SourceError):
        if row.values is not None:
            name = next((name for name in row.values if name.lower() == "split"), "split")
            split = str(row.values.get(name) or "").strip()
        yield split, row


def _with_usual_names(values: Row) -> Row:
    """Add our default names of columns, where a row has them under other usual names."""
    columns = base.usual_columns(_COLUMNS, values, _COLUMNS)
    return values | {
        _COLUMNS[ours]: values[theirs] for ours, theirs in columns.items() if theirs in values
    }
