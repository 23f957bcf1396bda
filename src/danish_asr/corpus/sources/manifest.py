"""Manifests: JSON lines, CSV (with commas or semicolons) or TSV with the paths of audio files.

Paths are relative to the manifest. NeMo's keys and other usual names of columns are found
(`base.USUAL_NAMES`). Without ``--split``, each value of a column ``split`` makes a source file; in
``metadata.csv`` and ``metadata.jsonl``, as ``datasets`` has them in an audiofolder, each folder.
A line that is not a JSON object, or has more or fewer fields than the header, is a row as well: it
goes to the ledger. TSV has no quoting.
"""

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Final

import pyarrow as pa

from danish_asr.base.errors import SourceError
from danish_asr.base.schema import SPLIT_ALIASES, SPLITS
from danish_asr.base.tables import CSV_FORMS, Row, TableRow, read_rows
from danish_asr.corpus.sources import base
from danish_asr.corpus.sources.ambiguous import (
    WholeRecordings,
    check_texts,
    check_times,
    time_columns,
)
from danish_asr.corpus.sources.metadata import row_id, utterance
from danish_asr.corpus.sources.recordings import recordings, with_ending
from danish_asr.corpus.sources.unknown import unpacking

SUFFIXES: Final = (".jsonl", ".json", *CSV_FORMS)

_COLUMNS: Final = base.COLUMNS | {"start": "offset", "seconds": "duration", "end": "end"}


@dataclass(frozen=True, kw_only=True)
class ManifestSource(base.Source):
    """A `Source` over manifests below ``root``; ``NAME#SPLIT`` are the rows of one split."""

    root: Path
    splits: Mapping[str, str | None]  # what a file's rows have in ``split``; None for all rows
    columns: base.Columns
    has_ids: bool

    def read(self, file: base.SourceFile, start: int, stop: int) -> Iterator[base.Utterance]:
        """See `Source.read`."""
        folder = self._path(file).parent
        for row, values in self.rows(file, start, stop):
            with_path = values and values | {self.columns["audio"]: self._audio(folder, values)}
            yield utterance(with_path, self.columns, file, row)

    def ids(self, file: base.SourceFile) -> pa.Array:
        """See `Source.ids`."""
        rows: Iterable[tuple[int, Row | None]] = ((row, None) for row in range(file.rows))
        rows = self.rows(file, 0, file.rows) if self.has_ids else rows
        ids = (row_id(values, self.columns, file, row) for row, values in rows)
        return pa.array(ids, pa.string())

    def local_files(self, file: base.SourceFile) -> Iterator[Path]:
        """See `Source.local_files`."""
        path = self._path(file)
        yield path
        for _, values in self.rows(file, 0, file.rows):
            audio = self._audio(path.parent, values) if values else None
            if audio is not None:
                yield audio

    def place(self, file: base.SourceFile, row: int) -> str:
        """See `Source.place`. Names the line."""
        path, wanted = self._path(file), self.splits[file.name]
        rows = (table_row for split, table_row in _with_splits(path) if wanted in {None, split})
        return f"{path.relative_to(self.root)}, line {next(islice(rows, row, None)).line}"

    def _path(self, file: base.SourceFile) -> Path:
        split = self.splits[file.name]
        return self.root / (file.name.removesuffix(f"#{split}") if split else file.name)

    def rows(
        self, file: base.SourceFile, start: int, stop: int
    ) -> Iterator[tuple[int, Row | None]]:
        """Yield the positions and the values of rows; None for one that is malformed."""
        path, wanted = self._path(file), self.splits[file.name]

        def rows(first: int) -> Iterator[TableRow]:
            if wanted is None:
                return read_rows(path, SourceError, first)
            of_split = (table_row for split, table_row in _with_splits(path) if split == wanted)
            return islice(of_split, first, None)

        key = path, wanted, file.fingerprint
        for row, table_row in enumerate(base.read_on(key, rows, start, stop), start):
            yield row, None if table_row.values is None else _with_usual_names(table_row.values)

    def _audio(self, folder: Path, values: Row) -> Path | None:
        path = values.get(self.columns["audio"])
        if isinstance(path, dict):  # as `datasets` writes it
            path = path.get("path")
        if not path or not isinstance(path, str):
            return None
        usual = path.strip().replace("\\", "/")  # written on Windows, or with spaces around it
        own = folder / (path if path == usual or (folder / path).is_file() else usual)
        return with_ending(own, self.root)


