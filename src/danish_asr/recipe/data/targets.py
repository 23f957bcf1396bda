"""From raw text to CTC targets: tokens, the frames they need, and the rows that cannot be trained.

Evaluation is never filtered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import numpy as np
import polars as pl
from fairseq2.data.tokenizers import Tokenizer
from numpy.typing import NDArray

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.config.schema import TaskSection
from danish_asr.recipe.data.index import TARGET, Index
from danish_asr.recipe.data.sampler import Rows

_ADDED_TOKENS: Final = 2
"""What a tokenizer may add before and after a text."""
_ROWS_AT_ONCE: Final = 4_096
_Count = TypeVar("_Count", int, NDArray[np.int32])


@dataclass(frozen=True)
class FrameCount:
    """Frames that unpadded convolutions make of a number of samples, or of each of many.

    Formula: ``floor((n - kernel) / stride) + 1`` per layer of (kernel, stride), and never below 0.
    wav2vec2's give a frame per 320 samples, the first of 400.
    """

    layers: Sequence[tuple[int, int]] = (
        (10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)
    )  # fmt: skip

    def __call__(self, samples: _Count) -> _Count:
        """Samples to frames."""
        for kernel, stride in self.layers:
            samples = (samples - kernel) // stride + 1
            samples = samples * (samples > 0)
        return samples

    def shortest_input(self) -> int:
        """The fewest samples that give one frame."""
        return next(samples for samples in range(1, 1 << 31) if self(samples))


def ctc_frames(tokens: NDArray[np.int64]) -> int:
    """Frames that CTC needs: one per target, and one for the blank between two equal targets."""
    return len(tokens) + int(np.count_nonzero(tokens[1:] == tokens[:-1]))


class Targets:
    """A tokenizer of normalised texts; thread-safe."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        info = tokenizer.vocab_info
        self.pad = info.pad_idx if info.pad_idx is not None else 0
        self.unknown = info.unk_idx
        self._encode = tokenizer.create_encoder()

    def __call__(self, text: str) -> NDArray[np.int64]:
        """Targets of a normalised text, ``(tokens,)``; may be empty."""
        return np.asarray(self._encode(text).numpy())

    def can_write(self, text: str) -> bool:
        """Whether no symbol of a normalised text is unknown."""
        return self.unknown is None or not bool((self._encode(text) == self.unknown).any())


class Removed(NamedTuple):
    """Rows of one dialect that one filter removed."""

    reason: str
    dialect: str
    rows: int
    seconds: float


class FilterStatistics(NamedTuple):
    """What the filters kept and removed; a row counts for the first reason that applies."""

    rows: int
    seconds: float
    removed: list[Removed]

    def lines(self) -> list[str]:
        """A plain table; one line if nothing was removed."""
        gone, hours = sum(part.rows for part in self.removed), self.seconds / 3600
        lines = [f"{self.rows:,} utterances ({hours:,.2f} h) for training, {gone:,} filtered out"]
        for part in self.removed:
            counts = f"{part.rows:>9,} rows {part.seconds / 3600:>9,.2f} h"
            lines.append(f"  {part.reason:52} {part.dialect:16} {counts}")
        return lines


class NeededFrames:
    """The frames that CTC needs for the target of each row.

    Tokenising takes 40 microseconds a row, minutes for millions of rows in every process. So tokens
    are counted only where as many as characters, all equal, might not fit. A few characters, such
    as ``ﷺ``, give more tokens: such a row may stay, and has a loss of 0.
    """

    def __init__(self, index: Index, targets: Targets) -> None:
        self._index, self._targets = index, targets
        texts = index.rows[TARGET]
        self.characters = texts.str.len_chars().cast(pl.Int32).to_numpy()
        self.empty = (texts.str.strip_chars() == "").to_numpy()
        self._frames = 2 * (self.characters + _ADDED_TOKENS)
        self._is_exact = self.empty.copy()

    def fit(self, frames: NDArray[np.int32], rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of these rows, a mask, have enough frames; ``frames`` of every row."""
        doubtful = np.flatnonzero(rows & ~self._is_exact & (self._frames > frames))
        for row, text in zip(doubtful, self._index.values(TARGET, doubtful), strict=True):
            self._frames[row] = ctc_frames(self._targets(text))
        self._is_exact[doubtful] = True
        return np.asarray(rows & (self._frames <= frames))


def select_rows(
    index: Index, needed: NeededFrames, task: TaskSection, frames: FrameCount
) -> tuple[Rows, FilterStatistics]:
    """The rows that training uses, ascending, and statistics of the others.

    Lengths are those of the recordings, whatever transforms make of them later.
    """
    lengths = index.lengths
    reasons = {
        "shorter than min_audio_len": lengths < task.min_audio_len,
        "longer than max_audio_len": lengths > task.max_audio_len,
        "empty text": needed.empty,
        "fewer samples per character than min_samples_per_char": lengths
        < task.min_samples_per_char * needed.characters,
    }
    left = ~np.logical_or.reduce(list(reasons.values()))
    reasons["fewer frames than CTC needs (targets + repeats)"] = ~needed.fit(frames(lengths), left)
    reason_of = np.select(list(reasons.values()), range(len(reasons)), len(reasons))
    codes, dialects = index.dialects()
    removed = []
    for number, reason in enumerate(reasons):
        for code, dialect in enumerate(dialects):
            rows = (reason_of == number) & (codes == code)
            if rows.any():
                removed.append(Removed(reason, dialect, int(rows.sum()), _seconds(lengths[rows])))
    kept = np.flatnonzero(reason_of == len(reasons)).astype(np.int32)
    return kept, FilterStatistics(len(kept), _seconds(lengths[kept]), removed)


def _seconds(lengths: NDArray[np.int32]) -> float:
    return float(lengths.sum(dtype=np.int64) / SAMPLE_RATE)


@dataclass(frozen=True)
class UnknownSymbols:
    """How much of a split's text the tokenizer cannot write."""

    characters: int
    unknown: int
    symbols: tuple[tuple[str, int], ...]  # the unknown characters, the most frequent first

    @property
    def share(self) -> float:
        """Unknown characters per character."""
        return self.unknown / self.characters if self.characters else 0.0


def count_unknown(index: Index, targets: Targets) -> UnknownSymbols:
    """Count the characters that a tokenizer of characters maps to its unknown symbol.

    Each is seen on its own: a tokenizer may make one unknown token of many characters in a row.
    """
    counts = np.zeros(0x110000, np.int64)
    # A few rows at a time: a character takes 15 bytes while it is counted.
    for rows in index.rows.select(TARGET).iter_slices(_ROWS_AT_ONCE):
        codes = np.frombuffer("".join(rows[TARGET]).encode("utf-32-le"), np.uint32)
        occurrences = np.bincount(codes)
        counts[: len(occurrences)] += occurrences
    seen = {chr(code): int(counts[code]) for code in np.flatnonzero(counts).tolist()}
    unknown = {symbol: count for symbol, count in seen.items() if not targets.can_write(symbol)}
    symbols = sorted(unknown.items(), key=lambda pair: (-pair[1], pair[0]))
    return UnknownSymbols(sum(seen.values()), sum(unknown.values()), tuple(symbols))
