"""Build an n-gram language model: sentences of text files and of a dataset, without dev and test.

`ngram_estimate` makes probabilities of them; `build_language_model` publishes the directory that
decoders read.
"""

import re
import shutil
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console

from danish_asr.base.errors import ConfigError, LanguageModelError, MissingExtraError
from danish_asr.base.files import publish, publish_json, publish_text
from danish_asr.base.progress import Progress
from danish_asr.base.tables import TABLE_SUFFIXES, read_lines, read_valid_rows, suffix_of
from danish_asr.corpus.rows import USUAL_NAMES
from danish_asr.corpus.shards import find_shards
from danish_asr.decoding.beam import ALPHA, BEAM, BETA
from danish_asr.decoding.ngram import (
    HELD_OUT,
    NOTHING_HELD_OUT,
    SETTINGS_FILE,
    UNIGRAMS_FILE,
    find_language_model,
)
from danish_asr.decoding.ngram_estimate import BEGIN, END, SPECIAL, estimate, write_arpa
from danish_asr.scoring.predictions import read_references
from danish_asr.text.profiles import normalize, normalizer

ORDERS: Final = range(2, 7)
"""KenLM, as its wheels are built, reads n-grams of up to 6 words."""

_BOUNDARY: Final = re.compile(r"(?<=[.!?:;])[\"”’»)]*\s+")

_BLOCK: Final = 1_000
"""Sentences that are searched for held-out ones at a time."""

_LONG: Final = 4
"""Words of a held-out sentence from which on it is also searched for inside of others."""


