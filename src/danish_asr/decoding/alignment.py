"""When each word of a text is spoken, by the best CTC path through a model's log-probabilities.

torchaudio finds the path.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Final, Self

import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor
from torchaudio.functional import forced_align

from danish_asr.base.errors import AlignmentError
from danish_asr.decoding.ctc import BLANK
from danish_asr.decoding.transcript import Word

FRAME_SECONDS: Final = 0.02
"""A frame of omniASR's models: 320 samples at 16 kHz."""

MOST_STATES: Final = 1 << 27
"""Frames times states of the largest search: 128 MiB, five minutes of speech."""

_WORD_MARGIN: Final = 0.04
"""At most so many seconds of the blanks around a word are added to each of its ends; chosen on
synthetic voices whose word boundaries are known."""


@dataclass(frozen=True)
class SpokenText:
    """Words and their tokens, (tokens,), with a separator between two words."""

    words: list[str]
    tokens: Tensor
    separator: int

    @classmethod
    def of(cls, text: str, tokenizer: Tokenizer) -> Self:
        """Encode a text by a tokenizer of characters; raises AlignmentError if it lacks one."""
        encode, unknown = tokenizer.create_encoder(), tokenizer.vocab_info.unk_idx
        words = text.split()
        tokens = encode(" ".join(words))
        if unknown is not None and bool((tokens == unknown).any()):
            raise AlignmentError(
                f"the tokenizer lacks a character of the text '{' '.join(words):.60}'"
            )
        return cls(words, tokens, separator=int(encode("a a")[-2]))

    def symbols(self) -> Tensor:
        """Return the symbols that an alignment needs, (symbols,), in rising order.

        For long audio: only these columns of the log-probabilities have to be kept.
        """
        always = torch.tensor([BLANK, self.separator])
        symbols: Tensor = torch.unique(torch.cat([always, self.tokens]))
        return symbols

    def among(self, symbols: Tensor) -> Self:
        """Return the text in terms of log-probabilities of these symbols alone."""
        tokens = torch.searchsorted(symbols, self.tokens)
        separator = int(torch.searchsorted(symbols, self.separator))
        return replace(self, tokens=tokens, separator=separator)

    def align(self, log_probs: Tensor, *, offset: float = 0.0) -> list[Word]:
        """Return the words with times, in milliseconds' precision, and confidence.

        Two words divide the frames between their symbols equally. The confidence is the product of
        the probabilities of the word's symbols and of the separators around it, each at its peak.
        ``log_probs`` are those of one utterance, (S, V), on the CPU; ``offset`` is the time of the
        first frame. Raises AlignmentError if there are too few frames, or too many (`MOST_STATES`).
        """
        if not self.words:
            return []
        self._check_length(len(log_probs))
        firsts, lasts, peaks = _token_times(log_probs, self.tokens)
        between = self.tokens == self.separator
        around = torch.tensor([-1, *torch.nonzero(between)[:, 0], len(self.tokens)])

        starts = firsts[around[:-1] + 1].double() * FRAME_SECONDS
        ends = (lasts[around[1:] - 1].double() + 1) * FRAME_SECONDS
        gaps = (starts[1:] - ends[:-1]) / 2
        rest = len(log_probs) * FRAME_SECONDS - ends[-1:]
        before = torch.cat([starts[:1], gaps]).clamp(max=_WORD_MARGIN)
        after = torch.cat([gaps, rest]).clamp(max=_WORD_MARGIN)

        sums = torch.zeros(len(self.words)).index_add_(0, torch.cumsum(between, 0), peaks)
        sums[:-1] += peaks[between]  # which count for the word after them already
        spans = zip(self.words, (starts - before).tolist(), (ends + after).tolist(), strict=True)
        return [
            Word(word, round(offset + start, 3), round(offset + end, 3), confidence)
            for (word, start, end), confidence in zip(spans, sums.exp().tolist(), strict=True)
        ]

    def _check_length(self, frames: int) -> None:
        text = f"the text '{self.words[0]} ... {self.words[-1]}', {len(self.tokens)} characters,"
        seconds = frames * FRAME_SECONDS
        repeats = int(torch.count_nonzero(self.tokens[1:] == self.tokens[:-1]))
        needed = len(self.tokens) + repeats
        if frames < needed:
            least = needed * FRAME_SECONDS
            raise AlignmentError(f"{text} needs at least {least:.2f} s of audio, not {seconds:.2f}")
        if frames * (2 * len(self.tokens) + 1) > MOST_STATES:
            raise AlignmentError(
                f"{text} and {seconds:.0f} s of audio are too long to be aligned in one piece"
            )


def _token_times(log_probs: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where the best path with all tokens has each: first and last frame, highest log-probability.

    All are (tokens,).
    """
    with warnings.catch_warnings():
        # torchaudio 2.8 announces its removal in 2.9, but later versions (2.10) keep it.
        warnings.filterwarnings("ignore", message=".*forced_align has been deprecated")
        path = forced_align(log_probs[None], tokens[None], blank=BLANK)[0][0]
    begins = path != BLANK
    begins[1:] &= path[1:] != path[:-1]
    frames = torch.nonzero(path != BLANK)[:, 0]
    owners = torch.cumsum(begins, 0)[frames] - 1  # the token of each frame
    counts = torch.bincount(owners, minlength=len(tokens))
    ends = torch.cumsum(counts, 0)
    peaks = torch.full((len(tokens),), -torch.inf)
    peaks.scatter_reduce_(0, owners, log_probs[frames, tokens[owners]], "amax")
    return frames[ends - counts], frames[ends - 1], peaks
