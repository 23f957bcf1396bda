"""Which rows training leaves out, counted by reason and dialect. Evaluation is never filtered."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Final

import numpy as np
import pyarrow as pa
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
    """Numbers of tokens of every row, exact where a bound decides nothing.

    Tokenising takes 40 microseconds a row, minutes for millions of rows in every process. An upper
    bound from the bytes of a text is enough for most rows; :meth:`count` makes others exact.
    ``tokens`` and ``frames`` (that CTC needs) are such bounds; where ``any_known`` holds, a token
    is certainly not the unknown symbol.
    """

    def __init__(self, index: Index, targets: Targets, *, remove_unknown: bool) -> None:
        self._index, self._targets, self._remove_unknown = index, targets, remove_unknown
        self._exact = np.zeros(len(index), np.bool_)
        self.tokens = np.zeros(len(index), np.int32)
        self.any_known = np.zeros(len(index), np.bool_)
        self.characters = np.zeros(len(index), np.int32)
        self.empty = np.zeros(len(index), np.bool_)
        letters = "".join(letter for letter in ascii_lowercase if targets.can_write(letter))
        begin = 0
        for raw in index.table.column("text").chunks:
            rows, texts = slice(begin, begin + len(raw)), targets.normalized(raw)
            self.characters[rows] = pc.utf8_length(texts)
            self.empty[rows] = pc.equal(pc.utf8_trim_whitespace(texts), "")
            self.tokens[rows] = _most_tokens(texts)
            if letters:
                self.any_known[rows] = pc.match_substring_regex(texts, f"[{letters}]")
            begin += len(raw)
        self.frames = 2 * self.tokens

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
    """Counts of the rows by the number of their first reason and by dialect."""
    codes, dialects = index.dialects()
    cell, shape = first * len(dialects) + codes, (len(reasons) + 1, len(dialects))
    size = shape[0] * shape[1]
    rows = np.bincount(cell, minlength=size).reshape(shape)
    samples = np.bincount(cell, index.lengths, minlength=size).reshape(shape)
    seconds = samples / SAMPLE_RATE
    removed = tuple(
        Removed(reason, dialect, int(rows[number, code]), float(seconds[number, code]))
        for number, reason in enumerate(reasons)
        for code, dialect in enumerate(dialects)
        if rows[number, code]
    )
    return FilterStatistics(int(rows[-1].sum()), float(seconds[-1].sum()), removed)


def _most_tokens(texts: pa.Array) -> pa.Array:
    """An upper bound of the tokens of each text, for any tokenizer of characters or larger pieces.

    A character gives one token, or as many as NFKC or a fall-back to bytes makes of it. ASCII and
    the letters of Latin-1 (U+00C0 to U+00FF) give at most their bytes; others at most 3 for 2
    bytes, 18 for 3 bytes (U+FDFA), 4 for 4 bytes, that is 9 for each byte beyond the first. Two
    more are for what a tokenizer adds before and after a text.
    """
    size, characters = pc.binary_length(texts), pc.utf8_length(texts)
    other = pc.subtract(pc.multiply(size, 9), pc.multiply(characters, 8))
    return pc.add(pc.if_else(pc.match_substring_regex(texts, _LATIN), size, other), 2)
