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


def ctc_losses(
    log_probs: Tensor, lengths: Sequence[int], targets: Sequence[Tensor]
) -> list[float | None]:
    """Return CTC's loss of a text per row, in nats per token (Graves et al. 2006).

    It is the negative log-probability of the text over all its alignments, divided by its tokens;
    a text without tokens counts as one. None: the row has fewer frames than its text needs.

    Args:
        log_probs: (N, S, V).
        lengths: The frames of each row.
        targets: The tokens of each row's text, (tokens,), without blanks.
    """
    sizes = [len(tokens) for tokens in targets]
    losses = ctc_loss(
        log_probs.transpose(0, 1),
        torch.cat([tokens.to(log_probs.device) for tokens in targets]),
        torch.tensor(lengths),
        torch.tensor(sizes),
        blank=BLANK,
        reduction="none",
    )
    return [
        _rounded(loss / max(size, 1)) if isfinite(loss) else None
        for loss, size in zip(losses.tolist(), sizes, strict=True)
    ]


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


@final
class Likelihood:
    """Measures hypotheses, whatever decoder made them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._encode = tokenizer.create_encoder()

    def confidences(
        self, log_probs: Tensor, lengths: Sequence[int], hypotheses: Sequence[str]
    ) -> list[float | None]:
        """Return the confidence in each hypothesis, from 0 to 1.

        It is the probability of the text over all its alignments, as a geometric mean per token,
        after Kahn et al. (2020, arXiv:1909.09116), who select pseudo-labels by log-likelihood per
        token. An empty text counts as one token. The arguments are as in `ctc_losses`.
        """
        tokens = [self._encode(text) for text in hypotheses]
        losses = ctc_losses(log_probs, lengths, tokens)
        return [None if loss is None else _rounded(exp(-loss)) for loss in losses]