def build_language_model(
    texts: Sequence[Path],
    out: Path,
    *,
    order: int = 3,
    dataset: Path | None = None,
    profile: str,
    prune: Sequence[int] = (),
    column: str = "text",
    console: Console | None = None,
) -> dict[str, Any]:
    """Build a language model of files and the training transcripts of a dataset.

    No sentence of the dataset's dev and test splits is in it, nor one that contains such a sentence
    of four words or more; see `HeldOut`.

    Args:
        texts: Files that `read_texts` reads.
        out: The new directory, which exists as a whole or not at all.
        order: Words in the longest n-grams.
        dataset: Root of a built dataset.
        profile: Text profile of the model's training texts, which its words must equal.
        prune: For each order, n-grams that occur so often or less are left out, as KenLM's
            ``lmplz --prune`` has it; the last value holds for higher orders.
        column: Of Parquet, JSON lines, CSV and TSV.
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
        for words in _read_all(sentences, transcripts["train"], texts, column, progress):
            tokens.append(BEGIN)
            tokens.extend(number_of.setdefault(word, len(number_of)) for word in words)
            tokens.append(END)
        if not tokens:
            raise LanguageModelError(
                f"no text: none of {sentences.counts['sentences']:,} sentences is left; "
                f"{sentences.counts['held_out']:,} are in dev or test, "
                f"{sentences.counts['empty']:,} have no letter that '{profile}' keeps"
            )
        progress.update(0, total=3 * order - 1)
        numbers = np.frombuffer(tokens, np.int64)
        orders = estimate(numbers, len(number_of), order, prune, progress.advance)
        own_words = list(number_of)[len(SPECIAL) :]
        settings: dict[str, Any] = {"order": order, "text_profile": profile}
        settings |= {"alpha": ALPHA, "beta": BETA, "beam": BEAM, "prune": list(prune)}
        settings |= {"sentences": dict(sentences.counts), "words": len(own_words)}
        settings["ngrams"] = [int(ngrams.kept.sum()) for ngrams in orders]
        settings[HELD_OUT] = len(held_out.sentences)
        settings["sources"] = [str(path) for path in (dataset, *texts) if path]
        partial = out.with_name(f".{out.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        with publish(partial / f"{order}gram.arpa") as stream:
            write_arpa(stream, orders, list(number_of), progress.advance)
        publish_text(partial / UNIGRAMS_FILE, "".join(f"{word}\n" for word in own_words))
        publish_json(partial / SETTINGS_FILE, settings)
        partial.replace(out)
    _report(console, out, settings, transcripts["dev"])
    return settings


def _checked_prune(order: int, prune: Sequence[int]) -> list[int]:
    """The counts to prune for each order."""
    faults = []
    if order not in ORDERS:
        faults.append(f"--order: expected {ORDERS[0]} to {ORDERS[-1]}, found {order}")
    padded = [*prune] or [0]
    padded += [padded[-1]] * (order - len(padded))
    if len(padded) > order or padded[0] != 0 or padded != sorted(padded):
        faults.append(
            f"--prune: expected at most {order} numbers, 0 first and none smaller than the one "
            f"before it; found {' '.join(map(str, prune))}"
        )
    if faults:
        raise ConfigError(faults, where="the language model")
    return padded


def _report(console: Console, out: Path, settings: dict[str, Any], dev: Sequence[str]) -> None:
    counts = settings["sentences"]
    console.print(
        f"{counts['sentences']:,} sentences read: {counts['kept']:,} kept ({counts['words']:,} "
        f"words, {settings['words']:,} different), {counts['duplicates']:,} duplicates, "
        f"{counts['held_out']:,} held out (in dev or test), {counts['empty']:,} empty"
    )
    if not settings[HELD_OUT]:
        console.print(f"warning: {NOTHING_HELD_OUT}")
    ngrams = ", ".join(f"{count:,} {n}-grams" for n, count in enumerate(settings["ngrams"], 1))
    console.print(f"{ngrams} in {out}")
    if not dev:
        return
    try:
        model = find_language_model(out).load()
    except MissingExtraError:
        return
    texts = [normalize(text, settings["text_profile"]) for text in dev]
    words = " ".join(texts).split()
    unknown = sum(word not in model for word in words)
    log10 = sum(model.score(text) for text in texts)
    console.print(
        f"dev: perplexity {10 ** (-log10 / (len(words) + len(texts))):.1f} per word, "
        f"{unknown / max(1, len(words)):.2%} of {len(words):,} words unknown"
    )


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
    names = [*USUAL_NAMES["text"]] if column == "text" else [column]
    for line, row in read_valid_rows(file, LanguageModelError, columns=names):
        name = next((name for name in names if name in row), None)
        if name is None:
            raise LanguageModelError(
                f"{file}:{line}: has no column '{column}'; --column names the one with the text"
            )
        yield from str(row[name] or "").splitlines()


class HeldOut:
    """Sentences that must not be in a language model, whatever their case and punctuation."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.sentences = {tuple(_words(text)) for text in texts}
        self._longest = max(map(len, self.sentences), default=0)
        self._by_beginning: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for sentence in self.sentences:
            if len(sentence) >= _LONG:
                self._by_beginning.setdefault(sentence[:_LONG], []).append(sentence)

    def without(self, sentences: Iterable[str]) -> Iterator[str | None]:
        """Yield each of consecutive sentences, or None if it is held out or has words of one.

        A sentence of four words or more is also found inside of others, and across their borders:
        "f.eks." may have been taken for the end of a sentence. A block of sentences is in memory;
        those at its end, which a held-out sentence may begin in, are searched again with the next.
        """
        if not self.sentences:
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

    def of_text(self, lines: Iterable[str], advance: Callable[[], object]) -> Iterator[list[str]]:
        """Yield the words of each new sentence; ``advance`` is called for each line.

        A held-out sentence is also found where it is broken over lines.
        """
        for sentence in self._held_out.without(_split(lines, advance)):
            self.counts["sentences"] += 1
            if sentence is None:
                self.counts["held_out"] += 1
                continue
            words = self._to_profile(sentence).split()
            key = hash(" ".join(words))
            if not words:
                self.counts["empty"] += 1
            elif key in self._seen:
                self.counts["duplicates"] += 1
            else:
                self._seen.add(key)
                self.counts["kept"] += 1
                self.counts["words"] += len(words)
                yield words


def _split(lines: Iterable[str], advance: Callable[[], object]) -> Iterator[str]:
    for line in lines:
        advance()
        yield from (part for part in _BOUNDARY.split(line.strip()) if part)


def _read_all(
    sentences: Sentences,
    transcripts: Sequence[str],
    texts: Sequence[Path],
    column: str,
    progress: Progress,
) -> Iterator[list[str]]:
    """Yield the words of each sentence of the transcripts and of the files."""
    for transcript in transcripts:  # they do not continue each other
        yield from sentences.of_text([transcript], progress.advance)
    for file in texts:
        progress.update(text=f"reading {file.name}")
        yield from sentences.of_text(read_texts(file, column), progress.advance)
