"""Which rows training leaves out, and an account of them by reason and dialect.

Filters never touch evaluation. Numbers of tokens are bounded from the text's bytes first; only rows
for which the bound decides nothing are tokenised, which gives the same result and takes seconds
where millions of rows would take minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from danish_asr.reading.frames import FrameCount, frames_of
from danish_asr.reading.index import Index
from danish_asr.reading.plan import Rows
from danish_asr.reading.targets import Targets
from danish_asr.schema import SAMPLE_RATE

SHORT: Final = "shorter than min_audio_len"
LONG: Final = "longer than max_audio_len"
EMPTY: Final = "empty text"
FAST: Final = "fewer samples per character than min_samples_per_char"
WORDY: Final = "more tokens than filter_long_text_threshold"
UNKNOWN: Final = "no symbol that the tokenizer knows"
CROWDED: Final = "fewer frames than CTC needs (targets + repeats)"

_LATIN: Final = r"^[\x00-\x7F\x{C0}-\x{FF}]*$"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of upstream's ``asr_task_config``, with its names."""

    min_audio_len: int
    max_audio_len: int
    min_samples_per_char: int
    filter_long_text_threshold: int | None
    remove_unknown: bool


@dataclass(frozen=True, slots=True)
class Removal:
    """Rows of one dialect that one filter removed."""

    reason: str
    dialect: str
    rows: int
    seconds: float

    def line(self) -> str:
        """A line of the account's table."""
        hours = self.seconds / 3600
        return f"  {self.reason:52} {self.dialect:16} {self.rows:>9,} rows {hours:>9,.2f} h"


@dataclass(frozen=True, slots=True)
class Account:
    """What the filters left and what they removed; a row counts for the first reason it meets."""

    rows: int
    seconds: float
    removed: tuple[Removal, ...]

    def lines(self) -> list[str]:
        """A plain table; one line if nothing was removed."""
        gone = sum(removal.rows for removal in self.removed)
        hours = self.seconds / 3600
        head = f"{self.rows:,} utterances ({hours:,.2f} h) for training, {gone:,} filtered out"
        return [head, *(removal.line() for removal in self.removed)]


def select_rows(
    index: Index, targets: Targets, limits: Limits, frames: FrameCount
) -> tuple[Rows, Account]:
    """The rows that training uses, ascending, and the account of the others.

    Args:
        index: The split.
        targets: Turns a row's text into what is trained on.
        limits: The filters' settings.
        frames: Frames per utterance of the model that is trained.
    """
    facts = _text_facts(index, targets)
    lengths = index.lengths
    reasons: list[tuple[str, NDArray[np.bool_]]] = [
        (SHORT, lengths < limits.min_audio_len),
        (LONG, lengths > limits.max_audio_len),
        (EMPTY, facts.blank),
        (FAST, lengths < limits.min_samples_per_char * facts.characters),
    ]
    left = ~np.logical_or.reduce([mask for _, mask in reasons])
    needed = frames_of(lengths, frames)
    reasons += _token_reasons(index, facts, left, needed, targets=targets, limits=limits)
    first = np.full(len(index), len(reasons), np.int8)
    for number in reversed(range(len(reasons))):
        first[reasons[number][1]] = number
    kept = np.flatnonzero(first == len(reasons)).astype(np.int32)
    names = [reason for reason, _ in reasons]
    return kept, _account(index, first, names)


@dataclass(frozen=True, eq=False)
class _TextFacts:
    """What the normalised texts tell before they are tokenised; all ``(rows,)``.

    Attributes:
        characters: Their lengths.
        most_tokens: An upper bound of their tokens, see :func:`_most_tokens`.
        blank: Whether nothing but white space stands in them.
        known: Whether they surely hold a letter that the tokenizer knows.
    """

    characters: NDArray[np.int32]
    most_tokens: NDArray[np.int32]
    blank: NDArray[np.bool_]
    known: NDArray[np.bool_]