def open_manifest(location: str, options: base.SourceOptions) -> ManifestSource:
    """Open a manifest, or all manifests of a folder."""
    recordings.cache_clear()
    columns = options.checked_columns(_COLUMNS)
    path = Path(location)
    if not path.exists():
        raise SourceError(f"{location}: no such file or folder")
    listing = base.FileListing(location, options, f"manifest ({', '.join(SUFFIXES)})")
    root = (path if path.is_dir() else path.parent).resolve()
    manifests, others = _manifests(path) if path.is_dir() else ([root / path.name], [])
    splits: dict[str, str | None] = {}
    notes = [f"no manifest, ignored: {', '.join(other.name for other in others)}"] if others else []
    for manifest in manifests:
        own_splits, own_notes = _add_manifest(root, manifest, columns, listing)
        splits |= own_splits
        notes += own_notes
    source = ManifestSource(
        name=location,
        files=listing.checked(),
        root=root,
        splits=splits,
        columns=columns,
        has_ids=not listing.names.keys().isdisjoint(columns["id"].split(",")),
    )
    return replace(source, notes=(*notes, *listing.notes(), *_audio_notes(source)))


def _audio_notes(source: ManifestSource) -> Iterator[str]:
    """What the first row shows of the names of recordings; raises if they are in archives."""
    file = next(file for file in source.files if file.rows)
    (row,) = source.read(file, 0, 1)
    ((_, values),) = source.rows(file, 0, 1)
    if values is None or not isinstance(row.audio, Path):
        return
    if not row.audio.is_file() and (archives := sorted(source.root.glob("*.tar"))):
        raise SourceError(f"{row.audio}: there is no such file, and {unpacking(archives[0])}")
    name = PurePosixPath(str(values[source.columns["audio"]])).name
    if row.audio.stem == name:
        yield f"names without an ending are those of recordings: {name} is {row.audio.name}"


def has_manifest(folder: Path) -> str | bool:
    """The name of a folder's first manifest; False if it has none."""
    return next((path.name for path in _manifests(folder)[0]), False)


def _manifests(folder: Path) -> tuple[list[Path], list[Path]]:
    """The manifests of a folder and of an audiofolder's parts, and what only looks like one."""
    found: tuple[list[Path], list[Path]] = [], []
    root = folder.resolve()
    tops = [path for path in root.glob("[!.]*") if path.is_file()]
    parts = chain(root.glob("*/metadata.*"), root.glob("*/*/metadata.*"))
    for path in sorted({*tops, *filter(Path.is_file, parts)}):
        if path.suffix.lower() in SUFFIXES:
            found[_is_foreign(path)].append(path)
    return found


def _is_foreign(path: Path) -> bool:
    """Whether a table is Whisper's, or a file in JSON is one object and no list of recordings."""
    suffix = path.suffix.lower()
    if suffix not in {".json", ".tsv"}:
        return False
    with path.open("rb") as file:
        line, *more = [*islice(filter(None, map(bytes.strip, file)), 2)] or [b""]
    if suffix == ".tsv":
        return line.split() == [b"start", b"end", b"text"]
    if line.startswith(b"["):
        return line[1:].lstrip()[:1] not in {b"", b"{"}
    try:
        row = json.loads(line)
    except ValueError:
        return True
    names = {"audio", *base.USUAL_NAMES["audio"]}
    return not isinstance(row, dict) or (not more and names.isdisjoint(map(str.lower, row)))


