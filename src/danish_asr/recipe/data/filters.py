"""Which rows training leaves out, counted by reason and dialect. Evaluation is never filtered."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Final

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.sampler import Rows
from danish_asr.recipe.data.targets import FrameCount, Targets, ctc_frames

TOO_SHORT: Final = "shorter than min_audio_len"
TOO_LONG: Final = "longer than max_audio_len"
EMPTY: Final = "empty text"
TOO_MANY_CHARS: Final = "fewer samples per character than min_samples_per_char"
TOO_MANY_TOKENS: Final = "more tokens than filter_long_text_threshold"
ALL_UNKNOWN: Final = "no symbol that the tokenizer can write"
TOO_FEW_FRAMES: Final = "fewer frames than CTC needs (targets + repeats)"

_LATIN: Final = r"^[\x00-\x7F\x{C0}-\x{FF}]*$"
"""Texts of ASCII and the letters of Latin-1 have at most as many tokens as bytes."""

_ADDED_TOKENS: Final = 2
"""What a tokenizer may add before and after a text."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Rows of one dialect that one filter removed."""

    reason: str
    dialect: str
    rows: int
    seconds: float

    def __str__(self) -> str:
        counts = f"{self.rows:>9,} rows {self.seconds / 3600:>9,.2f} h"
        return f"  {self.reason:52} {self.dialect:16} {counts}"


@dataclass(frozen=True, slots=True)
class FilterStatistics:
    """What the filters kept and removed; a row counts for the first reason that applies."""

    rows: int
    seconds: float
    removed: tuple[Removed, ...]

    def lines(self) -> list[str]:
        """A plain table; one line if nothing was removed."""
        gone, hours = sum(part.rows for part in self.removed), self.seconds / 3600
        head = f"{self.rows:,} utterances ({hours:,.2f} h) for training, {gone:,} filtered out"
        return [head, *map(str, self.removed)]


class TokenCounts:
    """Numbers of tokens of every row, counted only where they decide something.

    Tokenising takes 40 microseconds a row, minutes for millions of rows in every process. In plain
    Latin text the bytes limit ``tokens`` and ``frames`` (that CTC needs); that is enough for most
    rows. :meth:`count` makes others exact. Where ``any_known`` holds, a token is certainly known.
    """

    def __init__(self, index: Index, targets: Targets, *, remove_unknown: bool) -> None:
        self._index, self._targets, self._remove_unknown = index, targets, remove_unknown
        self.characters = np.zeros(len(index), np.int32)
        self.tokens = np.zeros(len(index), np.int32)
        self.empty, self.any_known, plain = np.zeros((3, len(index)), np.bool_)
        letters = "".join(letter for letter in ascii_lowercase if targets.can_write(letter))
        begin = 0
        for chunk in index.table.column("text").chunks:
            rows, texts = slice(begin, begin + len(chunk)), targets.normalized(chunk)
            self.characters[rows] = pc.utf8_length(texts)
            self.tokens[rows] = pc.add(pc.binary_length(texts), _ADDED_TOKENS)
            self.empty[rows] = pc.equal(pc.utf8_trim_whitespace(texts), "")
            plain[rows] = pc.match_substring_regex(texts, _LATIN)
            if letters:
                self.any_known[rows] = pc.match_substring_regex(texts, f"[{letters}]")
            begin += len(chunk)
        self.frames = 2 * self.tokens
        self._exact = self.empty.copy()
        self.count(~plain)

    def count(self, unsure: NDArray[np.bool_]) -> None:
        """Tokenise these rows, ``(rows,)``, each once."""
        for row in np.flatnonzero(unsure & ~self._exact).tolist():
            (text,) = self._index.values("text", [row])
            tokens = self._targets(text)
            known = self._targets.known(tokens)
            # Upstream compares the number of tokens before it removes unknown symbols.
            self.tokens[row], self.any_known[row] = len(tokens), len(known) > 0
            self.frames[row] = ctc_frames(known if self._remove_unknown else tokens)
            self._exact[row] = True

    def enough(self, frames: NDArray[np.int32], rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of these rows, a mask, have as many frames as CTC needs; ``frames`` of each."""
        self.count(rows & (self.frames > frames))
        return rows & (self.frames <= frames)


def select_rows(
    index: Index, counts: TokenCounts, task: AsrTaskConfig, frames: FrameCount
) -> tuple[Rows, FilterStatistics]:
    """The rows that training uses, ascending, and statistics of the others.

    Lengths are those of the recordings, whatever transforms make of them later.
    """
    lengths, most = index.lengths, task.filter_long_text_threshold
    reasons = {
        TOO_SHORT: lengths < task.min_audio_len,
        TOO_LONG: lengths > task.max_audio_len,
        EMPTY: counts.empty,
        TOO_MANY_CHARS: lengths < task.min_samples_per_char * counts.characters,
    }
    left = ~np.logical_or.reduce(list(reasons.values()))
    unsure = left & ~counts.any_known
    if most is not None:
        unsure |= left & (counts.tokens > most)
    counts.count(unsure)
    if most is not None:
        reasons[TOO_MANY_TOKENS] = counts.tokens > most
    reasons[ALL_UNKNOWN] = ~counts.any_known
    reasons[TOO_FEW_FRAMES] = ~counts.enough(frames(lengths), left)
    first = np.select(list(reasons.values()), range(len(reasons)), len(reasons))
    rows = np.flatnonzero(first == len(reasons)).astype(np.int32)
    return rows, _statistics(index, first, list(reasons))


def _statistics(index: Index, first: NDArray[np.int64], reasons: Sequence[str]) -> FilterStatistics:
    """Count the rows by the number of their first reason and by dialect."""
    codes, dialects = index.dialects()
    removed = []
    for number, reason in enumerate(reasons):
        for code, dialect in enumerate(dialects):
            lengths = index.lengths[(first == number) & (codes == code)]
            if len(lengths):
                seconds = float(lengths.sum(dtype=np.int64) / SAMPLE_RATE)
                removed.append(Removed(reason, dialect, len(lengths), seconds))
    kept = index.lengths[first == len(reasons)]
    return FilterStatistics(
        len(kept), float(kept.sum(dtype=np.int64) / SAMPLE_RATE), tuple(removed)
    )
