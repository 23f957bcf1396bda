"""Build an n-gram language model: sentences of text files and of a dataset, without dev and test.

`ngram_estimate` makes probabilities of them; `build_language_model` publishes the directory that
decoders read.
"""

import re
import shutil
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from danish_asr.base.errors import LanguageModelError
from danish_asr.base.files import publish, publish_json, publish_text, refuse_overwriting
from danish_asr.base.progress import Progress, plain_console
from danish_asr.base.tables import TABLE_SUFFIXES, read_lines, read_valid_rows, suffix_of
from danish_asr.corpus.columns import THEIR_NAMES
from danish_asr.corpus.inventory import content_of, find_shards
from danish_asr.decoding.ngram import HELD_OUT, NOTHING_HELD_OUT, SETTINGS_FILE, UNIGRAMS_FILE
from danish_asr.decoding.ngram_estimate import BEGIN, END, SPECIAL, estimate, write_arpa
from danish_asr.scoring.predictions import read_references
from danish_asr.text.profiles import normalize, normalizer

_BOUNDARY: Final = re.compile(r"(?<=[.!?:;])[\"”’»)]*\s+")

_NO_TEXT: Final = frozenset({".arpa", ".bin", ".srt", ".vtt", ".textgrid", ".eaf"})
"""Suffixes of files whose lines are not sentences alone: of language models, and of times."""

_LONG: Final = 4
"""Words of a held-out sentence from which on it is also searched for inside of lines."""


def build_language_model(
    texts: Sequence[Path],
    out: Path,
    *,
    order: int = 3,
    dataset: Path | None = None,
    profile: str,
) -> dict[str, Any]:
    """Build a language model of files and the training transcripts of a dataset.

    No sentence of the dataset's dev and test splits is in it, nor a line in which such a sentence
    of four words or more occurs.

    Args:
        texts: Files that `read_texts` reads.
        out: The new directory, which appears when it is complete.
        order: Words in the longest n-grams, 2 to 6.
        dataset: Root of a built dataset.
        profile: Text profile of the model's training texts.

    Returns the content of ``lm.json``. Raises LanguageModelError if no text remains or ``out``
    exists.
    """
    console = plain_console(stderr=True)
    if not texts and not dataset:
        raise LanguageModelError("no text: give files with text, --dataset, or both")
    if out.exists():
        raise LanguageModelError(f"{out}: exists; delete it or choose another --out")
    partial = out.with_name(f".{out.name}.partial")
    refuse_overwriting([partial], [*texts, *(content_of(dataset) if dataset else ())])
    transcripts: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    if dataset:
        for split in {shard.keys["split"] for shard in find_shards(dataset)}:
            transcripts[split] = [*read_references(dataset, split)["reference"]]
    sentences = Sentences(profile, [*transcripts["dev"], *transcripts["test"]])
    number_of: dict[str, int] = {word: number for number, word in enumerate(SPECIAL)}
    tokens = array("q")
    with Progress("reading", console=console) as progress:
        for line in chain(transcripts["train"], *map(read_texts, texts)):
            for words in sentences.of_line(line):
                tokens.append(BEGIN)
                tokens.extend(number_of.setdefault(word, len(number_of)) for word in words)
                tokens.append(END)
        if not tokens:
            raise LanguageModelError(f"no text is left: {sentences.summary()}")
        progress.update(text="estimating")
        orders = estimate(np.frombuffer(tokens, np.int64), len(number_of), order)
        own_words = list(number_of)[len(SPECIAL) :]
        settings: dict[str, Any] = {
            "order": order,
            "text_profile": profile,
            "sentences": dict(sentences.counts),
            "words": len(own_words),
            "ngrams": [len(ngrams.last) for ngrams in orders],
            HELD_OUT: len(sentences.held_out),
            "sources": [str(path) for path in (dataset, *texts) if path],
        }
        progress.update(text="writing")
        shutil.rmtree(partial, ignore_errors=True)
        with publish(partial / f"{order}gram.arpa") as stream:
            write_arpa(stream, orders, list(number_of))
        publish_text(partial / UNIGRAMS_FILE, "".join(f"{word}\n" for word in own_words))
        publish_json(partial / SETTINGS_FILE, settings)
        partial.replace(out)
    console.print(f"{sentences.summary()}; {len(own_words):,} different words")
    if not settings[HELD_OUT]:
        console.print(f"warning: {NOTHING_HELD_OUT}")
    ngrams = ", ".join(f"{count:,} {n}-grams" for n, count in enumerate(settings["ngrams"], 1))
    console.print(f"{ngrams} in {out}")
    return settings


