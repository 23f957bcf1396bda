"""Rows of tables: JSON lines, CSV, TSV and sclite's trn, also compressed by gzip, and Parquet."""

import csv
import gzip
import json
import re
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.files import decode_line, utf8_fault

Row: TypeAlias = dict[str, Any]

CSV_FORMS: Final[dict[str, dict[str, Any]]] = {
    ".csv": {"strict": True},
    ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},
}
"""How Python's csv module reads a suffix. A CSV has one of `_DELIMITERS`; with ``|``, quotes count
if its header has some."""

_DELIMITERS: Final = (",", ";", "\t", "|")
"""The one that the header has most of; the first if it has none."""

_QUOTES: Final = (
    "expected a field that begins with a quote to be in quotes, and those inside doubled: "
    '"ja, ""tak""" (or write TSV, in which quotes are text)'
)

TABLE_SUFFIXES: Final = (".jsonl", ".json", *CSV_FORMS, ".parquet")

TRN: Final = ".trn"
"""Lines of ``text (speaker-utterance)``, as NIST's sclite reads them."""

TRN_MARKUP: Final = str.maketrans("(){}@;", "（）｛｝＠；")
"""What sclite reads as alternatives, optional words, the empty word and comments, and the
full-width forms that stand for it in the texts that are written here."""

_TRN_TEXT: Final = {wide: narrow for narrow, wide in TRN_MARKUP.items()}
_TRN_READ_BY_SCLITE: Final = re.compile(r"[(){}]|(?<!\S)@(?!\S)")

_GZIP_MAGIC: Final = b"\x1f\x8b"
_NOT_READ: Final = {
    b"BZh": "is compressed by bzip2; expected plain text or gzip: bunzip2 FILE",
    b"\xfd7zXZ": "is compressed by xz; expected plain text or gzip: unxz FILE",
    b"\x28\xb5\x2f\xfd": "is compressed by zstd; expected plain text or gzip: unzstd FILE",
    b"PK\x03\x04": "is a zip archive or a spreadsheet; unpack it, or save the sheet as CSV (UTF-8)",
    b"PAR1": "is Parquet; expected the name to end in .parquet",
    BOM_UTF16_LE: "is UTF-16 or UTF-32; expected UTF-8: iconv -f UTF-16 -t UTF-8 (or UTF-32)",
    BOM_UTF16_BE: "is UTF-16; expected UTF-8: iconv -f UTF-16 -t UTF-8",
    b"\0\0\xfe\xff": "is UTF-32; expected UTF-8: iconv -f UTF-32 -t UTF-8",
}
"""First bytes of files that users have, and what to do with them."""

_TRN_LINE: Final = re.compile(r"(.*?)\s*\(([^()\s]+)\)\s*")
_ESCAPED: Final = re.compile(rb"\\u[dD][89a-fA-F]")  # of a pair, or half of one
_HALF: Final = re.compile("[\ud800-\udfff]")


class TableRow(NamedTuple):
    """One row; ``values`` is None if it is malformed, and ``fault`` says why."""

    line: int  # its first line in the file, from 1; in Parquet the number of the row
    values: Row | None
    fault: str = ""


def suffix_of(path: Path) -> str:
    """The suffix that says what a file contains, in lower case: that before ``.gz``."""
    suffix = path.suffix.lower()
    return path.with_suffix("").suffix.lower() if suffix == ".gz" else suffix


