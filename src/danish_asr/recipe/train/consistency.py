"""CR-CTC: two differently masked views of each utterance, and a loss for their difference.

Yao et al. (2024), "CR-CTC: Consistency regularization on CTC for improved speech recognition",
arXiv:2410.05101. The loss of an utterance with targets y, whose views have the logits a and b, is

    (CTC(a, y) + CTC(b, y)) / 2 + scale * CR(a, b), with the paper's scale of 0.2, and
    CR(a, b) = sum over the frames t of (KL(sg(q_t) || p_t) + KL(sg(p_t) || q_t)) / 2,

where p and q are the posteriors of a and b over all symbols, the blank included, and sg stops the
gradient. Both terms are sums over frames, so that their ratio does not depend on the length.
"""

from fairseq2.datasets import Seq2SeqBatch
from torch import Tensor, arange, float32
from torch.nn.functional import kl_div, log_softmax


def two_views(batch: Seq2SeqBatch) -> Seq2SeqBatch:
    """Return every row twice, of which the model masks each in its own way.

    So the model is called once per backward pass, as DDP and FSDP expect.
    """
    return Seq2SeqBatch(
        batch.source_seqs.repeat(2, 1),
        [*batch.source_seq_lens] * 2,
        batch.target_seqs.repeat(2, 1),
        [*batch.target_seq_lens] * 2,
        example=batch.example,
    )


def consistency_loss(logits: Tensor, lengths: Tensor) -> Tensor:
    """Return CR summed over N utterances, in nats: a scalar.

    Args:
        logits: Of the first views of all utterances, then of the second, (2 N, S, V).
        lengths: Their frames without padding, (2 N).
    """
    one, other = log_softmax(logits, dim=-1, dtype=float32).chunk(2)
    inside = arange(one.size(1), device=lengths.device) < lengths[: len(one), None]
    frames = sum(
        kl_div(view, target.detach(), reduction="none", log_target=True).sum(dim=-1)
        for view, target in ((one, other), (other, one))
    )
    return (frames * inside).sum() / 2
