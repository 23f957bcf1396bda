"""The rows of a manifest file, JSON lines or CSV, each with where it ends.

A row that cannot be read is a row too, so that it can be told and counted. What makes a line
unreadable ends with it: a quote that is never closed swallows no further line.
"""

from __future__ import annotations

import csv
import json
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from danish_asr.errors import SourceError

CSV_SUFFIX: Final = ".csv"

Row = dict[str, Any] | None
"""Names and values of a row, or None for one that cannot be read."""


def read_header(stream: IO[bytes], path: Path) -> list[str] | None:
    """Go to the first row; return the names that a CSV file has, and None for JSON lines.

    Raises:
        SourceError: The first line of a CSV file names no columns, or one of them twice.
    """
    if stream.read(len(BOM_UTF8)) != BOM_UTF8:
        stream.seek(0)
    if path.suffix != CSV_SUFFIX:
        return None
    lines = _Lines(stream)
    try:
        header = [name.strip() for name in next(csv.reader(lines, strict=True), [])]
    except (csv.Error, UnicodeDecodeError) as error:
        raise SourceError(
            f"{path}: line 1 should name the columns, and cannot be read ({error}); write the file "
            "as CSV with commas, in UTF-8"
        ) from error
    stream.seek(lines.end)
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise SourceError(f"{path}: line 1 names {', '.join(twice)} twice; rename one of them")
    return header


def read_rows(stream: IO[bytes], header: list[str] | None) -> Iterator[tuple[int, Row]]:
    """Yield the rows from here on, each with where it ends in bytes; blank lines are no rows.

    Rows are told from where the stream stands, so it must be the beginning of one.
    """
    return _read_json(stream) if header is None else _read_csv(stream, header)


def _read_json(stream: IO[bytes]) -> Iterator[tuple[int, Row]]:
    end = stream.tell()
    while line := stream.readline():
        end += len(line)
        if line.strip():
            yield end, _parse_json(line)


def _parse_json(line: bytes) -> Row:
    try:
        text = line.decode()
        values = json.loads(text)
        if "\\u" in text:
            # An escape may stand for half a character, which no file can hold.
            json.dumps(values, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _read_csv(stream: IO[bytes], header: list[str]) -> Iterator[tuple[int, Row]]:
    lines = _Lines(stream)
    # Strictly: a quote inside a quoted field would else be dropped from the text without a word.
    reader = csv.reader(lines, strict=True)
    while True:
        lines.begin_row()
        try:
            fields = next(reader)
        except StopIteration:
            return
        except (csv.Error, UnicodeDecodeError):
            lines.go_back()
            reader = csv.reader(lines, strict=True)
            yield lines.end, None
            continue
        if fields:
            fits = len(fields) == len(header)
            yield lines.end, dict(zip(header, fields, strict=True)) if fits else None


class _Lines:
    """Lines of a binary stream as text, and where the last one ended."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.end = stream.tell()
        self._first: int | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._stream.readline()
        if not line:
            raise StopIteration
        self.end += len(line)
        if self._first is None:
            self._first = self.end
        return line.decode()

    def begin_row(self) -> None:
        """A row begins with the next line."""
        self._first = None

    def go_back(self) -> None:
        """Return to the end of the row's first line."""
        assert self._first is not None
        self.end = self._first
        self._stream.seek(self.end)
