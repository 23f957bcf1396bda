"""Rows of tables: JSON lines, CSV, TSV and sclite's trn, also compressed by gzip, and Parquet."""

import csv
import gzip
import json
import re
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from danish_asr.base.errors import DanishAsrError

Row: TypeAlias = dict[str, Any]

CSV_FORMS: Final[dict[str, dict[str, Any]]] = {
    ".csv": {"strict": True},
    ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE},
}
"""How Python's csv module reads a suffix; a CSV has the delimiter that Excel's ``sep=`` names, or
that of `_DELIMITERS` which its header has most of, or the first."""

_DELIMITERS: Final = (",", ";", "\t")

_SEPARATOR: Final = re.compile(r'(?i)"?sep=(.)"?')
"""What Excel writes above the header, to name the delimiter."""

_EXCELS: Final = re.compile(r'"(?=.*"")(?:[^"]|"")*"')
"""A field with quotes as Excel writes it in a TSV; Common Voice's quotes are text."""

_QUOTES: Final = 'write a field with quotes as "ja, ""tak""", or write TSV, where quotes are text'
_CUT: Final = f"a line break without quotes cuts a row in two; {_QUOTES}"
_MACS: Final = re.compile(r"(?<=\r)(?=[^\n])")
"""After a line's end as old Macs write it, which Excel still offers."""

TABLE_SUFFIXES: Final = (".jsonl", ".json", *CSV_FORMS, ".parquet")

TRN: Final = ".trn"
"""Lines of ``text (speaker-utterance)``, as NIST's sclite reads them."""

TRN_MARKUP: Final = str.maketrans("(){}@;", "（）｛｝＠；")
"""What sclite reads as alternatives, optional words, the empty word and comments, and the
full-width forms that stand for it in the texts that are written here."""

_TRN_TEXT: Final = {wide: narrow for narrow, wide in TRN_MARKUP.items()}
_TRN_READ_BY_SCLITE: Final = re.compile(r"[(){}]|(?<!\S)@(?!\S)")
_TRN_LINE: Final = re.compile(r"(.*?)\s*\(([^()\s]+)\)\s*")

_CODE_PAGES: Final = {"CP1252": "cp1252", "MACINTOSH": "mac_roman", "CP850": "cp850"}
"""Python's codecs by iconv's names: of Windows, old Macs and DOS."""

_SHOWN: Final = 20  # characters of a sample, on each side of its first letter beyond ASCII

_ESCAPED_SURROGATE: Final = re.compile(rb"\\u[dD]")

_NOT_JSON: Final = (ValueError, RecursionError)
"""What Python raises for text that is no JSON, or lists in lists without end."""

_AT_ONCE: Final = 1_000  # lines of JSON


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
    *,
    columns: list[str] | None = None,
    is_file: Callable[[str], bool] | None = None,
) -> Iterator[TableRow]:
    """Yield the rows of a table; blank lines, also of delimiters alone, do not count.

    A file with another suffix than CSV, TSV, trn or Parquet has JSON lines, or a list of objects.
    Of Parquet, only ``columns`` are read. ``is_file`` tells names of recordings in a table of them:
    there, fields that a row of CSV lacks at its end are empty, as Excel leaves such delimiters out.

    Raises:
        error: The file cannot be read, or its header or its quotes are invalid.
    """
    if path.suffix.lower() in {".parquet", ".pq"}:
        yield from _parquet_rows(path, columns, error)
        return
    with _opened(path, error) as content:
        if suffix_of(path) in CSV_FORMS:
            yield from _csv_rows(path, content, error, is_file)
        elif suffix_of(path) == TRN:
            yield from _trn_rows(_decoded_lines(path, content, error))
        elif re.match(rb"(\xef\xbb\xbf)?\s*\[\s*\{", content.peek(64)):
            yield from _json_list(path, content.read(), error)
        else:
            yield from _json_rows(content)


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
            if file.peek(4)[:4] == b"PK\x03\x04":
                raise error(f"{path}: a spreadsheet or a zip archive; save it as CSV in UTF-8")
            is_packed = file.peek(2)[:2] == b"\x1f\x8b"
            yield gzip.GzipFile(fileobj=file) if is_packed else file
    except (OSError, EOFError, zlib.error) as reason:
        text = getattr(reason, "strerror", None) or reason
        raise error(f"{path}: cannot be read ({text})") from reason


def _decoded_lines(path: Path, file: Iterable[bytes], error: type[DanishAsrError]) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        try:
            yield line.decode("utf-8-sig")
        except UnicodeDecodeError:
            with _opened(path, error) as content:
                beginning = content.read(1 << 20)
            seen = beginning if line in beginning else line
            hint = code_page_hint(seen, command=partial(_conversion, path))
            raise error(f"{path}:{number}: not UTF-8. {hint}") from None


