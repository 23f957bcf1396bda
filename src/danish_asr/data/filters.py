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

from danish_asr.data.frames import FrameCount
from danish_asr.data.index import Index
from danish_asr.data.plan import Rows
from danish_asr.data.speed import perturbed_lengths
from danish_asr.data.targets import Targets
from danish_asr.schema import SAMPLE_RATE

SHORT: Final = "shorter than min_audio_len"
LONG: Final = "longer than max_audio_len"
EMPTY: Final = "empty text"
FAST: Final = "fewer samples per character than min_samples_per_char"
WORDY: Final = "more tokens than filter_long_text_threshold"
UNKNOWN: Final = "no symbol that the tokenizer knows"
CROWDED: Final = "fewer frames than CTC needs (targets + repeats)"

_REASONS: Final = (SHORT, LONG, EMPTY, FAST, WORDY, UNKNOWN, CROWDED)
"""In the order in which they are looked for; the last three need a row's tokens."""

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
    index: Index,
    targets: Targets,
    limits: Limits,
    frames: FrameCount,
    *,
    fastest: float = 1.0,
    needed: NDArray[np.int32] | None = None,
) -> tuple[Rows, Account]:
    """The rows that training uses, ascending, and the account of the others.

    A row stays if it can be trained on as it was recorded, at whatever speed it is played later.

    Args:
        index: The split.
        targets: Turns a row's text into what is trained on.
        limits: The filters' settings.
        frames: Frames per utterance of the model that is trained.
        fastest: The highest factor of speed, at least 1.
        needed: ``(rows,)``, to be filled with the frames that CTC needs for each row; 0 for a row
            that certainly has enough at the highest speed too.
    """
    judge = _Judge(targets, limits, lengths=index.lengths, frames=frames, fastest=fastest)
    dialects, names = index.dialects()
    first = np.empty(len(index), np.int8)
    tally = _Tally(names)
    # A chunk at a time: what is known of millions of rows at once would fill gigabytes.
    for begin, texts in index.texts.chunks():
        rows = slice(begin, begin + len(texts))
        first[rows], least = judge.first_reasons(texts, index.lengths[rows])
        if needed is not None:
            needed[rows] = least
        tally.add(first[rows], dialects[rows], index.lengths[rows])
    return np.flatnonzero(first == len(_REASONS)).astype(np.int32), tally.account()


class _Judge:
    """Finds the first reason, if any, to leave a row out."""

    def __init__(
        self,
        targets: Targets,
        limits: Limits,
        *,
        lengths: NDArray[np.int32],
        frames: FrameCount,
        fastest: float,
    ) -> None:
        self._targets = targets
        self._limits = limits
        letters = "".join(letter for letter in ascii_lowercase if targets.knows(letter))
        self._known_letter = f"[{letters}]" if letters else None
        # Counted once for each length that occurs; many rows are equally long.
        self._lengths = np.unique(lengths)
        self._frames = np.array([frames(samples) for samples in self._lengths.tolist()], np.int32)
        self._fewest = self._frames
        if fastest > 1:
            shortened = perturbed_lengths(self._lengths, fastest).tolist()
            self._fewest = np.array([frames(samples) for samples in shortened], np.int32)

    def first_reasons(
        self, raw: pa.Array, lengths: NDArray[np.int32]
    ) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
        """The number in :data:`_REASONS` for each row, their count if there is none.

        Beside it the frames that CTC needs, 0 where it has enough at any speed.

        Args:
            raw: The texts as the corpus has them.
            lengths: Samples, ``(rows,)``.
        """
        limits, texts = self._limits, self._targets.normalized(raw)
        characters = _array(pc.utf8_length(texts))
        quick = [
            lengths < limits.min_audio_len,
            lengths > limits.max_audio_len,
            _array(pc.equal(pc.utf8_trim_whitespace(texts), "")),
            lengths < limits.min_samples_per_char * characters,
        ]
        first = np.full(len(lengths), len(_REASONS), np.int8)
        for number in reversed(range(len(quick))):
            first[quick[number]] = number
        place = np.searchsorted(self._lengths, lengths)
        frames, needed = self._frames[place], np.zeros(len(lengths), np.int32)
        unsure = self._unsure(texts, characters, self._fewest[place]) & (first == len(_REASONS))
        for row in np.flatnonzero(unsure).tolist():
            reason, needed[row] = self._by_tokens(raw[row].as_py(), int(frames[row]))
            first[row] = len(quick) + reason
        return first, needed

    def _unsure(
        self, texts: pa.Array, characters: NDArray[Any], frames: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Which rows must be tokenised to decide about them."""
        most = _most_tokens(texts, characters)
        unsure: NDArray[np.bool_] = 2 * most > frames
        if self._known_letter is None:
            return np.ones_like(unsure)
        unsure |= ~_array(pc.match_substring_regex(texts, self._known_letter))
        if self._limits.filter_long_text_threshold is not None:
            unsure |= most > self._limits.filter_long_text_threshold
        return unsure

    def _by_tokens(self, text: str, frames: int) -> tuple[int, int]:
        """The first of the last three reasons, counted from 0, 3 if none holds; frames needed."""
        limits, unknown = self._limits, self._targets.unknown
        tokens = np.asarray(self._targets(text).numpy(), np.int64)
        known = tokens if unknown is None else tokens[tokens != unknown]
        # Upstream compares before it removes unknown symbols.
        threshold = limits.filter_long_text_threshold
        needed = ctc_frames(known if limits.remove_unknown else tokens)
        reasons = (
            threshold is not None and len(tokens) > threshold,
            not len(known),
            needed > frames,
        )
        return (reasons.index(True) if any(reasons) else len(reasons)), needed


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


class _Tally:
    """Rows and samples by reason and dialect, added up over chunks."""

    def __init__(self, dialects: Sequence[str]) -> None:
        self._dialects = dialects
        self._rows = np.zeros((len(_REASONS) + 1, len(dialects)), np.int64)
        self._samples = np.zeros_like(self._rows)

    def add(
        self, first: NDArray[np.int8], dialects: NDArray[np.int32], lengths: NDArray[np.int32]
    ) -> None:
        """Count a chunk: the first reason, the dialect's code and the samples of each row."""
        place = (first, dialects)
        np.add.at(self._rows, place, 1)
        np.add.at(self._samples, place, lengths)

    def account(self) -> Account:
        """What has been counted."""
        seconds = self._samples / SAMPLE_RATE
        removed = tuple(
            Removal(reason, dialect, int(self._rows[number, code]), float(seconds[number, code]))
            for number, reason in enumerate(_REASONS)
            for code, dialect in enumerate(self._dialects)
            if self._rows[number, code]
        )
        return Account(int(self._rows[-1].sum()), float(seconds[-1].sum()), removed)


def _array(values: pa.Array) -> NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False))
