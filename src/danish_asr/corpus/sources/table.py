"""Tables of recordings: CSV (with commas or semicolons), TSV and JSON lines.

Comes in: a file, or all tables of a folder. Paths are relative to the table. Usual names of columns
are found (`columns.THEIR_NAMES`). Splits come from a column ``split``, in ``metadata.csv`` and
``metadata.jsonl``, as `datasets` has them in an audiofolder, from the recording's folder.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.base.folders import is_audio
from danish_asr.base.tables import CSV_FORMS, Row, read_rows
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.columns import TIMES, SourceColumns, values_of
from danish_asr.corpus.rows import Source, split_in, table_of
from danish_asr.corpus.sources.recordings import TextFolder, fetch_files, versions_of_files

SUFFIXES: Final = (".jsonl", ".json", *CSV_FORMS)

_UNUSUAL: Final = re.compile(r"(?:^|/)\.?(?:/|$)")
"""What `Path` does not write so: ``./a.wav``, ``/a.wav``, ``a//b.wav``."""

_SHOWN: Final = 5  # tables

_OF_PEOPLE: Final = {"speaker_id", "dialect", "age", "gender"}

_NESTED_TIME: Final = re.compile(r'(?i)"(start|end|begin|offset|from|to|timestamp)":')


def open_table(location: str, options: ConvertOptions, files: TextFolder) -> Source:
    """Read a table, or all tables of a folder."""
    path, root = Path(location), files.root
    tables = [root / path.name]
    if path.is_dir():
        tables = tables_in(files) or tables_of_people(files)
    hint = ""
    if all(map(_is_of_people, tables)):
        hint = ". A table of people is joined to their recordings in docs/howto/write-a-table.md"
        below = tables_below(files) if path.is_dir() else ()
        hint += "".join(f"; or name table:{path / own}" for own in below)
    columns = SourceColumns(options.columns, hint=hint)
    records = chain.from_iterable(_records(table, root, columns) for table in tables)
    rows = table_of(records, options)
    return Source(
        name=location,
        rows=rows,
        fetch=partial(fetch_files, root),
        versions=partial(versions_of_files, root),
        columns=columns.read,
        ignored=columns.ignored(),
    )


def tables_in(files: TextFolder) -> list[Path]:
    """The tables of a folder, and those of an audiofolder's parts; none are `tables_of_people`."""
    tables = {path for path in files.of(*SUFFIXES) if _is_in_place(path, files.root)}
    if (files.root / "clips").is_dir():  # Common Voice: other tables have the same rows
        tables = {path for path in tables if split_in(path.name)}
    beside = sorted(path for path in tables if files.is_beside(path) and _is_json(path))
    if any(map(files.is_transcript, beside)):  # all are then, and not parsed here
        tables -= {*beside}
    return sorted(path for path in tables if _is_table(path, files))


def has_rows(path: Path) -> bool:
    """Whether a table has columns of recordings and texts by their usual names."""
    try:
        return {"audio", "text"} <= _keys_in(path)
    except SourceError:  # which whoever reads all of it raises again
        return True


def tables_below(files: TextFolder) -> list[Path]:
    """Some tables below the folder, by their paths there, that are read only if they are named."""
    of_rows = (path for path in files.of(*CSV_FORMS, ".jsonl") if _is_table(path, files))
    below = sorted(path for path in of_rows if not _is_in_place(path, files.root))
    return [path.relative_to(files.root) for path in below[:_SHOWN]]


def tables_of_people(files: TextFolder) -> list[Path]:
    """The tables of a folder that tell about speakers, and have neither recordings nor texts."""
    tables = (path for path in files.of(*SUFFIXES) if _is_in_place(path, files.root))
    return [path for path in tables if not _is_json(path) and _is_of_people(path)]


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def _is_in_place(path: Path, root: Path) -> bool:
    """Whether a table lies where tables are read: in the root, or as metadata two folders deep."""
    depth = len(path.relative_to(root).parts)
    return depth == 1 or (depth <= 3 and path.name.startswith("metadata."))


