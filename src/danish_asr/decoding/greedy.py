"""Greedy CTC decoding."""

from collections.abc import Sequence
from typing import Final, final

import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor

BLANK: Final = 0
"""The index of the CTC blank, as omniASR's models and ``torch.nn.functional.ctc_loss`` have it."""


@final
class GreedyDecoder:
    """Takes the best symbol of each frame, merges repeats and drops blanks."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._decode = tokenizer.create_decoder(skip_special_tokens=True)

    def __call__(self, logits: Tensor, lengths: Sequence[int]) -> list[str]:
        """Return one text per row of ``logits``, (N, S, V); an all-blank row gives ''."""
        best = logits.argmax(dim=-1).cpu()
        return [self._text(row[:length]) for row, length in zip(best, lengths, strict=True)]

    def _text(self, symbols: Tensor) -> str:
        symbols = torch.unique_consecutive(symbols)
        symbols = symbols[symbols != BLANK]
        # The tokenizer's decoder does not take an empty sequence.
        return self._decode(symbols) if len(symbols) else ""