def _text_facts(index: Index, targets: Targets) -> _TextFacts:
    count = len(index)
    facts = _TextFacts(
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, np.bool_),
        np.empty(count, np.bool_),
    )
    letters = "".join(letter for letter in ascii_lowercase if targets.knows(letter))
    for begin, raw in index.texts.chunks():
        texts = targets.normalized(raw)
        rows = slice(begin, begin + len(texts))
        characters = _array(pc.utf8_length(texts))
        facts.characters[rows] = characters
        facts.most_tokens[rows] = _most_tokens(texts, characters)
        facts.blank[rows] = _array(pc.equal(pc.utf8_trim_whitespace(texts), ""))
        facts.known[rows] = (
            _array(pc.match_substring_regex(texts, f"[{letters}]")) if letters else False
        )
    return facts


def _token_reasons(
    index: Index,
    facts: _TextFacts,
    left: NDArray[np.bool_],
    frames: NDArray[np.int32],
    *,
    targets: Targets,
    limits: Limits,
) -> list[tuple[str, NDArray[np.bool_]]]:
    threshold = limits.filter_long_text_threshold
    unsure = (2 * facts.most_tokens > frames) | ~facts.known
    if threshold is not None:
        unsure |= facts.most_tokens > threshold
    wordy, unknown, crowded = (np.zeros(len(left), np.bool_) for _ in range(3))
    rows = np.flatnonzero(unsure & left).tolist()
    for row, text in zip(rows, index.texts.values(rows), strict=True):
        tokens = np.asarray(targets(text).numpy(), np.int64)
        known = tokens if targets.unknown is None else tokens[tokens != targets.unknown]
        # Upstream compares before it removes unknown symbols.
        wordy[row] = threshold is not None and len(tokens) > threshold
        unknown[row] = not len(known)
        crowded[row] = ctc_frames(known if limits.remove_unknown else tokens) > frames[row]
    return [(WORDY, wordy), (UNKNOWN, unknown), (CROWDED, crowded)]


def ctc_frames(tokens: NDArray[np.int64]) -> int:
    """Frames that CTC needs: one per target, and one for the blank between two equal targets."""
    return len(tokens) + int(np.count_nonzero(tokens[1:] == tokens[:-1]))


def _most_tokens(texts: pa.Array, characters: NDArray[Any]) -> NDArray[np.int32]:
    """An upper bound of the tokens of each text, for any tokenizer of characters or larger pieces.

    A character gives one token, or as many as NFKC or a fall-back to bytes makes of it. ASCII and
    the letters of Latin-1 (U+00C0 to U+00FF) give at most their bytes; others at most 3 for 2
    bytes, 18 for 3 bytes (U+FDFA), 4 for 4 bytes, that is 9 for each byte beyond the first. Two
    more stand for what a tokenizer puts before and after a text.
    """
    size = _array(pc.binary_length(texts))
    latin = _array(pc.match_substring_regex(texts, _LATIN))
    return np.asarray(np.where(latin, size, characters + 9 * (size - characters)) + 2, np.int32)


def _account(index: Index, first: NDArray[np.int8], names: Sequence[str]) -> Account:
    dialects, dialect_names = index.dialects()
    cell = first.astype(np.int64) * len(dialect_names) + dialects
    cells = (len(names) + 1) * len(dialect_names)
    rows = np.bincount(cell, minlength=cells).reshape(-1, len(dialect_names))
    samples = np.bincount(cell, index.lengths, minlength=cells).reshape(-1, len(dialect_names))
    removed = tuple(
        Removal(name, dialect, int(rows[number, code]), float(samples[number, code]) / SAMPLE_RATE)
        for number, name in enumerate(names)
        for code, dialect in enumerate(dialect_names)
        if rows[number, code]
    )
    return Account(int(rows[-1].sum()), float(samples[-1].sum()) / SAMPLE_RATE, removed)


def _array(values: pa.Array) -> NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False))
