"""From raw text to CTC targets: tokens, the frames they need, symbols the tokenizer lacks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
from fairseq2.data.tokenizers import Tokenizer
from numpy.typing import NDArray

from danish_asr.recipe.data.index import Index
from danish_asr.text.profiles import is_word_or_emoji, normalizer

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
        self._normalize = None if profile == "raw" else normalizer(profile)

    def __call__(self, text: str, *, remove_unknown: bool = False) -> NDArray[np.int64]:
        """Targets of a raw text, ``(tokens,)``; may be empty."""
        normalized = self._normalize(text) if self._normalize else text
        tokens: NDArray[np.int64] = self._encode(normalized).numpy()
        return self.known(tokens) if remove_unknown else tokens

    def known(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tokens without unknown symbols."""
        return tokens if self.unknown is None else tokens[tokens != self.unknown]

    def normalized(self, texts: pa.Array) -> pa.Array:
        """Raw texts in the form that is trained on."""
        if self._normalize is None:
            return texts
        return pa.array([self._normalize(text) for text in texts.to_pylist()], pa.string())

    def can_write(self, text: str) -> bool:
        """Whether no symbol of a normalised text is unknown."""
        return self.unknown is None or not bool((self._encode(text) == self.unknown).any())


@dataclass(frozen=True, slots=True)
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
            part = texts.slice(begin, _ROWS_AT_ONCE)
            forms = [(targets.normalized(part), counts)]
            if text_profile != "raw":  # which removes nothing
                forms.append((part, raw_counts))
            for rows, total in forms:
                codes = np.frombuffer("".join(rows.to_pylist()).encode("utf-32-le"), np.uint32)
                occurrences = np.bincount(codes)
                total[: len(occurrences)] += occurrences
    unknown = _most_frequent(counts, lambda symbol: not targets.can_write(symbol))
    return UnknownSymbols(
        characters=int(counts.sum()),
        unknown=sum(count for _, count in unknown),
        symbols=unknown,
        removed=_most_frequent(raw_counts, lambda c: is_word_or_emoji(c) and not normalize(c)),
        raw_characters=int(raw_counts.sum()),
    )


def _most_frequent(
    counts: NDArray[np.int64], chosen: Callable[[str], bool]
) -> tuple[tuple[str, int], ...]:
    pairs = ((chr(code), int(counts[code])) for code in np.flatnonzero(counts).tolist())
    selected = [pair for pair in pairs if chosen(pair[0])]
    return tuple(sorted(selected, key=lambda pair: (-pair[1], pair[0])))