def read_texts(file: Path) -> Iterator[str]:
    """Yield the texts of a file, a line at a time.

    Parquet, JSON lines, CSV and TSV have them in a column ``text`` or of another usual name; other
    files are plain text. Raises LanguageModelError if the file cannot be read or lacks the column.
    """
    if wrong := sorted(_NO_TEXT.intersection(map(str.lower, file.suffixes))):
        raise LanguageModelError(
            f"{file}: {wrong[0]} is no text; give plain text, JSON lines, CSV, TSV or Parquet. "
            "An ARPA file is a language model already: --lm takes it"
        )
    if suffix_of(file) not in TABLE_SUFFIXES:
        yield from read_lines(file, LanguageModelError)
        return
    names = [*THEIR_NAMES["text"]]
    for line, row in read_valid_rows(file, LanguageModelError, columns=names):
        name = next((name for name in names if name in row), None)
        if name is None:
            raise LanguageModelError(
                f"{file}:{line}: no column has the text; name it one of {', '.join(names)}"
            )
        yield from str(row[name] or "").splitlines()


class Sentences:
    """Normalises, deduplicates and filters lines of text.

    Attributes:
        held_out: The words of sentences that are left out, in any case and with any punctuation.
        counts: What became of the sentences.
    """

    def __init__(self, profile: str, held_out: Iterable[str]) -> None:
        self._to_profile = normalizer(profile)
        self.held_out = {_words(text) for text in held_out}
        self._long_ones: dict[tuple[str, ...], list[tuple[str, ...]]] = {}  # by their beginning
        for sentence in self.held_out:
            if len(sentence) >= _LONG:
                self._long_ones.setdefault(sentence[:_LONG], []).append(sentence)
        self.counts = Counter(sentences=0, kept=0, duplicates=0, held_out=0, empty=0, words=0)
        # Python's hash of a text has 64 bits; the texts would take ten times the memory.
        self._seen: set[int] = set()

    def of_line(self, line: str) -> Iterator[list[str]]:
        """Yield the words of each new sentence of a line."""
        sentences = [part for part in _BOUNDARY.split(line.strip()) if part]
        held_out = self._are_held_out(sentences)
        for sentence, is_held_out in zip(sentences, held_out, strict=True):
            self.counts["sentences"] += 1
            words = self._to_profile(sentence).split()
            key = hash(" ".join(words))
            if is_held_out:
                self.counts["held_out"] += 1
            elif not words:
                self.counts["empty"] += 1
            elif key in self._seen:
                self.counts["duplicates"] += 1
            else:
                self._seen.add(key)
                self.counts["kept"] += 1
                self.counts["words"] += len(words)
                yield words

    def _are_held_out(self, sentences: Sequence[str]) -> list[bool]:
        """Which sentences of a line are held out: all, if a long one is anywhere in the line."""
        if not self.held_out:
            return [False] * len(sentences)
        parts = [_words(sentence) for sentence in sentences]
        words = tuple(chain.from_iterable(parts))
        for begin in range(len(words) - _LONG + 1):
            for long_one in self._long_ones.get(words[begin : begin + _LONG], ()):
                if words[begin : begin + len(long_one)] == long_one:
                    return [True] * len(sentences)
        return [part in self.held_out for part in parts]

    def summary(self) -> str:
        """What became of the sentences, in words."""
        counts = self.counts
        return (
            f"{counts['sentences']:,} sentences read: {counts['kept']:,} kept ({counts['words']:,} "
            f"words), {counts['duplicates']:,} duplicates, {counts['held_out']:,} held out (in dev "
            f"or test), {counts['empty']:,} without a letter that the profile keeps"
        )


def _words(text: str) -> tuple[str, ...]:
    # CoRal's rules make "minus" of a dash.
    return tuple(normalize(text.replace("-", " "), "coral").split())
