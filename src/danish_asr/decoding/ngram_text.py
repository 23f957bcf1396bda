"""Sentences for a language model: read from files, normalised, without those of dev and test."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from danish_asr.base.errors import LanguageModelError
from danish_asr.base.tables import TABLE_SUFFIXES, read_lines, read_valid_rows, suffix_of
from danish_asr.corpus.sources.base import USUAL_NAMES
from danish_asr.text.profiles import normalize, normalizer

_BOUNDARY: Final = re.compile(r"(?<=[.!?:;])[\"”’»)]*\s+")

_BLOCK: Final = 1_000
"""Sentences that are searched for held-out ones at a time."""

_LONG: Final = 4
"""Words of a held-out sentence from which on it is also searched for inside of others."""


def read_texts(file: Path, column: str) -> Iterator[str]:
    """Yield the texts of a file, a line at a time.

    Parquet, JSON lines, CSV and TSV have them in ``column``, of which ``text`` may have another
    usual name; other files are plain text.

    Raises:
        LanguageModelError: The file cannot be read, is not UTF-8 or lacks the column.
    """
    if suffix_of(file) not in TABLE_SUFFIXES:
        yield from read_lines(file, LanguageModelError)
        return
    names = [column, *USUAL_NAMES["text"]] if column == "text" else [column]
    for line, row in read_valid_rows(file, LanguageModelError, columns=names):
        name = next((name for name in names if name in row), None)
        if name is None:
            raise LanguageModelError(
                f"{file}:{line}: has no column '{column}'; --column names the one with the text"
            )
        yield from str(row[name] or "").splitlines()


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
        self._sentences = {tuple(_words(text)) for text in texts}
        self._longest = max(map(len, self._sentences), default=0)
        self._by_beginning: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for sentence in self._sentences:
            if len(sentence) >= _LONG:
                self._by_beginning.setdefault(sentence[:_LONG], []).append(sentence)

    def __len__(self) -> int:
        return len(self._sentences)

    def without(self, sentences: Iterable[str]) -> Iterator[str | None]:
        """Yield each of consecutive sentences, or None if it is held out or has words of one.

        A sentence of four words or more is also found inside of others, and across their borders:
        "f.eks." may have been taken for the end of a sentence. A block of sentences is in memory;
        those at its end, which a held-out sentence may begin in, are searched again with the next.
        """
        if not self._sentences:
            yield from sentences
            return
        remaining = iter(sentences)
        window: list[str] = []
        held_out: set[int] = set()  # positions in the window
        while block := list(islice(remaining, _BLOCK)):
            window += block
            held_out |= self._positions(window)
            done = len(window) - self._overlap(window)
            for position, sentence in enumerate(window[:done]):
                yield None if position in held_out else sentence
            window = window[done:]
            held_out = {position - done for position in held_out if position >= done}
        for position, sentence in enumerate(window):
            yield None if position in held_out else sentence

    def _overlap(self, window: list[str]) -> int:
        """The number of sentences at the end that a held-out one may begin in."""
        words = count = 0
        # Normalising may remove words; twice as many are enough.
        while words < 2 * self._longest and count < min(_BLOCK // 2, len(window)):
            count += 1
            words += len(window[-count].split())
        return count

    def _positions(self, sentences: list[str]) -> set[int]:
        """The positions of the sentences that are held out, or contain words of one."""
        words: list[str] = []
        position_of: list[int] = []  # of each word
        held_out = set()
        for position, sentence in enumerate(sentences):
            own_words = _words(sentence)
            if tuple(own_words) in self._sentences:
                held_out.add(position)
            words += own_words
            position_of += [position] * len(own_words)
        for begin in range(len(words) - _LONG + 1):
            beginning = tuple(words[begin : begin + _LONG])
            for long_sentence in self._by_beginning.get(beginning, ()):
                end = begin + len(long_sentence)
                if tuple(words[begin:end]) == long_sentence:
                    held_out.update(position_of[begin:end])
        return held_out


def _words(text: str) -> list[str]:
    # CoRal's rules make "minus" of a dash.
    return normalize(text.replace("-", " "), "coral").split()


@dataclass
class Sentences:
    """Normalises, deduplicates and filters lines of text; ``counts`` says what became of them."""

    profile: str
    held_out: HeldOut
    counts: TextCounts = field(default_factory=TextCounts)
    _seen: set[int] = field(default_factory=set)

    def of_text(self, lines: Iterable[str], advance: Callable[[], object]) -> Iterator[list[str]]:
        """Yield the words of each new sentence; ``advance`` is called for each line.

        A held-out sentence is also found where it is broken over lines.
        """
        to_profile, counts = normalizer(self.profile), self.counts
        for sentence in self.held_out.without(_split(lines, advance)):
            counts.sentences += 1
            if sentence is None:
                counts.held_out += 1
                continue
            words = to_profile(sentence).split()
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

    def of_transcripts(
        self, transcripts: Iterable[str], advance: Callable[[], object]
    ) -> Iterator[list[str]]:
        """Yield what `of_text` does, of texts that do not continue each other."""
        for transcript in transcripts:
            yield from self.of_text([transcript], advance)


def _split(lines: Iterable[str], advance: Callable[[], object]) -> Iterator[str]:
    for line in lines:
        advance()
        yield from (part for part in _BOUNDARY.split(line.strip()) if part)