def _conversion(path: Path, page: str) -> str:
    """The command that writes a file in UTF-8 in the place of another, which gets another name."""
    kept, new = shlex.quote(f"{path}.{page}"), shlex.quote(str(path))
    text = f"iconv -f {page} -t UTF-8 {kept}"
    if path.suffix.lower() == ".gz":
        new = shlex.quote(str(path.with_suffix("")))
        text = f"gzip -dc < {kept} | iconv -f {page} -t UTF-8"
    return f"mv {shlex.quote(str(path))} {kept} && {text} > {new}"


def _to_new_file(page: str) -> str:
    return f"iconv -f {page} -t UTF-8 FILE > NEW"


def code_page_hint(*texts: bytes, command: Callable[[str], str] = _to_new_file) -> str:
    """Which code page gives texts that are no UTF-8 the most of æøåÆØÅ, and three samples in it.

    It is advice: people have to see whether the samples are right. ``command`` makes of iconv's
    name of the page the command that converts.
    """
    pages = {"UTF-16": "utf-16"} if any(b"\0" in text for text in texts) else {}
    decoded = {
        page: [text.decode(codec, errors="replace") for text in texts]
        for page, codec in (pages | _CODE_PAGES).items()
    }
    counts = {
        page: sum(own.count(letter) for own in read for letter in "æøåÆØÅ")
        for page, read in decoded.items()
    }
    page = max(counts, key=lambda name: counts[name])
    lines = (line.strip() for text in decoded[page] for line in text.splitlines())
    matches = (re.search(rf".{{0,{_SHOWN}}}[^\0-\x7f].{{0,{_SHOWN}}}", line) for line in lines)
    samples = [f"'{printable(match[0])}'" for match in matches if match]
    found = ", ".join(f"{name} {count}" for name, count in counts.items())
    return (
        f"letters æøåÆØÅ by code page: {found}; in {page} it has {', '.join(samples[:3])}. "
        f"If that is right: {command(page)}"
    )


def _json_rows(lines: Iterable[bytes]) -> Iterator[TableRow]:
    """Yield the rows of JSON lines; many are parsed at once, which takes a third of the time."""
    filled = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    while block := [*islice(filled, _AT_ONCE)]:
        joined = b",".join(line for _, line in block)
        try:
            values = json.loads(f"[{joined.decode()}]")
        except _NOT_JSON:
            values = []  # some line is malformed
        if len(values) != len(block) or _ESCAPED_SURROGATE.search(joined):
            yield from (_json_row(number, line) for number, line in block)
        else:
            for (number, line), own in zip(block, values, strict=True):
                yield TableRow(number, own) if isinstance(own, dict) else _object(number, own, line)


def _json_row(number: int, line: bytes) -> TableRow:
    try:
        values = json.loads(line.decode().removeprefix("\ufeff"))
    except UnicodeDecodeError:
        return TableRow(number, None, f"not UTF-8. {code_page_hint(line)}")
    except _NOT_JSON as reason:
        return TableRow(number, None, f"not JSON ({reason}); expected an object on each line")
    return _object(number, values, line)


def _json_list(path: Path, content: bytes, error: type[DanishAsrError]) -> Iterator[TableRow]:
    """The rows of one list of objects, as pandas and others write it."""
    try:
        rows = json.loads(content)
    except _NOT_JSON as reason:
        raise error(f"{path}: not a list in JSON ({reason}); expected objects in it") from reason
    for number, values in enumerate(rows, start=1):
        yield _object(number, values, content)


def _object(number: int, values: Any, source: bytes) -> TableRow:
    """A row of JSON, which ``source`` has among others."""
    if not isinstance(values, dict):
        return TableRow(number, None, f"expected a JSON object, found {type(values).__name__}")
    if _ESCAPED_SURROGATE.search(source) and not is_utf8(json.dumps(values, ensure_ascii=False)):
        return TableRow(number, None, "half of a surrogate pair, such as \\ud83d; write the letter")
    return TableRow(number, values)


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
            fault = f"{markup[0]!r} is sclite's markup of alternatives; choose one of them"
            yield TableRow(number, None, fault)
            continue
        speaker = re.split("[-_]", name, maxsplit=1)
        values = {"id": unquote(name), "text": text.translate(_TRN_TEXT)}
        if len(speaker) > 1:
            values["speaker_id"] = unquote(speaker[0])
        yield TableRow(number, values)


