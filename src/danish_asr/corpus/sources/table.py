"""Tables of recordings: CSV (with commas or semicolons), TSV and JSON lines.

Comes in: a file, or all tables of a folder. Paths are relative to the table. Usual names of columns
are found (`rows.USUAL_NAMES`). Splits come from a column ``split``, in ``metadata.csv`` and
``metadata.jsonl``, as `datasets` has them in an audiofolder, from the recording's folder.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.base.schema import SPLIT_ALIASES, SPLITS
from danish_asr.base.tables import CSV_FORMS, Row, read_rows
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.rows import (
    USUAL_NAMES,
    Source,
    check_chosen,
    check_columns,
    check_recordings,
    columns_of,
    key_of,
    split_of_path,
    table_of,
    values_of,
)
from danish_asr.corpus.sources.recordings import fetch_files, recordings

SUFFIXES: Final = (".jsonl", ".json", *CSV_FORMS)

_TIME: Final = re.compile(
    r"begin|start|onset|offset|slut|stop|[tx]min|[tx]max"
    r"|(from|to|fra|til|beg|end|ends)$"
)
"""The beginning of a word, or a whole word, in names of columns that hold times."""

_LENGTH: Final = re.compile(r"(dur|length|længde|varighed)|len$")
_WORD: Final = re.compile(r"[^\W\d_]?[^\W\d_A-ZÆØÅ]+|[A-ZÆØÅ]+")
_NESTED_TIMES: Final = frozenset(("start", "end", "begin", "offset", "from", "to", "timestamp"))

_Names = dict[tuple[str, ...], list[tuple[str, str]]]


def open_table(location: str, options: ConvertOptions) -> Source:
    """Read a table, or all tables of a folder."""
    path = Path(location)
    if not path.exists():
        raise SourceError(f"{location}: no such file or folder")
    recordings.cache_clear()
    root = (path if path.is_dir() else path.parent).resolve()
    tables = tables_in(path) if path.is_dir() else [root / path.name]
    if not tables:
        raise SourceError(f"{location}: found no table of recordings ({', '.join(SUFFIXES)})")
    names: dict[str, None] = {}
    read: dict[str, str] = {}
    records = chain.from_iterable(_records(root, table, options, names, read) for table in tables)
    rows = table_of(records, options)
    check_chosen([*names], options.columns)
    check_recordings(rows)
    ignored = tuple(
        name or "a column without a name"
        for name in names
        if name.lower() != "split" and name not in ",".join(read.values()).split(",")
    )
    return Source(
        name=location, rows=rows, fetch=partial(fetch_files, root), columns=read, ignored=ignored
    )


def tables_in(folder: Path) -> list[Path]:
    """The tables of a folder, and those of an audiofolder's parts."""
    root = folder.resolve()
    tops = [path for path in root.glob("[!.]*") if path.is_file()]
    parts = chain(root.glob("*/metadata.*"), root.glob("*/*/metadata.*"))
    found = sorted({*tops, *filter(Path.is_file, parts)})
    if (root / "clips").is_dir():  # Common Voice: other tables have the same rows
        found = [path for path in found if split_of_path(PurePosixPath(path.name))]
    return [path for path in found if path.suffix.lower() in SUFFIXES and _is_table(path)]


def _is_table(path: Path) -> bool:
    """Whether a file has rows about recordings: it is no Whisper's TSV and no object in JSON."""
    suffix = path.suffix.lower()
    if suffix not in {".json", ".tsv"}:
        return True
    with path.open("rb") as file:
        line, *more = [*islice(filter(None, map(bytes.strip, file)), 2)] or [b""]
    if suffix == ".tsv":
        return line.split() != [b"start", b"end", b"text"]
    if line.startswith(b"["):
        return line[1:].lstrip()[:1] in {b"", b"{"}
    try:
        row = json.loads(line)
    except ValueError:
        return False
    is_row = isinstance(row, dict) and not {*map(str.lower, row)}.isdisjoint(USUAL_NAMES["audio"])
    return isinstance(row, dict) and (is_row or bool(more))


