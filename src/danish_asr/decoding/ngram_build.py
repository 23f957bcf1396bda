"""Build an n-gram language model: sentences of text files and of a dataset, without dev and test.

`ngram_estimate` makes probabilities of them; `build_language_model` publishes the directory that
decoders read.
"""

import re
import shutil
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console

from danish_asr.base.errors import ConfigError, LanguageModelError
from danish_asr.base.files import publish, publish_json, publish_text
from danish_asr.base.progress import Progress
from danish_asr.base.tables import TABLE_SUFFIXES, read_lines, read_valid_rows, suffix_of
from danish_asr.corpus.columns import USUAL_NAMES
from danish_asr.corpus.shards import find_shards
from danish_asr.decoding.ngram import HELD_OUT, NOTHING_HELD_OUT, SETTINGS_FILE, UNIGRAMS_FILE
from danish_asr.decoding.ngram_estimate import BEGIN, END, SPECIAL, estimate, write_arpa
from danish_asr.scoring.predictions import read_references
from danish_asr.text.profiles import normalize, normalizer

ORDERS: Final = range(2, 7)
"""KenLM, as its wheels are built, reads n-grams of up to 6 words."""

_BOUNDARY: Final = re.compile(r"(?<=[.!?:;])[\"”’»)]*\s+")

_LONG: Final = 4
"""Words of a held-out sentence from which on it is also searched for inside of lines."""