def _csv_rows(
    path: Path,
    file: Iterable[bytes],
    error: type[DanishAsrError],
    is_file: Callable[[str], bool] | None,
) -> Iterator[TableRow]:
    lines = (own for line in _decoded_lines(path, file, error) for own in _MACS.split(line))
    header, above, form = _header(lines, CSV_FORMS[suffix_of(path)])
    delimiter = re.compile(rf"{re.escape(form['delimiter'])}(?! )")  # prose has spaces behind them
    table = csv.reader(chain([header], lines), **form)
    line = above + 1
    try:
        names = [name.strip() for name in next(table, ())]
        if repeated := sorted({name for name in names if name and names.count(name) > 1}):
            raise error(f"{path}:{line}: repeated columns: {', '.join(repeated)}; keep one of them")
        line = above + table.line_num + 1
        row, before = None, list[str]()  # that is yielded when the next is known, and its fields
        for written in table:
            fields = written if "strict" in form else [*map(_without_quotes, written)]
            if any("\n" in field and _has_row(field, delimiter, len(names)) for field in fields):
                raise error(f"{path}:{line}: a quoted field has a line like a row; {_QUOTES}")
            if any(map(str.strip, fields)):
                cut = is_file is not None and _is_cut(before, fields, names, is_file)
                if row is not None:
                    yield row._replace(values=None, fault=_CUT) if cut else row
                row = _csv_row(line, names, fields, fills=is_file is not None and "strict" in form)
                row = row._replace(values=None, fault=_CUT) if cut else row
                before = fields
            line = above + table.line_num + 1
        if row is not None:
            yield row
    except csv.Error as reason:
        raise error(f"{path}:{line}: cannot be read ({reason}); in quotes, {_QUOTES}") from reason


def _has_row(field: str, delimiter: re.Pattern[str], columns: int) -> bool:
    """Whether a line of a field has all columns of a row, as behind a quote that nobody closed."""
    return any(len(delimiter.findall(line)) >= columns - 1 > 0 for line in field.splitlines())


def _header(lines: Iterator[str], form: dict[str, Any]) -> tuple[str, int, dict[str, Any]]:
    """Return the line of the header, the number of lines above it, and the form of the table."""
    header, above = next(lines, ""), 0
    while header and (_is_blank(header) or _SEPARATOR.fullmatch(header.rstrip("\r\n"))):
        if named := _SEPARATOR.fullmatch(header.rstrip("\r\n")):
            form = form | {"delimiter": named[1]}
        header, above = next(lines, ""), above + 1
    if "delimiter" not in form:
        form = form | {"delimiter": max(_DELIMITERS, key=header.count)}
    return header, above, form


def _is_cut(
    before: list[str], fields: list[str], names: list[str], is_file: Callable[[str], bool]
) -> bool:
    """Whether two rows are one that a line break without quotes cut: they have one file in all.

    The text that was cut may have delimiters. A short row between two others may be of either: all
    three are malformed then.
    """
    first, second = ([is_file(field) for field in own] for own in (before, fields))
    if any(first) == any(second) or any(second[:1]) or len(before) + len(fields) <= len(names):
        return False
    if any(second):
        return len(before) < len(names)
    place = first.index(True)
    if len(fields) <= place:
        return place < len(names) - 1  # no text of a row is behind a file that is its last
    if len(before) == len(fields) == len(names):  # " det" in the place of a file is no name
        return bool(re.search(r"\s", fields[place].rstrip()))
    return bool(fields[place].strip())


def _is_blank(line: str) -> bool:
    return not line.strip("".join(_DELIMITERS) + " \r\n")


def _csv_row(line: int, names: list[str], fields: list[str], *, fills: bool) -> TableRow:
    missing = len(names) - len(fields)
    if (missing > 0 and not fills) or any(fields[len(names) :]):
        return TableRow(line, None, f"expected {len(names)} fields, as in the header")
    return TableRow(line, dict(zip(names, [*fields, *[""] * missing], strict=False)))


def _without_quotes(field: str) -> str:
    is_excels = field.startswith('"') and _EXCELS.fullmatch(field)
    return field[1:-1].replace('""', '"') if is_excels else field


def _parquet_rows(
    path: Path, columns: list[str] | None, error: type[DanishAsrError]
) -> Iterator[TableRow]:
    import pyarrow as pa  # noqa: PLC0415 - keeps the import of this module light
    import pyarrow.parquet as pq  # noqa: PLC0415

    number = 0
    try:
        file = pq.ParquetFile(path)
        for batch in file.iter_batches(columns=columns):
            for values in batch.to_pylist():
                number += 1
                yield TableRow(number, values)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as reason:
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


def is_utf8(text: str) -> bool:
    """Whether a text can be written: it has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    """Return a text from the data with escapes for what would control a terminal."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
