"""Rows of tables: JSON lines, CSV and TSV, each also compressed by gzip, and Parquet."""

import csv
import gzip
import json
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.files import decode_line, utf8_fault

Row: TypeAlias = dict[str, Any]

CSV_FORMS: Final[dict[str, dict[str, Any]]] = {
    ".csv": {"strict": True},
    ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},
}
"""How Python's csv module reads a suffix. A CSV has commas, or the semicolons of spreadsheets."""

TABLE_SUFFIXES: Final = (".jsonl", ".json", *CSV_FORMS, ".parquet")

_GZIP_MAGIC: Final = b"\x1f\x8b"
_HALF: Final = re.compile("[\ud800-\udfff]")


class TableRow(NamedTuple):
    """One row; ``values`` is None if it is malformed, and ``fault`` says why."""

    line: int  # its first line in the file, from 1; in Parquet the number of the row
    values: Row | None
    fault: str = ""


def suffix_of(path: Path) -> str:
    """The suffix that says what a file contains: that before ``.gz``."""
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def read_rows(
    path: Path,
    error: type[DanishAsrError],
    start: int = 0,
    stop: int | None = None,
    *,
    columns: list[str] | None = None,
) -> Iterator[TableRow]:
    """Yield rows ``start`` to ``stop - 1`` of a table; blank lines do not count.

    A file with another suffix than CSV, TSV or Parquet has JSON lines. Of Parquet, only ``columns``
    are read.

    Raises:
        error: The file cannot be read, or its header or its quotes are invalid.
    """
    if path.suffix in {".parquet", ".pq"}:
        yield from islice(_parquet_rows(path, columns, error), start, stop)
        return
    with _opened(path, error) as content:
        if suffix_of(path) in CSV_FORMS:
            yield from islice(_csv_rows(path, content, error), start, stop)
            return
        numbered = enumerate(content, start=1)
        lines = ((number, line) for number, line in numbered if line.strip())
        for number, line in islice(lines, start, stop):  # those before are not parsed
            yield _json_row(number, line)


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
            yield gzip.GzipFile(fileobj=file) if packed else file
    except (OSError, EOFError, zlib.error) as reason:
        text = getattr(reason, "strerror", None) or reason
        raise error(f"{path}: cannot be read ({text})") from reason


def _json_row(number: int, line: bytes) -> TableRow:
    try:
        values = json.loads(line.removeprefix(BOM_UTF8).decode())
        halves = b"\\u" in line and _HALF.search(json.dumps(values, ensure_ascii=False))
    except UnicodeDecodeError as reason:
        return TableRow(number, None, utf8_fault(reason))
    except (ValueError, RecursionError) as reason:
        return TableRow(number, None, f"not JSON ({reason}); expected an object on each line")
    if halves:
        return TableRow(number, None, "half of a character (\\ud800 to \\udfff without its pair)")
    if not isinstance(values, dict):
        return TableRow(number, None, f"expected a JSON object, found {type(values).__name__}")
    return TableRow(number, values)


def _csv_rows(path: Path, file: Iterable[bytes], error: type[DanishAsrError]) -> Iterator[TableRow]:
    lines = _decoded_lines(path, file, error)
    header = next(lines, "")
    form = CSV_FORMS[suffix_of(path)]
    if "delimiter" not in form and header.count(";") > header.count(","):
        form = form | {"delimiter": ";"}
    table = csv.reader(chain([header], lines), **form)
    line = 1
    try:
        names = [name.strip() for name in next(table, ())]
        repeated = sorted({name for name in names if name and names.count(name) > 1})
        if repeated:
            raise error(f"{path}:1: repeated columns: {', '.join(repeated)}; keep one of each")
        line = table.line_num + 1
        for fields in table:
            if len(fields) == len(names):
                yield TableRow(line, dict(zip(names, fields, strict=True)))
            elif fields:
                yield TableRow(line, None, f"expected {len(names)} fields, as in the header")
            line = table.line_num + 1
    except csv.Error as reason:
        raise error(
            f"{path}:{line}: cannot be read ({reason}); expected quotes inside quoted fields "
            'doubled: "ja, ""tak"""'
        ) from reason


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
        for batch in pq.ParquetFile(path).iter_batches(columns=columns):
            for values in batch.to_pylist():
                number += 1
                yield TableRow(number, values)
    except (pa.ArrowException, OSError) as reason:
        raise error(f"{path}: cannot be read as Parquet ({reason})") from reason
