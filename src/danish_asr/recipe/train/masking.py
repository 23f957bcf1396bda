"""Masking of the encoder's input in training, as in wav2vec 2.0's fine-tuning.

arXiv:2006.11477, section 3.3 and appendix B: spans of frames are replaced by a learned embedding,
and spans of channels by zeros. fairseq2's own masker refuses rows that are not longer than a span,
and gives every row of a batch the number of spans of the shortest.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, final

import torch
from fairseq2.models.wav2vec2 import Wav2Vec2Masker
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from fairseq2.nn import BatchLayout
from torch import Tensor
from torch.nn import Parameter
from typing_extensions import override

from danish_asr.recipe.config.schema import MaskingSection
from danish_asr.recipe.train.console import log


def effective_masking(section: MaskingSection, model: Wav2Vec2AsrConfig) -> MaskingSection:
    """Return the section with its nulls filled in from a model's configuration."""
    of_model = MaskingSection(
        time=model.max_temporal_mask_prob if model.use_masking else 0.0,
        time_span=model.temporal_mask_span_len,
        channel=model.max_spatial_mask_prob if model.use_masking else 0.0,
        channel_span=model.spatial_mask_span_len,
    )
    return replace(of_model, **{key: v for key, v in vars(section).items() if v is not None})


def masking_faults(section: MaskingSection, model: Wav2Vec2AsrConfig) -> Iterator[str]:
    """Compare the section with a model's configuration."""
    masking, channels = effective_masking(section, model), model.encoder_config.model_dim
    if masking.channel and masking.channel_span and masking.channel_span >= channels:
        rule = f"must be below the model's {channels} channels, but is {masking.channel_span}"
        yield f"masking.channel_span {rule}"


def install_masker(
    model: Wav2Vec2AsrModel, section: MaskingSection, config: Wav2Vec2AsrConfig, *, seed: int
) -> dict[str, Any]:
    """Give a model the masker that the section asks for, or none; before DDP or FSDP wraps it.

    A mask embedding that the checkpoint holds is kept, otherwise one is drawn from ``seed``.
    Returns the model's configuration of masking, for the card of the run's checkpoints.
    """
    masking, masker = effective_masking(section, config), None
    if masking.time or masking.channel:
        log.info("Masking in training: {}", masking)
        like = model.get_parameter("final_proj.weight")
        masker = SpanMasker(model.model_dim, masking, seed, like)
        trained = getattr(model.masker, "temporal_mask_embed", None)
        if trained is not None and masking.time:
            masker.temporal_mask_embed = trained
    model.masker = masker
    if not masking.time:
        return {"use_masking": False}
    return {
        "use_masking": True,
        "max_temporal_mask_prob": masking.time,
        "temporal_mask_span_len": masking.time_span,
        "max_spatial_mask_prob": masking.channel,
        "spatial_mask_span_len": masking.channel_span,
    }


@final
class SpanMasker(Wav2Vec2Masker):
    """Masks spans; the model calls it in training only.

    The masks come from torch's random state, which fairseq2's checkpoints hold. The embedding has
    the name that fairseq2 gives it, and the device and type of the tensor ``like``.
    """

    def __init__(self, channels: int, masking: MaskingSection, seed: int, like: Tensor) -> None:
        super().__init__()
        self._seed, self._time, self._channel = seed, masking.time or 0.0, masking.channel or 0.0
        self._time_span, self._channel_span = masking.time_span or 10, masking.channel_span or 64
        self.temporal_mask_embed: Parameter | None
        embed = Parameter(like.new_empty(channels)) if self._time else None
        self.register_parameter("temporal_mask_embed", embed)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the embedding, the same on all ranks; fairseq2 calls this for a meta module."""
        if self.temporal_mask_embed is not None:
            generator = torch.Generator().manual_seed(self._seed)
            drawn = torch.rand(self.temporal_mask_embed.shape, generator=generator)
            with torch.no_grad():
                self.temporal_mask_embed.copy_(drawn)

    @override
    def forward(self, seqs: Tensor, seqs_layout: BatchLayout) -> tuple[Tensor, Tensor]:
        _, frames, channels = seqs.shape
        lengths = seqs_layout.seq_lens_pt
        masked = span_mask(lengths, frames, self._time, self._time_span)
        if self.temporal_mask_embed is not None:
            # Not by index: DDP waits for the embedding's gradient, also if no frame is masked.
            embed = self.temporal_mask_embed.type_as(seqs)
            seqs = torch.where(masked.unsqueeze(2), embed, seqs)
        if self._channel:
            sizes = torch.full_like(lengths, channels)
            hidden = span_mask(sizes, channels, self._channel, self._channel_span)
            seqs = seqs.masked_fill(hidden.unsqueeze(1), 0.0)
        return seqs, masked


def span_mask(lengths: Tensor, width: int, share: float, span: int) -> Tensor:
    """Draw a mask of spans, ``(rows, width)`` bool, for rows of these ``lengths``, ``(rows,)``.

    A row of n elements gets ``floor(share * n / span + u)`` spans with u uniform in [0, 1), as in
    fairseq's ``compute_mask_indices``, each at a uniform place within the row; they may overlap. A
    row that is not longer than a span gets none.
    """
    most = int(share * width / span) + 1
    lengths = lengths.unsqueeze(1)
    uniform = torch.rand((len(lengths), most + 1), device=lengths.device)
    spans = torch.where(lengths > span, (share * lengths / span + uniform[:, :1]).floor(), 0)
    begins = (uniform[:, 1:] * (lengths - span + 1)).long().clamp(min=0)
    drawn = (torch.arange(most, device=lengths.device) < spans).int()
    edges = torch.zeros((len(lengths), width + span), dtype=torch.int32, device=lengths.device)
    edges.scatter_add_(1, begins, drawn).scatter_add_(1, begins + span, -drawn)
    return edges.cumsum(1)[:, :width] > 0
