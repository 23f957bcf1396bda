"""Sentences for a language model: read from files, normalised, without those of dev and test."""

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.base.errors import LanguageModelError, SourceError
from danish_asr.corpus.sources.manifest import read_rows
from danish_asr.text.profiles import normalize, normalizer

_BOUNDARY: Final = re.compile(r"(?<=[.!?:;])[\"”’»)]*\s+")
_TABLES: Final = (".csv", ".tsv")
_BLOCK: Final = 1_000
"""Sentences that are searched for held-out ones at a time."""

_LONG: Final = 4
"""Words of a held-out sentence from which on it is also searched for inside of others."""


def read_lines(file: Path, column: str) -> Iterator[str]:
    """Yield the texts of a file, a line or a paragraph at a time.

    ``*.parquet``, ``*.jsonl``, ``*.csv`` and ``*.tsv`` have them in ``column``; other files are
    plain text. Text and JSON lines may be compressed (``*.gz``).

    Raises:
        LanguageModelError: The file cannot be read, is not UTF-8 or lacks the column.
    """
    kind = file.with_suffix("").suffix if file.suffix == ".gz" else file.suffix
    if kind == ".json":
        raise LanguageModelError(
            f"{file}: .json is not read; write one object per line to a file *.jsonl"
        )
    if kind in _TABLES:
        yield from _of_table(file, column)
        return
    try:
        yield from _of_parquet(file, column) if kind == ".parquet" else _of_text(file, kind, column)
    except KeyError:
        raise LanguageModelError(
            f"{file}: has no column '{column}'; --column names the one with the text"
        ) from None
    except FileNotFoundError:
        raise LanguageModelError(f"{file}: no such file") from None
    except UnicodeDecodeError as error:
        raise LanguageModelError(f"{file}: cannot be read as UTF-8 text ({error})") from error
    except (OSError, EOFError, ValueError, pa.ArrowException) as error:
        raise LanguageModelError(f"{file}: cannot be read ({error})") from error


def _of_parquet(file: Path, column: str) -> Iterator[str]:
    with pq.ParquetFile(file) as table:
        for batch in table.iter_batches(1_000, columns=[column]):
            for text in batch.to_pydict()[column]:
                yield from (text or "").splitlines()


def _of_text(file: Path, kind: str, column: str) -> Iterator[str]:
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if kind == ".jsonl":
                yield from _of_json(line, column, number)
            else:
                yield line


def _of_table(file: Path, column: str) -> Iterator[str]:
    if file.suffix == ".gz":
        raise LanguageModelError(f"{file}: tables are not read from *.gz; decompress it")
    try:
        for number, values in read_rows(file):
            if values is None:
                raise LanguageModelError(
                    f"{file}: row {number + 1} has more or fewer fields than the header; a text "
                    "without columns is read from *.txt"
                )
            yield from str(values[column]).splitlines()
    except KeyError:
        found = ", ".join(map(str, values or ()))
        raise LanguageModelError(
            f"{file}: has no column '{column}'; --column names the one with the text of: {found}"
        ) from None
    except SourceError as error:
        raise LanguageModelError(str(error)) from error


def _of_json(line: str, column: str, number: int) -> list[str]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from error
    return str(row[column]).splitlines()


@dataclass
class TextCounts:
    """What became of the sentences."""

    sentences: int = 0
    kept: int = 0
    duplicates: int = 0
    held_out: int = 0
    empty: int = 0
    words: int = 0


class HeldOut:
    """Sentences that must not be in a language model, whatever their case and punctuation."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._whole = {tuple(_key(text)) for text in texts}
        self._longest = max(map(len, self._whole), default=0)
        self._by_begin: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for each in self._whole:
            if len(each) >= _LONG:
                self._by_begin.setdefault(each[:_LONG], []).append(each)

    def __len__(self) -> int:
        return len(self._whole)

    def found_in(self, sentences: list[str]) -> set[int]:
        """Numbers of the consecutive sentences that are held out, or contain words of one.

        A sentence of four words or more is also found inside of others, and across their borders:
        "f.eks." may have been taken for the end of a sentence.
        """
        words: list[str] = []
        owner: list[int] = []
        found = set()
        for number, sentence in enumerate(sentences):
            own = _key(sentence)
            if tuple(own) in self._whole:
                found.add(number)
            words += own
            owner += [number] * len(own)
        for at in range(len(words) - _LONG + 1):
            for each in self._by_begin.get(tuple(words[at : at + _LONG]), ()):
                if tuple(words[at : at + len(each)]) == each:
                    found.update(owner[at : at + len(each)])
        return found

    def marked(self, sentences: Iterable[str]) -> Iterator[tuple[str, bool]]:
        """Yield each of consecutive sentences, and whether `found_in` finds it.

        At most so many are in memory that those at the end of a block, which a held-out sentence
        may begin in, are searched again with the next block.
        """
        left, removed, rest = list[str](), set[int](), iter(sentences)
        while self._whole and (block := list(islice(rest, _BLOCK))):
            left += block
            removed |= self.found_in(left)
            kept, words = len(left), 0
            # Normalising may remove words; twice as many are enough.
            while words < 2 * self._longest and kept > max(0, len(left) - _BLOCK // 2):
                kept -= 1
                words += len(left[kept].split())
            yield from ((each, at in removed) for at, each in enumerate(left[:kept]))
            left, removed = left[kept:], {at - kept for at in removed if at >= kept}
        yield from ((each, at in removed) for at, each in enumerate(chain(left, rest)))


def _key(text: str) -> list[str]:
    # CoRal's rules make "minus" of a dash.
    return normalize(text.replace("-", " "), "coral").split()


@dataclass
class Sentences:
    """Normalises, deduplicates and filters lines of text; ``counts`` says what became of them."""

    profile: str
    held_out: HeldOut
    counts: TextCounts = field(default_factory=TextCounts)
    _seen: set[int] = field(default_factory=set)

    def of(
        self, lines: Iterable[str], advance: Callable[[], object], *, running: bool
    ) -> Iterator[list[str]]:
        """Yield the words of each new sentence; ``advance`` is called for each line.

        In a ``running`` text, a held-out sentence is also found where it is broken over lines.
        """
        normalize, counts = normalizer(self.profile), self.counts
        texts = [lines] if running else ([line] for line in lines)
        found = (self.held_out.marked(self._parts(text, advance)) for text in texts)
        for part, removed in chain.from_iterable(found):
            counts.sentences += 1
            if removed:
                counts.held_out += 1
                continue
            words = normalize(part).split()
            # Python's hash of a text has 64 bits; the texts would take ten times the memory.
            key = hash(" ".join(words))
            if not words:
                counts.empty += 1
            elif key in self._seen:
                counts.duplicates += 1
            else:
                self._seen.add(key)
                counts.kept += 1
                counts.words += len(words)
                yield words

    def _parts(self, lines: Iterable[str], advance: Callable[[], object]) -> Iterator[str]:
        for line in lines:
            advance()
            yield from (part for part in _BOUNDARY.split(line.strip()) if part)
