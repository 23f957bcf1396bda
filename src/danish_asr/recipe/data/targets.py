"""From raw text to CTC targets: tokens, the frames they need, and the rows that cannot be trained.

Evaluation is never filtered.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Final, NamedTuple, TypeVar
from unicodedata import is_normalized

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fairseq2.data.tokenizers import Tokenizer
from numpy.typing import NDArray
from omnilingual_asr.datasets.tasks.asr_task import AsrTaskConfig

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.data.sampler import Rows
from danish_asr.text.profiles import is_word_or_emoji, normalizer

TOO_SHORT: Final = "shorter than min_audio_len"
TOO_LONG: Final = "longer than max_audio_len"
EMPTY: Final = "empty text"
TOO_MANY_CHARS: Final = "fewer samples per character than min_samples_per_char"
TOO_MANY_TOKENS: Final = "more tokens than filter_long_text_threshold"
ALL_UNKNOWN: Final = "no symbol that the tokenizer can write"
TOO_FEW_FRAMES: Final = "fewer frames than CTC needs (targets + repeats)"

_ADDED_TOKENS: Final = 2
"""What a tokenizer may add before and after a text."""
_ROWS_AT_ONCE: Final = 4_096
_Count = TypeVar("_Count", int, NDArray[np.int32])


@dataclass(frozen=True)
class FrameCount:
    """Frames that unpadded convolutions make of a number of samples, or of each of many.

    Formula: ``floor((n - kernel) / stride) + 1`` per layer, and never below 0.

    Attributes:
        layers: (kernel, stride) of each; wav2vec2's give a frame per 320 samples, the first of 400.
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
    """A text normalisation profile followed by a tokenizer; thread-safe.

    Raises:
        ConfigError: There is no such profile.
    """

    def __init__(self, tokenizer: Tokenizer, profile: str) -> None:
        info = tokenizer.vocab_info
        self.pad = info.pad_idx if info.pad_idx is not None else 0
        self.unknown = info.unk_idx
        self._encode = tokenizer.create_encoder()
        self._profile, self._normalize = profile, normalizer(profile)

    def __call__(self, text: str, *, remove_unknown: bool = False) -> NDArray[np.int64]:
        """Targets of a raw text, ``(tokens,)``; may be empty."""
        tokens: NDArray[np.int64] = self._encode(self._normalize(text)).numpy()
        return self.known(tokens) if remove_unknown else tokens

    def known(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tokens without unknown symbols."""
        return tokens if self.unknown is None else tokens[tokens != self.unknown]

    def normalized(self, texts: pa.Array) -> pa.Array:
        """Raw texts in the form that is trained on."""
        if self._profile == "raw":
            return texts
        return pa.array([self._normalize(text) for text in texts.to_pylist()], pa.string())

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


class TokenCounts:
    """Numbers of tokens of every row, counted only where they decide something.

    Tokenising takes 40 microseconds a row, minutes for millions of rows in every process. A text
    that Unicode's NFKC leaves as it is has at most one token per character; that is enough for most
    rows. :meth:`make_exact` counts the others.

    Attributes:
        most_tokens: Upper bound of each row's tokens, ``(rows,)``; exact after :meth:`make_exact`.
        most_frames: The same of the frames that CTC needs.
        any_known: Rows with a token that is certainly known; exact after :meth:`make_exact`.
    """

    def __init__(self, index: Index, targets: Targets, *, remove_unknown: bool) -> None:
        self._index, self._targets, self._remove_unknown = index, targets, remove_unknown
        letters = "".join(letter for letter in ascii_lowercase if targets.can_write(letter))
        chunks = [targets.normalized(chunk) for chunk in index.table.column("text").chunks]
        texts = pa.chunked_array(chunks, pa.string())
        self.characters = pc.utf8_length(texts).to_numpy()
        self.most_tokens = self.characters + np.int32(_ADDED_TOKENS)
        self.most_frames = 2 * self.most_tokens  # all tokens equal
        self.empty = np.array(pc.equal(pc.utf8_trim_whitespace(texts), ""))
        self.any_known = np.zeros(len(index), np.bool_)
        if letters:
            self.any_known = np.array(pc.match_substring_regex(texts, f"[{letters}]"))
        self._exact = self.empty.copy()
        self.make_exact(_changed_by_nfkc(texts))

    def make_exact(self, chosen: NDArray[np.bool_]) -> None:
        """Tokenise the chosen rows, a mask ``(rows,)``, each once."""
        for row in np.flatnonzero(chosen & ~self._exact).tolist():
            (text,) = self._index.values("text", [row])
            tokens = self._targets(text)
            known = self._targets.known(tokens)
            # Upstream compares the number of tokens before it removes unknown symbols.
            self.most_tokens[row] = len(tokens)
            self.any_known[row] = len(known) > 0
            self.most_frames[row] = ctc_frames(known if self._remove_unknown else tokens)
            self._exact[row] = True

    def enough(self, frames: NDArray[np.int32], rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of these rows, a mask, have as many frames as CTC needs; ``frames`` of each."""
        self.make_exact(rows & (self.most_frames > frames))
        return np.asarray(rows & (self.most_frames <= frames))


def _changed_by_nfkc(texts: pa.ChunkedArray) -> NDArray[np.bool_]:
    # pyarrow's utf8_normalize decomposes letters such as å under NFKC, so it would change them all.
    changed = (
        not is_normalized("NFKC", text) for chunk in texts.chunks for text in chunk.to_pylist()
    )
    return np.fromiter(changed, np.bool_, len(texts))


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
    counts.make_exact(left & ~counts.any_known)
    if most is not None:
        counts.make_exact(left & (counts.most_tokens > most))
        reasons[TOO_MANY_TOKENS] = counts.most_tokens > most
    reasons[ALL_UNKNOWN] = ~counts.any_known
    reasons[TOO_FEW_FRAMES] = ~counts.enough(frames(lengths), left)
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
    """How much of a split's text the tokenizer cannot write, and the text profile removes."""

    characters: int
    unknown: int
    symbols: tuple[tuple[str, int], ...]  # the unknown characters, the most frequent first
    removed: tuple[tuple[str, int], ...] = ()  # letters, digits and emoji, in the same order
    raw_characters: int = 0

    @property
    def share(self) -> float:
        """Unknown characters per character."""
        return self.unknown / self.characters if self.characters else 0.0

    @property
    def removed_share(self) -> float:
        """Removed letters, digits and emoji per character of the raw text."""
        return sum(n for _, n in self.removed) / self.raw_characters if self.raw_characters else 0.0


def count_unknown(index: Index, tokenizer: Tokenizer, text_profile: str = "raw") -> UnknownSymbols:
    """Count the characters that a tokenizer maps to its unknown symbol, each seen on its own.

    Exact for tokenizers of characters. Counts characters, not tokens: a tokenizer may make one
    unknown token of many characters in a row, which would hide most of them. Counts also what the
    profile leaves nothing of, without punctuation, symbols and space.
    """
    targets, normalize = Targets(tokenizer, text_profile), normalizer(text_profile)
    counts, raw_counts = np.zeros((2, 0x110000), np.int64)
    for texts in index.table.column("text").chunks:
        # A few rows at a time: a character takes 15 bytes while it is counted.
        for begin in range(0, len(texts), _ROWS_AT_ONCE):
            raw = texts.slice(begin, _ROWS_AT_ONCE)
            _add_characters(targets.normalized(raw), counts)
            if text_profile != "raw":  # which removes nothing
                _add_characters(raw, raw_counts)
    unknown = _most_frequent(counts, lambda symbol: not targets.can_write(symbol))
    removed = _most_frequent(raw_counts, lambda c: is_word_or_emoji(c) and not normalize(c))
    total = int(counts.sum())
    of_unknown = sum(count for _, count in unknown)
    return UnknownSymbols(total, of_unknown, unknown, removed, int(raw_counts.sum()))


def _add_characters(texts: pa.Array, counts: NDArray[np.int64]) -> None:
    codes = np.frombuffer("".join(texts.to_pylist()).encode("utf-32-le"), np.uint32)
    occurrences = np.bincount(codes)
    counts[: len(occurrences)] += occurrences


def _most_frequent(
    counts: NDArray[np.int64], chosen: Callable[[str], bool]
) -> tuple[tuple[str, int], ...]:
    pairs = ((chr(code), int(counts[code])) for code in np.flatnonzero(counts).tolist())
    selected = [pair for pair in pairs if chosen(pair[0])]
    return tuple(sorted(selected, key=lambda pair: (-pair[1], pair[0])))
