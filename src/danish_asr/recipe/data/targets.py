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
from danish_asr.recipe.data.index import TARGET, UNKNOWN_DIALECT, Index, Rows

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


def has_loss(tokens: NDArray[np.int64], frames: int) -> bool:
    """Whether CTC can give a target, ``(tokens,)``, in so many frames; it gives none of nothing."""
    return len(tokens) > 0 and ctc_frames(tokens) <= frames


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


def frames_needed(index: Index, targets: Targets, frames: NDArray[np.int32]) -> NDArray[np.int32]:
    """The frames that CTC needs for the target of each row, which will have at least ``frames``.

    Tokenising takes 40 microseconds a row, minutes for millions of rows in every process. So tokens
    are counted only where as many as characters, all equal, might not fit. A few characters, such
    as ``ﷺ``, give more tokens: such a row may stay, and has a loss of 0.
    """
    texts = index.rows[TARGET]
    needed = 2 * (texts.str.len_chars().cast(pl.Int32).to_numpy() + _ADDED_TOKENS)
    doubtful = np.flatnonzero(needed > frames)
    for row, text in zip(doubtful, texts.gather(doubtful), strict=True):
        needed[row] = ctc_frames(targets(text))
    return needed


class WithoutLoss(NamedTuple):
    """Rows of evaluation that have no loss; their words are scored."""

    empty: int  # their text gives no tokens
    too_long: int  # they have fewer frames than CTC needs


def count_without_loss(index: Index, targets: Targets, num_frames: FrameCount) -> WithoutLoss:
    """Count the rows without a loss, by its exact rule: 40 microseconds a row."""
    frames = num_frames(np.maximum(index.lengths, num_frames.shortest_input()))
    empty = too_long = 0
    for text, available in zip(index.rows[TARGET], frames.tolist(), strict=True):
        tokens = targets(text)
        if not len(tokens):
            empty += 1
        elif not has_loss(tokens, available):
            too_long += 1
    return WithoutLoss(empty, too_long)


def select_rows(
    index: Index, task: TaskSection, needed: NDArray[np.int32], frames: NDArray[np.int32]
) -> tuple[Rows, str]:
    """The rows that training uses, ascending, and a table of the others by reason and dialect.

    ``needed`` are the frames that CTC needs, ``frames`` those of each recording, ``(rows,)``,
    whatever transforms make of it later. A row counts for the first reason that applies.
    """
    lengths, texts = index.lengths, index.rows[TARGET]
    characters = texts.str.len_chars().to_numpy()
    reasons = {
        "shorter than min_audio_len": lengths < task.min_audio_len,
        "longer than max_audio_len": lengths > task.max_audio_len,
        "empty text": (texts.str.strip_chars() == "").to_numpy(),
        "fewer samples per character than min_samples_per_char": lengths
        < task.min_samples_per_char * characters,
        "fewer frames than CTC needs (targets + repeats)": needed > frames,
    }
    hours = (pl.Series("hours", lengths) / SAMPLE_RATE / 3600).to_frame()
    rows = hours.with_columns(index.rows["dialect"].fill_null(UNKNOWN_DIALECT))
    stays, lines = np.ones(len(index), np.bool_), list[str]()
    for reason, applies in reasons.items():
        groups = rows.filter(stays & applies).group_by("dialect", maintain_order=True)
        for dialect, count, sum_ in groups.agg(pl.len(), pl.sum("hours")).iter_rows():
            lines.append(f"  {reason:52} {dialect:16} {count:>9,} rows {sum_:>9,.2f} h")
        stays &= ~applies
    kept = np.flatnonzero(stays).astype(np.int32)
    title = f"{len(kept):,} utterances ({rows.filter(stays)['hours'].sum():,.2f} h) for training"
    table = [f"{title}, {len(index) - len(kept):,} filtered out", *lines]
    return kept, "\n".join(table)


class UnknownSymbols(NamedTuple):
    """How much of a split's text the tokenizer cannot write."""

    share: float  # of the characters
    symbols: list[tuple[str, int]]  # the unknown characters, the most frequent first


def count_unknown(index: Index, targets: Targets) -> UnknownSymbols:
    """Count the characters that a tokenizer of characters maps to its unknown symbol.

    One at a time: a tokenizer may make one unknown token of many characters in a row.
    """
    counts = np.zeros(0x110000, np.int64)
    # A few rows at a time: a character takes 15 bytes while it is counted.
    for rows in index.rows.select(TARGET).iter_slices(_ROWS_AT_ONCE):
        codes = np.frombuffer("".join(rows[TARGET]).encode("utf-32-le"), np.uint32)
        occurrences = np.bincount(codes)
        counts[: len(occurrences)] += occurrences
    pairs = [(chr(code), int(counts[code])) for code in np.flatnonzero(counts).tolist()]
    unknown = [pair for pair in pairs if targets.unknown in targets(pair[0]).tolist()]
    share = sum(count for _, count in unknown) / max(1, int(counts.sum()))
    return UnknownSymbols(share, sorted(unknown, key=lambda pair: (-pair[1], pair[0])))
