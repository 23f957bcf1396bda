"""When each word of a text is spoken, by the best CTC path through a model's log-probabilities."""

from dataclasses import dataclass, replace
from typing import Final, Self

import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor

from danish_asr.base.errors import AlignmentError
from danish_asr.decoding.ctc_path import FRAME_SECONDS, token_times
from danish_asr.decoding.greedy import BLANK
from danish_asr.decoding.transcript import Word

_MARGIN: Final = 0.04
"""At most so many seconds are added to each end of a word. A CTC model emits symbols inside of a
word, so words take the blanks around them; chosen on the dev voices of benchmarks/word_times.py."""


def align_words(
    log_probs: Tensor, text: str, tokenizer: Tokenizer, *, offset: float = 0.0
) -> list[Word]:
    """Return the words of a text, which spaces separate, with times and confidence.

    Args:
        log_probs: Log-probabilities of a single utterance, (S, V), on the CPU.
        text: What is spoken, in characters of the tokenizer.
        tokenizer: The model's, with a token per character.
        offset: Time of the first frame in seconds, added to all times.

    Raises:
        AlignmentError: The tokenizer lacks a character, or the text needs more frames.
    """
    return SpokenText.of(text, tokenizer).align(log_probs, offset=offset)


def separator_of(tokenizer: Tokenizer) -> int:
    """Return the token between two words."""
    return int(tokenizer.create_encoder()("a a")[-2])


@dataclass(frozen=True)
class SpokenText:
    """Words and their tokens, (tokens,), with a separator between two words."""

    words: list[str]
    tokens: Tensor
    separator: int

    @classmethod
    def of(cls, text: str, tokenizer: Tokenizer) -> Self:
        """Encode a text; raises AlignmentError if the tokenizer lacks a character."""
        encode, unknown = tokenizer.create_encoder(), tokenizer.vocab_info.unk_idx
        words = text.split()
        tokens = encode(" ".join(words))
        if unknown is not None and bool((tokens == unknown).any()):
            missing = (c for c in sorted({*"".join(words)}) if bool((encode(c) == unknown).any()))
            raise AlignmentError(
                f"the tokenizer lacks the characters {' '.join(missing)} of the text "
                f"'{' '.join(words):.60}'; write it in the characters that the model was trained on"
            )
        return cls(words, tokens, separator_of(tokenizer))

    def compact(self) -> tuple[Tensor, Self]:
        """Return the symbols that an alignment needs, (symbols,), and the text in terms of them.

        For long audio: only these columns of the log-probabilities have to be kept.
        """
        symbols = torch.unique(torch.cat([torch.tensor([BLANK, self.separator]), self.tokens]))
        tokens = torch.searchsorted(symbols, self.tokens)
        separator = int(torch.searchsorted(symbols, self.separator))
        return symbols, replace(self, tokens=tokens, separator=separator)

    def align(self, log_probs: Tensor, *, offset: float = 0.0) -> list[Word]:
        """Return what `align_words` does.

        Two words divide the frames between their symbols equally, and each takes at most 40 ms. The
        confidence is the product of the probabilities of the word's symbols and of the separators
        around it, each in the frame of its peak on the path.
        """
        if not self.words:
            return []
        firsts, lasts, peaks = token_times(log_probs, self.tokens)
        between = self.tokens == self.separator
        around = torch.tensor([-1, *torch.nonzero(between)[:, 0], len(self.tokens)])

        starts = firsts[around[:-1] + 1].double() * FRAME_SECONDS
        ends = (lasts[around[1:] - 1].double() + 1) * FRAME_SECONDS
        gaps = (starts[1:] - ends[:-1]) / 2
        rest = len(log_probs) * FRAME_SECONDS - ends[-1:]
        before = torch.cat([starts[:1], gaps]).clamp(max=_MARGIN)
        after = torch.cat([gaps, rest]).clamp(max=_MARGIN)

        sums = torch.zeros(len(self.words)).index_add_(0, torch.cumsum(between, 0), peaks)
        sums[:-1] += peaks[between]  # which count for the word after them already
        spans = zip(self.words, (starts - before).tolist(), (ends + after).tolist(), strict=True)
        return [
            Word(word, offset + start, offset + end, confidence)
            for (word, start, end), confidence in zip(spans, sums.exp().tolist(), strict=True)
        ]
