"""Rows of a file: JSON lines, CSV or TSV, each also compressed by gzip, or Parquet."""

import csv
import gzip
import json
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, Final

from danish_asr.base.errors import PredictionsError
from danish_asr.base.files import decode_line

Row = dict[str, Any]

_TABLES: Final[dict[str, dict[str, Any]]] = {
    ".csv": {"strict": True},
    ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},
}


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the line number, or the row number in Parquet, and the values of each row.

    Raises:
        PredictionsError: The file cannot be read, or a row is invalid.
    """
    try:
        with path.open("rb") as file:
            head = file.peek(4)[:4]
            if head == b"PAR1":
                yield from _read_parquet(path, file)
            elif head.startswith(b"\x1f\x8b"):
                with gzip.open(file) as unpacked:
                    yield from _read_text(path, unpacked)
            else:
                yield from _read_text(path, file)
    except (OSError, EOFError, zlib.error) as error:
        below = ", ".join(map(str, sorted(path.glob("**/predictions.jsonl"))))
        raise PredictionsError(
            f"{path}: {getattr(error, 'strerror', None) or error}; expected the predictions.jsonl "
            f"of an evaluation{f'; in it are {below}' if below else ''}"
        ) from error


def _read_text(path: Path, file: Any) -> Iterator[tuple[int, Row]]:
    head = file.peek(2)[:2]
    if head in (BOM_UTF16_LE, BOM_UTF16_BE) or 0 in head:
        raise PredictionsError(f"{path}: the file is UTF-16; save it as UTF-8")
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix in _TABLES:
        yield from _read_table(path, file, **_TABLES[suffix])
    else:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                row = json.loads(decode_line(line.removeprefix(BOM_UTF8), where, PredictionsError))
            except ValueError as error:
                raise PredictionsError(f"{where}: not JSON ({error})") from None
            if not isinstance(row, dict):
                found = type(row).__name__
                raise PredictionsError(f"{where}: expected a JSON object, found {found}")
            yield number, row


def _read_table(path: Path, file: IO[bytes], **form: Any) -> Iterator[tuple[int, Row]]:
    line = 0
    with TextIOWrapper(file, "utf-8-sig", newline="") as text:
        try:
            header = text.readline()
            text.seek(0)
            usual = form.get("delimiter", ",")
            if header.count(";") > header.count(usual):  # as spreadsheets write it in Denmark
                form["delimiter"] = ";"
            table = csv.DictReader(text, **form)
            names = table.fieldnames or ()
            if twice := [name for name, n in Counter(names).items() if n > 1 and name.strip()]:
                repeated = ", ".join(map(repr, twice))
                raise PredictionsError(f"{path}:1: repeated columns: {repeated}; keep one of each")
            for row in table:
                line = table.line_num
                if None in row or None in row.values():
                    raise PredictionsError(
                        f"{path}:{line}: expected {len(names)} fields, as in the header"
                    )
                yield line, row
        except UnicodeDecodeError:
            file.seek(0)  # the error is one of a block of lines
            for number, each in enumerate(file, start=1):
                decode_line(each, f"{path}:{number}", PredictionsError)
            raise
        except csv.Error as error:
            raise PredictionsError(
                f"{path}: cannot be read after line {line} ({error}); expected quotes inside "
                'quoted fields doubled: "ja, ""tak"""'
            ) from error


def _read_parquet(path: Path, file: IO[bytes]) -> Iterator[tuple[int, Row]]:
    import pyarrow as pa  # noqa: PLC0415 - keeps the import of this module light
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        batches = pq.ParquetFile(file).iter_batches()
        rows = (row for batch in batches for row in batch.to_pylist())
        yield from enumerate(rows, start=1)
    except pa.ArrowException as error:
        raise PredictionsError(f"{path}: cannot be read as Parquet ({error})") from error
