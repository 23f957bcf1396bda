"""What CTC says of an utterance: the best text, the loss of a text, the confidence in it."""

from collections.abc import Sequence
from math import exp, isfinite
from typing import Final, final

import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import ctc_loss

BLANK: Final = 0
"""The index of the CTC blank, as omniASR's models and ``torch.nn.functional.ctc_loss`` have it."""


@final
class GreedyDecoder:
    """Takes the best symbol of each frame, merges repeats and drops blanks."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._decode = tokenizer.create_decoder()  # which leaves special symbols out

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
        return self._decode(symbols[symbols != BLANK])


def ctc_nats(log_probs: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
    """Return CTC's loss of a text per utterance, in nats, (N,) (Graves et al. 2006).

    It is the negative log-probability of the text over all its alignments; infinite where an
    utterance has fewer frames than its text needs. ``log_probs`` are those of each utterance,
    (S, V), and ``targets`` the tokens of each text, (tokens,), without blanks.
    """
    losses = [_loss(*pair) for pair in zip(log_probs, targets, strict=True)]
    return torch.stack(losses) if losses else torch.empty(0)


def _loss(log_probs: Tensor, tokens: Tensor) -> Tensor:
    if not len(log_probs):  # which torch refuses
        return log_probs.new_tensor(torch.inf if len(tokens) else 0.0)
    sizes = torch.tensor(len(log_probs)), torch.tensor(len(tokens))
    tokens = tokens.to(log_probs.device)
    return ctc_loss(log_probs, tokens, *sizes, blank=BLANK, reduction="none")


def per_token(nats: Tensor, targets: Sequence[Tensor]) -> list[float | None]:
    """Return losses per token; a text without tokens counts as one, None is an infinite loss."""
    return [
        _rounded(loss / max(len(tokens), 1)) if isfinite(loss) else None
        for loss, tokens in zip(nats.tolist(), targets, strict=True)
    ]


def confidences(
    log_probs: Sequence[Tensor], hypotheses: Sequence[str], tokenizer: Tokenizer
) -> list[float | None]:
    """Return the confidence in the hypothesis of each utterance, (S, V), from 0 to 1.

    It is the probability of the text over all its alignments, as a geometric mean per token, after
    Kahn et al. (2020, arXiv:1909.09116), who select pseudo-labels by log-likelihood per token.
    """
    encode = tokenizer.create_encoder()
    targets = [encode(text) for text in hypotheses]
    losses = per_token(ctc_nats(log_probs, targets), targets)
    return [None if loss is None else _rounded(exp(-loss)) for loss in losses]


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")  # more digits would be the rounding of a batch
