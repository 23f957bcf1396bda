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

from danish_asr.frames import FrameCount, frames_of
from danish_asr.index import Index
from danish_asr.plan import Rows
from danish_asr.schema import SAMPLE_RATE
from danish_asr.targets import Targets

SHORT: Final = "shorter than min_audio_len"
LONG: Final = "longer than max_audio_len"
EMPTY: Final = "empty text"
FAST: Final = "fewer samples per character than min_samples_per_char"
WORDY: Final = "more tokens than filter_long_text_threshold"
UNKNOWN: Final = "no symbol that the tokenizer knows"
CROWDED: Final = "fewer frames than CTC needs (targets + repeats)"


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
    texts = targets.texts(index)
    characters = _numbers(pc.utf8_length(texts))
    lengths = index.lengths
    reasons: list[tuple[str, NDArray[np.bool_]]] = [
        (SHORT, lengths < limits.min_audio_len),
        (LONG, lengths > limits.max_audio_len),
        (EMPTY, _numbers(pc.utf8_length(pc.utf8_trim_whitespace(texts))) == 0),
        (FAST, lengths < limits.min_samples_per_char * characters.astype(np.int64)),
    ]
    left = ~np.logical_or.reduce([mask for _, mask in reasons])
    reasons += _token_reasons(
        texts, characters, left, frames_of(lengths, frames), targets=targets, limits=limits
    )
    first = np.full(len(index), len(reasons), np.int8)
    for number in reversed(range(len(reasons))):
        first[reasons[number][1]] = number
    kept = np.flatnonzero(first == len(reasons)).astype(np.int32)
    names = [reason for reason, _ in reasons]
    return kept, _account(index, first, names)


def _token_reasons(
    texts: pa.Array,
    characters: NDArray[np.int64],
    left: NDArray[np.bool_],
    frames: NDArray[np.int64],
    *,
    targets: Targets,
    limits: Limits,
) -> list[tuple[str, NDArray[np.bool_]]]:
    most = _most_tokens(texts, characters)
    threshold = limits.filter_long_text_threshold
    unsure = 2 * most > frames
    if threshold is not None:
        unsure |= most > threshold
    unsure |= ~_surely_known(texts, targets)
    wordy, unknown, crowded = (np.zeros(len(left), np.bool_) for _ in range(3))
    for row in np.flatnonzero(unsure & left).tolist():
        text = texts[row].as_py()
        tokens = np.asarray(targets.encode(text).numpy(), np.int64)
        known = tokens if targets.unknown is None else tokens[tokens != targets.unknown]
        # Upstream compares before it removes unknown symbols.
        wordy[row] = threshold is not None and len(tokens) > threshold
        unknown[row] = not len(known)
        crowded[row] = ctc_frames(known if limits.remove_unknown else tokens) > frames[row]
    return [(WORDY, wordy), (UNKNOWN, unknown), (CROWDED, crowded)]


def ctc_frames(tokens: NDArray[np.int64]) -> int:
    """Frames that CTC needs: one per target, and one for the blank between two equal targets."""
    return len(tokens) + int(np.count_nonzero(tokens[1:] == tokens[:-1]))


def _most_tokens(texts: pa.Array, characters: NDArray[np.int64]) -> NDArray[np.int64]:
    """An upper bound of the tokens of each text, for any tokenizer of characters or larger pieces.

    A character gives one token, or as many as NFKC or a fall-back to bytes makes of it: at most 3
    for 2 bytes, 18 for 3 bytes (U+FDFA), 4 for 4 bytes; that is at most 9 for each byte beyond the
    first. Two more stand for what a tokenizer puts before and after a text.
    """
    extra = _numbers(pc.binary_length(texts)) - characters
    return characters + 9 * extra + 2


def _surely_known(texts: pa.Array, targets: Targets) -> NDArray[np.bool_]:
    """Which texts hold a letter that the tokenizer knows; the others may hold one all the same."""
    letters = [letter for letter in ascii_lowercase if targets.knows(letter)]
    if not letters:
        return np.zeros(len(texts), np.bool_)
    found = pc.match_substring_regex(texts, f"[{''.join(letters)}]")
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


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


def _numbers(array: Any) -> NDArray[np.int64]:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.int64)
