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

    def __call__(self, log_probs: Sequence[Tensor]) -> list[str]:
        """Return the text of each utterance, (S, V); one of blanks alone gives ''."""
        if not log_probs:
            return []
        # One copy from the device for all.
        best = torch.cat([row.argmax(dim=-1) for row in log_probs]).cpu()
        of_rows = torch.split(best, [len(row) for row in log_probs])
        return [self._text(symbols) for symbols in of_rows]

    def _text(self, symbols: Tensor) -> str:
        symbols = torch.unique_consecutive(symbols)
        symbols = symbols[symbols != BLANK]
        # The tokenizer's decoder does not take an empty sequence.
        return self._decode(symbols) if len(symbols) else ""
