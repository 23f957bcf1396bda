"""From a row's raw text to the targets of a loss, and which symbols the tokenizer does not know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import Tensor

from danish_asr import native  # noqa: F401 - libsndfile before fairseq2's native half
from danish_asr.data.index import Index
from danish_asr.text.profiles import normalizer

# isort: split
from fairseq2.data.tokenizers import Tokenizer

_ROWS_AT_ONCE: Final = 4_096


@dataclass(frozen=True, eq=False)
class Targets:
    """A tokenizer behind a profile of text normalisation; thread-safe.

    Attributes:
        normalize: Raw text to the text that is trained on.
        encode: That text to token indices, ``(tokens,)`` int64.
        pad: Index that fills targets up to the longest of a batch.
        unknown: Index of the unknown symbol; None if the tokenizer has none.
        raw: Whether ``normalize`` leaves texts as they are.
    """

    normalize: Callable[[str], str]
    encode: Callable[[str], Tensor]
    pad: int
    unknown: int | None
    raw: bool

    @classmethod
    def of(cls, tokenizer: Tokenizer, profile: str) -> Targets:
        """Put a tokenizer behind a profile.

        Raises:
            ConfigError: There is no such profile.
        """
        info = tokenizer.vocab_info
        return cls(
            normalize=normalizer(profile),
            encode=tokenizer.create_encoder(),
            pad=info.pad_idx if info.pad_idx is not None else 0,
            unknown=info.unk_idx,
            raw=profile == "raw",
        )

    def __call__(self, text: str, *, remove_unknown: bool = False) -> Tensor:
        """Targets of a raw text, ``(tokens,)`` int64; none for a text that gives none."""
        tokens = self.encode(self.normalize(text))
        if remove_unknown and self.unknown is not None:
            tokens = tokens[tokens != self.unknown]
        return tokens

    def normalized(self, texts: pa.Array) -> pa.Array:
        """Raw texts in the form that is trained on."""
        if self.raw:
            return texts
        return pa.array([self.normalize(text) for text in texts.to_pylist()], pa.string())

    def knows(self, text: str) -> bool:
        """Whether no symbol of a normalised text is unknown."""
        return self.unknown is None or not bool((self.encode(text) == self.unknown).any())


@dataclass(frozen=True, slots=True)
class UnknownSymbols:
    """How much of a split's text the tokenizer does not know.

    Attributes:
        characters: Characters of all texts.
        unknown: How many of them the tokenizer maps to its unknown symbol.
        symbols: These characters and their counts, the most frequent first.
    """

    characters: int
    unknown: int
    symbols: tuple[tuple[str, int], ...]

    @property
    def share(self) -> float:
        """Unknown characters per character."""
        return self.unknown / self.characters if self.characters else 0.0


def count_unknown(index: Index, tokenizer: Tokenizer, text_profile: str = "raw") -> UnknownSymbols:
    """Count the characters that a tokenizer maps to its unknown symbol, each seen on its own.

    Exact for tokenizers of characters. Counts characters, not tokens: a tokenizer may make one
    unknown token of many characters in a row, which would hide most of them.

    Raises:
        ConfigError: There is no such text profile.
    """
    return unknown_symbols(index, Targets.of(tokenizer, text_profile))


def unknown_symbols(index: Index, targets: Targets) -> UnknownSymbols:
    """As :func:`count_unknown`, for targets that exist already."""
    counts = _character_counts(index, targets)
    unknown = [
        (chr(code), int(counts[code]))
        for code in np.flatnonzero(counts).tolist()
        if not targets.knows(chr(code))
    ]
    return UnknownSymbols(
        characters=int(counts.sum()),
        unknown=sum(count for _, count in unknown),
        symbols=tuple(sorted(unknown, key=lambda pair: (-pair[1], pair[0]))),
    )


def _character_counts(index: Index, targets: Targets) -> NDArray[np.int64]:
    """How often each code point occurs, ``(0x110000,)``."""
    counts = np.zeros(0x110000, np.int64)
    for _, texts in index.texts.chunks():
        # A few rows at a time: a character takes 15 bytes while it is counted.
        for begin in range(0, len(texts), _ROWS_AT_ONCE):
            part = targets.normalized(texts.slice(begin, _ROWS_AT_ONCE))
            joined = "".join(part.to_pylist())
            found = np.bincount(np.frombuffer(joined.encode("utf-32-le"), np.uint32))
            counts[: len(found)] += found
    return counts