def _add_manifest(
    root: Path, path: Path, columns: base.Columns, listing: base.FileListing
) -> tuple[dict[str, str | None], list[str]]:
    """Add the file of each split of a manifest; return their `ManifestSource.splits` and notes."""
    options, name = listing.options, path.relative_to(root).as_posix()
    names: dict[str, None] = {}
    lines_of: dict[str, array[int]] = {}
    splits: dict[str, str | None] = {}
    notes: list[str] = []
    whole = WholeRecordings()
    first_fault = ""
    for split, table_row in _with_splits(path):
        names |= dict.fromkeys(table_row.values or ())
        own_lines = lines_of.setdefault("" if options.split else split, array("q"))
        own_lines.append(table_row.line)
        if table_row.values:
            whole.add(_with_usual_names(table_row.values), columns, table_row.line)
        first_fault = first_fault or f"line {table_row.line}: {table_row.fault}"
    if lines_of and not names:
        rows = sum(map(len, lines_of.values()))
        raise SourceError(f"{path.name}: none of its {rows:,} rows can be read; {first_fault}")
    own_columns = base.usual_columns(columns, names, _COLUMNS)
    if names:
        base.check_required(name, names, own_columns)
    check_texts(name, names, options)
    check_times(name, names, own_columns, options)
    whole.check(name, time_columns(names, own_columns))
    also_read = [name for name in names if name.lower() == "split"]
    for split, lines in sorted((lines_of or {"": array("q")}).items()):
        mixed = not split and len(lines_of) > 1
        own_split = _split_of(split, lines, root, name, options, mixed=mixed)
        if mixed:
            notes.append(f"{_no_split(name, lines)}; they are in {own_split}")
        file = base.SourceFile(
            name=f"{name}#{split}" if split else name,
            corpus=options.checked_corpus(),
            split=own_split,
            row_groups=base.row_groups(len(lines)),
            fingerprint=base.fingerprint(path),
        )
        splits[file.name] = split if len(lines_of) > 1 or split else None
        listing.add(file, names, own_columns, *also_read)
    return splits, notes


def _split_of(
    split: str,
    lines: Sequence[int],
    root: Path,
    name: str,
    options: base.SourceOptions,
    *,
    mixed: bool,
) -> str:
    """The split of the rows on ``lines``, from their value of ``split``, or from the file."""
    try:
        return options.split_of(PurePosixPath(split) if split else base.split_path(root, name))
    except SourceError as error:
        expected = f"expected one of {', '.join((*SPLITS, *SPLIT_ALIASES))} in the column split"
        fix = f"{expected}, or --split train for all rows"
        if split:
            found = f"{name}:{lines[0]}: {len(lines):,} rows have the split {split!r}"
            raise SourceError(f"{found}; {fix}") from None
        if mixed:
            raise SourceError(f"{_no_split(name, lines)}, and others have one; {fix}") from None
        raise SourceError(f"{root / name}: {error}") from None


def _no_split(name: str, lines: Sequence[int]) -> str:
    """What to say of rows without a split in a file in which others have one."""
    shown = ", ".join(map(str, lines[:3]))
    more = ", ..." if len(lines) > 3 else ""
    return f"{name}: {len(lines):,} rows have no split (lines {shown}{more})"


def _with_splits(path: Path) -> Iterator[tuple[str, TableRow]]:
    """Yield rows with their values of ``split``; a malformed row stays with the one before it."""
    split = ""
    by_folder = path.stem.lower() == "metadata"
    for row in read_rows(path, SourceError):
        if row.values is not None:
            name = next((name for name in row.values if name.lower() == "split"), "")
            if by_folder and not name:
                split = _split_folder(str(row.values.get("file_name") or ""))
            else:
                split = str((name and row.values[name]) or "").strip()
        yield split, row


def _split_folder(path: str) -> str:
    """The folder of a path that names a split, or ''."""
    folders = PurePosixPath(path).parts[:-1]
    return next((name for name in folders if name.lower() in {*SPLITS, *SPLIT_ALIASES}), "")


def _with_usual_names(values: Row) -> Row:
    """Add our default names of columns, where a row has them under other usual names."""
    renamed = _renamed(tuple(values))
    return values | {ours: values[theirs] for ours, theirs in renamed} if renamed else values


@lru_cache(maxsize=100)
def _renamed(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Our default names, and the other names that a row has for them."""
    columns = base.usual_columns(_COLUMNS, names, _COLUMNS)
    pairs = [(_COLUMNS[ours], theirs) for ours, theirs in columns.items() if theirs in names]
    return [(ours, theirs) for ours, theirs in pairs if ours != theirs]
