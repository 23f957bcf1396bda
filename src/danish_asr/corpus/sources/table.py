"""Tables of recordings: CSV (with commas or semicolons), TSV and JSON lines.

Comes in: a file, or all tables of a folder. Paths are relative to the table. Usual names of columns
are found (`columns.THEIR_NAMES`). Splits come from a column ``split``, in ``metadata.csv`` and
``metadata.jsonl``, as `datasets` has them in an audiofolder, from the recording's folder.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.base.tables import CSV_FORMS, Row, read_rows
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.columns import (
    THEIR_NAMES,
    check_chosen,
    check_columns,
    columns_of,
    record_keys,
    values_of,
)
from danish_asr.corpus.rows import Source, check_recordings, split_of_path, table_of
from danish_asr.corpus.sources.recordings import fetch_files, recordings
from danish_asr.corpus.sources.timed_files import is_transcript

SUFFIXES: Final = (".jsonl", ".json", *CSV_FORMS)

_NESTED_TIME: Final = re.compile(r'(?i)"(start|end|begin|offset|from|to|timestamp)":')


def open_table(location: str, options: ConvertOptions) -> Source:
    """Read a table, or all tables of a folder."""
    path = Path(location)
    recordings.cache_clear()
    root = (path if path.is_dir() else path.parent).resolve()
    tables = tables_in(path) if path.is_dir() else [root / path.name]
    reader = _Reader(root, options)
    rows = table_of(chain.from_iterable(map(reader.records, tables)), options)
    check_chosen([*reader.names], options.columns)
    check_recordings(rows)
    read = ",".join(reader.columns.values()).split(",")
    ignored = (name for name in reader.names if name.lower() != "split" and name not in read)
    return Source(
        name=location,
        rows=rows,
        fetch=partial(fetch_files, root),
        columns=reader.columns,
        ignored=tuple(name or "a column without a name" for name in ignored),
    )


def tables_in(folder: Path) -> list[Path]:
    """The tables of a folder, and those of an audiofolder's parts."""
    root = folder.resolve()
    tables = {*root.glob("[!.]*"), *root.glob("*/metadata.*"), *root.glob("*/*/metadata.*")}
    if (root / "clips").is_dir():  # Common Voice: other tables have the same rows
        tables = {path for path in tables if split_of_path(PurePosixPath(path.name))}
    return sorted(
        path
        for path in tables
        if path.suffix.lower() in SUFFIXES and path.is_file() and _is_table(path)
    )


def _is_table(path: Path) -> bool:
    """Whether a file has rows about recordings: it is no Whisper's TSV and no other JSON."""
    if path.suffix.lower() == ".tsv":
        with path.open("rb") as file:
            return file.readline().split() != [b"start", b"end", b"text"]
    if path.suffix.lower() != ".json":
        return True
    names = {
        name.lower() for row in islice(read_rows(path, SourceError), 3) for name in row.values or ()
    }
    return not names.isdisjoint(THEIR_NAMES["audio"]) and not is_transcript(path)


@dataclass
class _Reader:
    """Reads tables; collects the names of their columns, and which were read by ours."""

    root: Path
    options: ConvertOptions
    names: dict[str, None] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)

    def records(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """The records of a table."""
        file, folder = path.relative_to(self.root).as_posix(), path.parent.relative_to(self.root)
        by_folder = path.stem.lower() == "metadata"
        names: dict[str, None] = {}
        keys_of: dict[tuple[str, ...], dict[str, str]] = {}
        split = ""
        for row, (line, values, _) in enumerate(read_rows(path, SourceError)):
            record = {"file": file, "row": row, "line": line}
            if values is None:
                yield record | {"split": split, "refused": "malformed row"}
                continue
            own_names = tuple(values)
            if own_names not in keys_of:
                names |= dict.fromkeys(own_names)
                columns = columns_of(own_names, self.options.columns)
                keys_of[own_names] = record_keys(own_names, columns)
                _check_nested(f"{file}: line {line}", values, keys_of[own_names])
            own = {key: values_of(values, theirs) for key, theirs in keys_of[own_names].items()}
            if isinstance(own.get("audio"), str) and own["audio"]:
                own["audio"] = (folder / own["audio"]).as_posix()
            split = str(own.get("split") or "").strip()
            if by_folder and "split" not in own:
                split = split_of_path(PurePosixPath(str(own.get("audio"))).parent) or ""
            yield record | own | {"split": split}
        if names:
            columns = columns_of([*names], self.options.columns)
            check_columns(file, [*names], columns)
            _check_times(file, columns, self.options)
            self.names |= names
            self.columns |= columns


def _check_nested(where: str, values: Row, keys: Mapping[str, str]) -> None:
    """Refuse rows whose only times are inside a column: all of the audio would get the text."""
    if any(key.startswith("start") for key in keys):
        return
    for name, value in values.items():
        if isinstance(value, list | dict) and _NESTED_TIME.search(json.dumps(value)):
            raise SourceError(
                f"{where} has times inside its column {name}, as Label Studio and other programs "
                "write them; export SRT, or write a table with path,start,end,text,speaker"
            )


def _check_times(file: str, columns: Mapping[str, str], options: ConvertOptions) -> None:
    """Raise `SourceError` for a time of which one end is found, and the user chose none."""
    times = {"start", "seconds", "end"}
    one_end = [{"start"}, {"end"}, {"end", "seconds"}]
    if columns.keys() & times in one_end and not options.columns.keys() & times:
        names = ", ".join(columns[ours] for ours in sorted(columns.keys() & times))
        raise SourceError(
            f"{file}: found the time {names}, and not its other end; name both ends, in seconds: "
            "--column start=COLUMN --column end=COLUMN (nothing after the = for none)"
        )