def _is_table(path: Path, files: TextFolder) -> bool:
    """Whether a file has rows about recordings: it is no Whisper's TSV and no other JSON."""
    if _is_json(path):
        return "audio" in _keys_in(path) and not files.is_transcript(path)
    with path.open("rb") as file:
        is_whispers = file.readline().split() == [b"start", b"end", b"text"]
    return not is_whispers and not _is_of_people(path)


def _is_of_people(path: Path) -> bool:
    try:
        keys = _keys_in(path)
    except SourceError:  # which whoever reads all of it raises again
        return False
    return keys.isdisjoint({"audio", "text"}) and not keys.isdisjoint(_OF_PEOPLE)


def _keys_in(path: Path) -> set[str]:
    """Our names of the columns of the first rows."""
    rows = islice(read_rows(path, SourceError), 3)
    return {key for row in rows for key in SourceColumns({}).of([*(row.values or ())])}


def _records(path: Path, root: Path, columns: SourceColumns) -> Iterator[Mapping[str, Any]]:
    """The records of a table below ``root``."""
    file = path.relative_to(root).as_posix()
    folder = file.removesuffix(path.name)
    keys_of: dict[tuple[str, ...], dict[str, str]] = {}  # rows of JSON lines differ
    is_metadata, split = path.stem.lower() == "metadata", None
    rows = read_rows(path, SourceError, is_file=is_audio)
    for row, (line, values, _) in enumerate(rows):
        record = {"file": file, "row": row, "line": line, "split": split}
        if values is None:
            yield record | {"refused": "malformed row"}
            continue
        names = tuple(values)
        if names not in keys_of:
            keys_of[names] = columns.of(names)
            _check_nested(f"{file}: line {line}", values, keys_of[names])
        own = values_of(values, keys_of[names])
        if own.get("audio") and isinstance(own["audio"], str):
            own["audio"] = _below(folder, own["audio"])
        if is_metadata:
            own.setdefault("split", split_in(str(own.get("audio")).rpartition("/")[0]))
        split = own.setdefault("split", None)
        yield record | own
    if keys_of:
        names = tuple(dict.fromkeys(chain.from_iterable(keys_of)))
        _check_times(file, columns.add(file, names, keys_of.values()), columns.chosen)


def _below(folder: str, name: str) -> str:
    """The path of a name below a folder, as `Path` writes it, without its cost for each row."""
    return Path(folder, name).as_posix() if _UNUSUAL.search(name) else folder + name


def _check_nested(where: str, values: Row, keys: Mapping[str, str]) -> None:
    """Refuse rows whose only times are inside a column: all of the audio would get the text."""
    if any(key.startswith("start") for key in keys):
        return
    for name, value in values.items():
        if isinstance(value, list | dict) and _has_times(name, value):
            raise SourceError(
                f"{where} has times inside its column {name}, as Label Studio and other programs "
                "write them; export SRT, or write a table with path,start,end,text,speaker"
            )


def _has_times(name: str, value: list[Any] | dict[str, Any]) -> bool:
    """Whether a nested value has times that are not those of single words."""
    is_of_words = name.lower() == "words" or (
        isinstance(value, list) and all(isinstance(own, dict) and "word" in own for own in value)
    )
    return not is_of_words and bool(_NESTED_TIME.search(json.dumps(value)))


def _check_times(file: str, keys: Mapping[str, str], chosen: Mapping[str, str]) -> None:
    """Raise `SourceError` for a time of which one end is there, and the user chose none."""
    times = {key.removesuffix("_ms"): keys[key] for key in keys if key.startswith(TIMES)}
    one_end = [{"start"}, {"end"}, {"end", "seconds"}]
    if times.keys() in one_end and chosen.keys().isdisjoint(TIMES):
        raise SourceError(
            f"{file}: found the time {', '.join(times.values())}, and not its other end; name both "
            "ends, in seconds: --column start=COLUMN --column end=COLUMN (nothing after the = for "
            "none)"
        )
