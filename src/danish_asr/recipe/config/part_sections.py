"""The sections of what this recipe adds to fairseq2's: the head, masking, lean optimizers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from fairseq2.recipe import config as base
from fairseq2.recipe.config import AdamWGroupConfig
from fairseq2.utils.validation import ValidationResult

from danish_asr.recipe.config.sections import with_broken

FULL: Final = "full"
ADAMW_8BIT_OPTIMIZER: Final = "adamw_8bit"
ADAMW_OFFLOAD_OPTIMIZER: Final = "adamw_offload"


@dataclass(kw_only=True)
class AsrModelSection(base.ModelSection):
    """The model to train."""

    head: Literal["full", "danish"] = FULL
    """``danish`` keeps those rows of a trained head whose symbols the training text uses, below
    100 of 10,000: head, softmax and CTC loss then need a fraction of their time and memory."""

    def validate(self) -> ValidationResult:
        """Check that there is a trained head."""
        rules = {
            "`head` must be full without a trained model (model.name or model.path)": bool(
                self.head == FULL or self.name or self.path
            )
        }
        return with_broken(rules, super().validate())


@dataclass(kw_only=True)
class MaskingSection:
    """Which share of the encoder's input is masked in training.

    Null: as the model is configured, which is not at all for omniASR's models.
    """

    time: float | None = None
    """wav2vec 2.0's mask probability: spans are drawn for this share of the frames. They may
    overlap, so that 0.5 masks about 0.4 of the frames of a long utterance."""

    time_span: int | None = None
    """Frames in a span; 10 in wav2vec 2.0. Rows that are not longer are left as they are."""

    channel: float | None = None
    """The same for channels."""

    channel_span: int | None = None
    """Channels in a span; 64 in wav2vec 2.0."""

    consistency_scale: float | None = None
    """CR-CTC: mask each utterance twice, and add this much of the difference of the two posteriors
    to the loss; 0.2 in arXiv:2410.05101. A batch then needs twice the memory. Null: mask once."""

    def validate(self) -> ValidationResult:
        """Check shares and spans."""
        shares, spans = ("time", "channel"), ("time_span", "channel_span")
        rules = {f"`{n}` must be 0 to 1": 0 <= (getattr(self, n) or 0) <= 1 for n in shares}
        rules |= {f"`{n}` must be above 0": getattr(self, n) != 0 for n in spans}
        scale = self.consistency_scale
        rules["`consistency_scale` must be above 0, or null"] = scale is None or scale > 0
        return with_broken(rules, ValidationResult())


@dataclass(kw_only=True)
class LeanAdamWConfig:
    """The keys that both share with AdamW, with the same meaning and defaults."""

    lr: float = 5e-05
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-08
    weight_decay: float = 0.0
    groups: Sequence[AdamWGroupConfig] = field(default_factory=list)
