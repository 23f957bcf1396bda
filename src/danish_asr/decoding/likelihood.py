"""How probable a text is for a model: the loss of a reference, the confidence in a hypothesis."""

from collections.abc import Sequence
from math import exp, isfinite
from typing import Final, final

import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import ctc_loss

from danish_asr.decoding.greedy import BLANK

_DIGITS: Final = 5
"""More would be the rounding of a batch."""


def ctc_losses(log_probs: Sequence[Tensor], targets: Sequence[Tensor]) -> list[float | None]:
    """Return CTC's loss of a text per utterance, in nats per token (Graves et al. 2006).

    It is the negative log-probability of the text over all its alignments, divided by its tokens;
    a text without tokens counts as one. None: the utterance has fewer frames than its text needs.

    Args:
        log_probs: Of each utterance, (S, V).
        targets: The tokens of each text, (tokens,), without blanks.
    """
    return per_token(ctc_nats(log_probs, targets), targets)


def per_token(nats: Tensor, targets: Sequence[Tensor]) -> list[float | None]:
    """Return the losses of `ctc_nats` as `ctc_losses` does."""
    return [
        _rounded(loss / max(len(tokens), 1)) if isfinite(loss) else None
        for loss, tokens in zip(nats.tolist(), targets, strict=True)
    ]


def ctc_nats(log_probs: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
    """Return CTC's loss of each utterance in nats, (N,); infinite where `ctc_losses` has None."""
    pairs = zip(log_probs, targets, strict=True)
    return torch.stack([_loss(*pair) for pair in pairs]) if log_probs else torch.empty(0)


def _loss(log_probs: Tensor, tokens: Tensor) -> Tensor:
    if not len(log_probs):  # which torch refuses
        return log_probs.new_tensor(torch.inf if len(tokens) else 0.0)
    sizes = torch.tensor(len(log_probs)), torch.tensor(len(tokens))
    tokens = tokens.to(log_probs.device)
    return ctc_loss(log_probs, tokens, *sizes, blank=BLANK, reduction="none")


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


@final
class Likelihood:
    """Measures hypotheses, whatever decoder made them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._encode = tokenizer.create_encoder()

    def confidences(
        self, log_probs: Sequence[Tensor], hypotheses: Sequence[str]
    ) -> list[float | None]:
        """Return the confidence in the hypothesis of each utterance, (S, V), from 0 to 1.

        It is the probability of the text over all its alignments, as a geometric mean per token,
        after Kahn et al. (2020, arXiv:1909.09116), who select pseudo-labels by log-likelihood per
        token. An empty text counts as one token.
        """
        losses = ctc_losses(log_probs, [self._encode(text) for text in hypotheses])
        return [None if loss is None else _rounded(exp(-loss)) for loss in losses]
