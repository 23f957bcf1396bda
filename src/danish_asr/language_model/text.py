"""Sentences for a language model: read from files, normalised, without those of dev and test."""

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.errors import LanguageModelError
from danish_asr.text.profiles import normalize, normalizer

_BOUNDARY: Final = re.compile(r"(?<=[.!?:;])[\"”’»)]*\s+")
_LONG: Final = 4
"""Words of a held-out sentence from which on it is also searched for inside of others."""


def read_lines(file: Path, column: str) -> Iterator[str]:
    """Yield the texts of a file, a line or a paragraph at a time.

    ``*.parquet`` and ``*.jsonl`` have them in ``column``; other files are plain text. All but
    Parquet may be compressed (``*.gz``).

    Raises:
        LanguageModelError: The file cannot be read, is not UTF-8 or lacks the column.
    """
    kind = file.with_suffix("").suffix if file.suffix == ".gz" else file.suffix
    try:
        if kind == ".parquet":
            with pq.ParquetFile(file) as table:
                for batch in table.iter_batches(1_000, columns=[column]):
                    for text in batch.to_pydict()[column]:
                        yield from (text or "").splitlines()
            return
        opener = gzip.open if file.suffix == ".gz" else open
        with opener(file, "rt", encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if kind == ".jsonl":
                    yield from _of_json(line, column, number)
                else:
                    yield line
    except KeyError:
        raise LanguageModelError(
            f"{file}: has no column '{column}'; --column names the one with the text"
        ) from None
    except (OSError, EOFError, ValueError, pa.ArrowException) as error:
        raise LanguageModelError(f"{file}: cannot be read as UTF-8 text ({error})") from error


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
        self._by_begin: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for each in self._whole:
            if len(each) >= _LONG:
                self._by_begin.setdefault(each[:_LONG], []).append(each)

    def __len__(self) -> int:
        return len(self._whole)

    def found_in(self, sentences: list[str]) -> set[int]:
        """Numbers of the sentences of a line that are held out, or contain words of one.

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

    def of(self, lines: Iterable[str], advance: Callable[[], object]) -> Iterator[list[str]]:
        """Yield the words of each new sentence; ``advance`` is called for each line."""
        normalize, counts = normalizer(self.profile), self.counts
        for line in lines:
            advance()
            parts = [part for part in _BOUNDARY.split(line.strip()) if part]
            removed = self.held_out.found_in(parts) if len(self.held_out) else ()
            counts.sentences += len(parts)
            counts.held_out += len(removed)
            for number, part in enumerate(parts):
                if number in removed:
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