def read_rows(
    path: Path,
    error: type[DanishAsrError],
    start: int = 0,
    stop: int | None = None,
    *,
    columns: list[str] | None = None,
) -> Iterator[TableRow]:
    """Yield rows ``start`` to ``stop - 1`` of a table; blank lines do not count.

    A file with another suffix than CSV, TSV, trn or Parquet has JSON lines, or a list of objects.
    Of Parquet, only ``columns`` are read, and a number that `datasets` stores for a class becomes
    its name.

    Raises:
        error: The file cannot be read, or its header or its quotes are invalid.
    """
    if path.suffix.lower() in {".parquet", ".pq"}:
        yield from islice(_parquet_rows(path, columns, error), start, stop)
        return
    with _opened(path, error) as content:
        if suffix_of(path) in CSV_FORMS:
            yield from islice(_csv_rows(path, content, error), start, stop)
            return
        if suffix_of(path) == TRN:
            lines_of_text = _decoded_lines(path, content, error)
            yield from islice(_trn_rows(lines_of_text), start, stop)
            return
        if content.peek(64)[:64].lstrip().startswith((b"[{", b"[\n", b"[\r", b"[ ")):
            yield from islice(_json_list(path, content, error), start, stop)
            return
        numbered = enumerate(content, start=1)
        lines = ((number, line) for number, line in numbered if line.strip())
        for number, line in islice(lines, start, stop):  # those before are not parsed
            row = _json_row(number, line)
            if number == 1 and row.values is None and line[:1] not in b"{[" and b"," in line:
                row = row._replace(fault=f"{row.fault}; a CSV has a name that ends in .csv or .tsv")
            yield row


def read_valid_rows(
    path: Path, error: type[DanishAsrError], *, columns: list[str] | None = None
) -> Iterator[tuple[int, Row]]:
    """Yield the line and the values of each row; a malformed row raises ``error``."""
    for line, values, fault in read_rows(path, error, columns=columns):
        if values is None:
            raise error(f"{path}:{line}: {fault}")
        yield line, values


def read_lines(path: Path, error: type[DanishAsrError]) -> Iterator[str]:
    """Yield the lines of a text file, which gzip may have compressed; errors as `read_rows`."""
    with _opened(path, error) as content:
        yield from _decoded_lines(path, content, error)


@contextmanager
def _opened(path: Path, error: type[DanishAsrError]) -> Iterator[Any]:
    """Open a file for reading bytes, decompressed; whatever reading raises becomes ``error``."""
    try:
        with path.open("rb") as file:
            packed = file.peek(2)[:2] == _GZIP_MAGIC
            content = gzip.GzipFile(fileobj=file) if packed else file
            begin = content.peek(8)[:8]
            advice = next(
                (text for magic, text in _NOT_READ.items() if begin.startswith(magic)), ""
            )
            if packed and begin.startswith(_GZIP_MAGIC):
                advice = "is compressed by gzip twice; expected once: gunzip FILE"
            if advice:
                raise error(f"{path}: {advice}")
            yield content
    except (OSError, EOFError, zlib.error) as reason:
        text = getattr(reason, "strerror", None) or reason
        raise error(f"{path}: cannot be read ({text})") from reason


def _json_row(number: int, line: bytes) -> TableRow:
    try:
        values = _JSON.decode(line.removeprefix(BOM_UTF8).decode())
        halves = _ESCAPED.search(line) and _HALF.search(json.dumps(values, ensure_ascii=False))
    except UnicodeDecodeError as reason:
        return TableRow(number, None, utf8_fault(reason))
    except (ValueError, RecursionError) as reason:
        return TableRow(number, None, f"not JSON ({reason}); expected an object on each line")
    if halves:
        return TableRow(number, None, "half of a character (\\ud800 to \\udfff without its pair)")
    if not isinstance(values, dict):
        return TableRow(number, None, f"expected a JSON object, found {type(values).__name__}")
    return TableRow(number, values)


def _once(pairs: list[tuple[str, Any]]) -> Row:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"repeated keys: {', '.join(repeated)}; keep one of each")
    return values


_JSON: Final = json.JSONDecoder(object_pairs_hook=_once)


def _trn_rows(lines: Iterable[str]) -> Iterator[TableRow]:
    """Yield id, text and the speaker, whose name ends at the first hyphen or underscore."""
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith(";;"):  # a comment
            continue
        parts = _TRN_LINE.fullmatch(line.rstrip("\r\n"))
        if parts is None:
            yield TableRow(number, None, "expected `text (speaker-utterance)`, as in sclite's trn")
            continue
        text, name = parts.groups()
        if markup := _TRN_READ_BY_SCLITE.search(text):
            fix = "choose one alternative, or let sclite score the file"
            fault = f"{markup[0]!r} is sclite's markup of alternatives or optional words; {fix}"
            yield TableRow(number, None, fault)
            continue
        speaker = re.split("[-_]", name, maxsplit=1)
        values = {"id": unquote(name), "text": text.translate(_TRN_TEXT)}
        if len(speaker) > 1:
            values["speaker_id"] = unquote(speaker[0])
        yield TableRow(number, values)


