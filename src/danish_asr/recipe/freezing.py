"""Which parts of a model learn nothing: in the first steps, or in the whole run."""

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

    Parts that never learn are frozen before DDP or FSDP wraps the model: then nobody waits for
    their gradients, the backward pass ends above them and the optimizer has no state for them.
    """

    encoder_layers: int
    """The lowest so many layers, and all below them, never learn."""

    feature_extractor: bool
    """Whether the convolutions never learn."""

    encoder_steps: int
    """The encoder and all below it learn nothing in so many steps."""

    @classmethod
    def of(cls, config: AsrConfig) -> Freezing:
        """What a configuration says. Only convolutions that were trained before can stay as is."""
        section, convolutions = config.trainer, config.trainer.freeze_feature_extractor
        if convolutions is None:
            pretrained = config.model.name or config.model.path or config.pretrained_encoder.name
            convolutions = bool(pretrained)
        return cls(
            encoder_layers=section.freeze_encoder_layers,
            feature_extractor=convolutions,
            encoder_steps=section.freeze_encoder_for_n_steps,
        )

    def freeze_for_good(self, model: Wav2Vec2AsrModel) -> None:
        """Freeze what never learns."""
        for part in self._never_learns(model):
            freeze_parameters(part)

    def freeze_encoder(self, model: Wav2Vec2AsrModel, *, frozen: bool) -> None:
        """Freeze the encoder and all below it, or free of it what may learn."""
        for part in (model.encoder_frontend, model.masker, model.encoder):
            freeze_parameters(part, frozen)
        self.freeze_for_good(model)

    def _never_learns(self, model: Wav2Vec2AsrModel) -> Iterator[Module | None]:
        if self.feature_extractor:
            yield model.encoder_frontend.feature_extractor
        if self.encoder_layers:
            yield model.encoder_frontend
            yield model.masker
            yield from model.encoder.layers[: self.encoder_layers]