def build_language_model(
    texts: Sequence[Path],
    out: Path,
    *,
    order: int = 3,
    dataset: Path | None = None,
    profile: str,
    prune: Sequence[int] = (),
    console: Console | None = None,
) -> dict[str, Any]:
    """Build a language model of files and the training transcripts of a dataset.

    No sentence of the dataset's dev and test splits is in it, nor one in whose line such a sentence
    of four words or more occurs; see `HeldOut`.

    Args:
        texts: Files that `read_texts` reads.
        out: The new directory, which exists as a whole or not at all.
        order: Words in the longest n-grams.
        dataset: Root of a built dataset.
        profile: Text profile of the model's training texts, which its words must equal.
        prune: For each order, n-grams that occur so often or less are left out, as KenLM's
            ``lmplz --prune`` has it; the last value holds for higher orders.
        console: For progress and the result; default: standard error.

    Returns the content of ``lm.json``. Raises ConfigError for an impossible option, DatasetError
    and LanguageModelError for what cannot be read, or if no text remains or ``out`` exists.
    """
    console = console or Console(stderr=True, highlight=False, soft_wrap=True)
    prune = _checked_prune(order, prune)
    if not texts and not dataset:
        raise LanguageModelError("no text: give files with text, --dataset, or both")
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise LanguageModelError(f"{out}: exists; delete it or choose another --out")
    transcripts: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    if dataset:
        for split in {shard.keys["split"] for shard in find_shards(dataset)}:
            references = read_references(dataset, split)
            transcripts[split] = [str(row["reference"]) for row in references]
    held_out = HeldOut([*transcripts["dev"], *transcripts["test"]])
    sentences = Sentences(profile, held_out)
    number_of: dict[str, int] = {word: number for number, word in enumerate(SPECIAL)}
    tokens = array("q")
    with Progress("reading", console=console) as progress:
        for line in _lines(transcripts["train"], texts, progress):
            for words in sentences.of_line(line):
                tokens.append(BEGIN)
                tokens.extend(number_of.setdefault(word, len(number_of)) for word in words)
                tokens.append(END)
        if not tokens:
            raise LanguageModelError(f"no text is left: {sentences.summary()}")
        progress.update(0, total=3 * order - 1)
        numbers = np.frombuffer(tokens, np.int64)
        orders = estimate(numbers, len(number_of), order, prune, progress.advance)
        own_words = list(number_of)[len(SPECIAL) :]
        settings: dict[str, Any] = {
            "order": order,
            "text_profile": profile,
            "prune": list(prune),
            "sentences": dict(sentences.counts),
            "words": len(own_words),
            "ngrams": [int(ngrams.kept.sum()) for ngrams in orders],
            HELD_OUT: len(held_out.sentences),
            "sources": [str(path) for path in (dataset, *texts) if path],
        }
        partial = out.with_name(f".{out.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        with publish(partial / f"{order}gram.arpa") as stream:
            write_arpa(stream, orders, list(number_of), progress.advance)
        publish_text(partial / UNIGRAMS_FILE, "".join(f"{word}\n" for word in own_words))
        publish_json(partial / SETTINGS_FILE, settings)
        partial.replace(out)
    console.print(f"{sentences.summary()}; {len(own_words):,} different words")
    if not settings[HELD_OUT]:
        console.print(f"warning: {NOTHING_HELD_OUT}")
    ngrams = ", ".join(f"{count:,} {n}-grams" for n, count in enumerate(settings["ngrams"], 1))
    console.print(f"{ngrams} in {out}")
    return settings


def _checked_prune(order: int, prune: Sequence[int]) -> list[int]:
    """The counts to prune for each order."""
    padded = [*prune] or [0]
    padded += [padded[-1]] * (order - len(padded))
    if order not in ORDERS or len(padded) > order or padded[0] != 0 or padded != sorted(padded):
        rule = f"--order from {ORDERS[0]} to {ORDERS[-1]}; --prune at most as many numbers, 0 first"
        found = f"found order {order}, prune {' '.join(map(str, prune))}"
        raise ConfigError([f"expected {rule}, none smaller than the one before it; {found}"])
    return padded


def _lines(transcripts: Sequence[str], texts: Sequence[Path], progress: Progress) -> Iterator[str]:
    for transcript in transcripts:
        progress.advance()
        yield transcript
    for file in texts:
        progress.update(text=f"reading {file.name}")
        for line in read_texts(file):
            progress.advance()
            yield line


def read_texts(file: Path) -> Iterator[str]:
    """Yield the texts of a file, a line at a time.

    Parquet, JSON lines, CSV and TSV have them in a column ``text`` or of another usual name; other
    files are plain text.

    Raises:
        LanguageModelError: The file cannot be read, is not UTF-8 or lacks the column.
    """
    if suffix_of(file) not in TABLE_SUFFIXES:
        yield from read_lines(file, LanguageModelError)
        return
    names = [*USUAL_NAMES["text"]]
    for line, row in read_valid_rows(file, LanguageModelError, columns=names):
        name = next((name for name in names if name in row), None)
        if name is None:
            raise LanguageModelError(
                f"{file}:{line}: no column has the text; name it one of {', '.join(names)}"
            )
        yield from str(row[name] or "").splitlines()


class HeldOut:
    """Sentences that must not be in a language model, whatever their case and punctuation."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.sentences = {tuple(_words(text)) for text in texts}
        self._by_beginning: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for sentence in self.sentences:
            if len(sentence) >= _LONG:
                self._by_beginning.setdefault(sentence[:_LONG], []).append(sentence)

    def positions(self, sentences: Sequence[str]) -> set[int]:
        """The positions of the sentences of a line that are held out, or contain words of one.

        A long one is also found across their borders: "f.eks." may have been taken for an end.
        """
        words: list[str] = []
        position_of: list[int] = []  # of each word
        held_out = set()
        for position, sentence in enumerate(sentences):
            own_words = _words(sentence)
            if tuple(own_words) in self.sentences:
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


class Sentences:
    """Normalises, deduplicates and filters lines of text; ``counts`` says what became of them."""

    def __init__(self, profile: str, held_out: HeldOut) -> None:
        self._to_profile, self._held_out = normalizer(profile), held_out
        self.counts = Counter(sentences=0, kept=0, duplicates=0, held_out=0, empty=0, words=0)
        # Python's hash of a text has 64 bits; the texts would take ten times the memory.
        self._seen: set[int] = set()

    def of_line(self, line: str) -> Iterator[list[str]]:
        """Yield the words of each new sentence of a line."""
        sentences = [part for part in _BOUNDARY.split(line.strip()) if part]
        held_out = self._held_out.positions(sentences) if self._held_out.sentences else ()
        for position, sentence in enumerate(sentences):
            self.counts["sentences"] += 1
            words = self._to_profile(sentence).split()
            key = hash(" ".join(words))
            if position in held_out:
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

    def summary(self) -> str:
        """What became of the sentences, in words."""
        counts = self.counts
        return (
            f"{counts['sentences']:,} sentences read: {counts['kept']:,} kept ({counts['words']:,} "
            f"words), {counts['duplicates']:,} duplicates, {counts['held_out']:,} held out (in dev "
            f"or test), {counts['empty']:,} without a letter that the profile keeps"
        )