def _records(
    root: Path,
    path: Path,
    options: ConvertOptions,
    all_names: dict[str, None],
    read: dict[str, str],
) -> Iterator[Mapping[str, Any]]:
    """The records of a table; ``all_names`` and ``read`` get the names of its columns."""
    file, folder = path.relative_to(root).as_posix(), path.parent.relative_to(root).as_posix()
    prefix = "" if folder == "." else f"{folder}/"
    names: dict[str, None] = {}
    keys_of: _Names = {}
    split, count, fault = "", 0, ""
    by_folder = path.stem.lower() == "metadata"
    for row, (line, values, why) in enumerate(read_rows(path, SourceError)):
        count += 1
        record = {"file": file, "row": row, "line": line, "split": split}
        if values is None:
            fault = fault or f"line {line}: {why}"
            yield record | {"refused": "malformed row"}
            continue
        own_names = tuple(values)
        if own_names not in keys_of:
            names |= dict.fromkeys(own_names)
            keys_of[own_names] = _keys(own_names, options)
            _check_nested(file, line, values, keys_of[own_names])
        own = {key: values_of(values, theirs) for key, theirs in keys_of[own_names]}
        own["audio"] = _path(own.get("audio"), prefix)
        split = str(own.get("split") or "").strip()
        if by_folder and "split" not in own:
            split = _split_folder(str(own["audio"] or ""))
        yield record | own | {"split": split}
    if count and not names:
        raise SourceError(f"{file}: none of its {count:,} rows can be read; {fault}")
    if count:
        columns = columns_of([*names], options.columns)
        check_columns(file, [*names], columns)
        _check_times(file, [*names], columns, options)
        all_names |= names
        read |= columns


def _keys(names: Sequence[str], options: ConvertOptions) -> list[tuple[str, str]]:
    """The keys of a record with the names of columns that a row has for them."""
    columns = columns_of(names, options.columns)
    keys = [(key_of(ours, theirs), theirs) for ours, theirs in columns.items()]
    return keys + [("split", name) for name in names if name.lower() == "split"][:1]


def _path(value: Any, prefix: str) -> Any:
    if isinstance(value, dict):  # as `datasets` writes it
        value = value.get("path")
    if not isinstance(value, str) or not value or value.startswith("/"):
        return value or None
    return prefix + value


def _split_folder(path: str) -> str:
    """The folder of a path that names a split, or ''."""
    folders = PurePosixPath(path).parts[:-1]
    return next((name for name in folders if name.lower() in {*SPLITS, *SPLIT_ALIASES}), "")


def _check_nested(file: str, line: int, values: Row, keys: Sequence[tuple[str, str]]) -> None:
    """Refuse rows whose only times are inside a column: all of the audio would get the text."""
    if any(key.startswith("start") for key, _ in keys):
        return
    for name, value in values.items():
        if isinstance(value, list | dict) and not _NESTED_TIMES.isdisjoint(_keys_inside(value)):
            raise SourceError(
                f"{file}: line {line} has times inside its column {name}, as Label Studio "
                "and other programs write them; export SRT, or write a table with "
                "path,start,end,text,speaker"
            )


def _keys_inside(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (str(key).lower() for key in value)
    for inside in value.values() if isinstance(value, dict) else value:
        if isinstance(inside, list | dict):
            yield from _keys_inside(inside)


def _check_times(
    file: str, names: Sequence[str], columns: Mapping[str, str], options: ConvertOptions
) -> None:
    """Raise `SourceError` for a time of which one end is found, beside other columns of times."""
    decided = {*options.columns, *columns}
    patterns = [_TIME] if "seconds" in columns else [_TIME, _LENGTH]
    others = (name for name in names if name not in columns.values())
    unread = [name for name in others if _is_like(name, patterns)]
    has_both = "start" in decided and decided & {"seconds", "end"}
    found = [columns[ours] for ours in ("start", "seconds", "end") if ours in columns]
    if found and unread and not has_both:
        raise SourceError(
            f"{file}: found the time {', '.join(found)}, and not what {', '.join(unread)} are; "
            "name both ends, in seconds: --column start=COLUMN --column end=COLUMN (nothing after "
            "the = for none)"
        )


def _is_like(name: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    return any(pattern.match(word) for word in words for pattern in patterns)
