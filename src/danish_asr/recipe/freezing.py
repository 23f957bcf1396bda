"""Which parts of a model are frozen: in the first steps, or in the whole run."""

from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrModel
from fairseq2.nn.utils.module import freeze_parameters

from danish_asr.recipe.config import AsrConfig


class Freezing:
    """What a configuration freezes, and for how long.

    Parts that never learn are frozen before DDP or FSDP wraps the model: then no process waits for
    their gradients, the backward pass ends above them and the optimizer has no state for them.

    Attributes:
        encoder_steps: The number of first steps in which the encoder is frozen.
    """

    def __init__(self, config: AsrConfig) -> None:
        section, model = config.trainer, config.model
        self._layers = section.freeze_encoder_layers
        self._feature_extractor = section.freeze_feature_extractor
        if self._feature_extractor is None:  # then it is frozen if it is pretrained
            pretrained = model.name or model.path or config.pretrained_encoder.name
            self._feature_extractor = bool(pretrained)
        self.encoder_steps = section.freeze_encoder_for_n_steps

    def freeze_permanently(self, model: Wav2Vec2AsrModel) -> None:
        """Freeze what never learns: convolutions, or the lowest layers and all below them."""
        if self._feature_extractor:
            freeze_parameters(model.encoder_frontend.feature_extractor)
        if self._layers:
            lowest = model.encoder.layers[: self._layers]
            for part in (model.encoder_frontend, model.masker, *lowest):
                freeze_parameters(part)

    def freeze_encoder(self, model: Wav2Vec2AsrModel, *, frozen: bool) -> None:
        """Freeze the encoder and what is below it, or unfreeze what may learn."""
        for part in (model.encoder_frontend, model.masker, model.encoder):
            freeze_parameters(part, frozen)
        self.freeze_permanently(model)