def _json_list(
    path: Path, lines: Iterable[bytes], error: type[DanishAsrError]
) -> Iterator[TableRow]:
    """The rows of one list of objects, as pandas and others write it."""
    try:
        rows = json.loads(b"".join(lines))
    except (ValueError, RecursionError) as reason:
        raise error(f"{path}: not a list in JSON ({reason}); expected objects in it") from reason
    for number, values in enumerate(rows, start=1):
        is_row = isinstance(values, dict)
        fault = "" if is_row else f"expected a JSON object, found {type(values).__name__}"
        yield TableRow(number, values if is_row else None, fault)


def _csv_rows(path: Path, file: Iterable[bytes], error: type[DanishAsrError]) -> Iterator[TableRow]:
    lines = _decoded_lines(path, file, error)
    header = next(lines, "")
    if "\r" in header.rstrip("\r\n"):
        fix = "expected newlines: tr '\\r' '\\n' < FILE > NEW"
        raise error(f"{path}: its lines end in carriage returns, as on old Macs; {fix}")
    form = CSV_FORMS[suffix_of(path)]
    if "delimiter" not in form:
        form = form | {"delimiter": max(_DELIMITERS, key=header.count)}
    if form["delimiter"] == "|" and '"' not in header:  # as LJ Speech has it
        form = form | {"quoting": csv.QUOTE_NONE}
    merged = re.compile(rf"\n\S*\.\w{{3,5}}{re.escape(form['delimiter'])}")
    table = csv.reader(chain([header], lines), **form)
    line = 1
    try:
        names = [name.strip() for name in next(table, ())]
        repeated = sorted({name for name in names if name and names.count(name) > 1})
        if repeated:
            raise error(
                f"{path}:1: repeated columns: {', '.join(repeated)}; keep one of each, or, if the "
                "line is a row, write a header above it (for LJ Speech path|raw|text)"
            )
        line = table.line_num + 1
        for fields in table:
            if any(map(merged.search, fields)):
                raise error(f"{path}:{line}: a quoted field has a line like a row; {_QUOTES}")
            if len(fields) == len(names):
                yield TableRow(line, dict(zip(names, fields, strict=True)))
            elif fields:
                yield TableRow(line, None, f"expected {len(names)} fields, as in the header")
            line = table.line_num + 1
    except csv.Error as reason:
        raise error(f"{path}:{line}: cannot be read ({reason}); {_QUOTES}") from reason


def _decoded_lines(path: Path, file: Iterable[bytes], error: type[DanishAsrError]) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        yield decode_line(line.removeprefix(BOM_UTF8), f"{path}:{number}", error)


def _parquet_rows(
    path: Path, columns: list[str] | None, error: type[DanishAsrError]
) -> Iterator[TableRow]:
    import pyarrow as pa  # noqa: PLC0415 - keeps the import of this module light
    import pyarrow.parquet as pq  # noqa: PLC0415

    number = 0
    try:
        file = pq.ParquetFile(path)
        names_of = class_names(file.schema_arrow.metadata or {})
        for batch in file.iter_batches(columns=columns):
            for values in batch.to_pylist():
                number += 1
                for column in names_of.keys() & values.keys():
                    values[column] = class_name(names_of[column], values[column])
                yield TableRow(number, values)
    except (pa.ArrowException, OSError) as reason:
        raise error(f"{path}: cannot be read as Parquet ({reason})") from reason


def class_names(metadata: dict[bytes, bytes]) -> dict[str, list[str]]:
    """Return the names of the classes of each ClassLabel column of the library `datasets`."""
    features = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    return {
        column: feature["names"]
        for column, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    }


def class_name(names: list[str], value: Any) -> str | None:
    """Return the name of a class by its number; None for -1, which `datasets` has for none."""
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None
