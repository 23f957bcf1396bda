"""Which parts of a model are frozen: in the first steps, or in the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrModel
from fairseq2.nn.utils.module import freeze_parameters
from torch.nn import Module

from danish_asr.recipe.config import AsrConfig


@dataclass(frozen=True, kw_only=True)
class Freezing:
    """What is frozen, and for how long.

    Parts that never learn are frozen before DDP or FSDP wraps the model: then no process waits for
    their gradients, the backward pass ends above them and the optimizer has no state for them.
    """

    encoder_layers: int
    """Number of the lowest layers that never learn, and neither does what is below them."""

    feature_extractor: bool
    """Whether the convolutions are frozen in the whole run."""

    encoder_steps: int
    """Number of first steps in which the encoder, and what is below it, is frozen."""

    @classmethod
    def of(cls, config: AsrConfig) -> Freezing:
        """Read a configuration. By default, convolutions are frozen if they are pretrained."""
        section, convolutions = config.trainer, config.trainer.freeze_feature_extractor
        if convolutions is None:
            pretrained = config.model.name or config.model.path or config.pretrained_encoder.name
            convolutions = bool(pretrained)
        return cls(
            encoder_layers=section.freeze_encoder_layers,
            feature_extractor=convolutions,
            encoder_steps=section.freeze_encoder_for_n_steps,
        )

    def freeze_permanently(self, model: Wav2Vec2AsrModel) -> None:
        """Freeze what never learns."""
        for part in self._never_learns(model):
            freeze_parameters(part)

    def freeze_encoder(self, model: Wav2Vec2AsrModel, *, frozen: bool) -> None:
        """Freeze the encoder and what is below it, or unfreeze what may learn."""
        for part in (model.encoder_frontend, model.masker, model.encoder):
            freeze_parameters(part, frozen)
        self.freeze_permanently(model)

    def _never_learns(self, model: Wav2Vec2AsrModel) -> Iterator[Module | None]:
        if self.feature_extractor:
            yield model.encoder_frontend.feature_extractor
        if self.encoder_layers:
            yield model.encoder_frontend
            yield model.masker
            yield from model.encoder.layers[: self.encoder_layers]
