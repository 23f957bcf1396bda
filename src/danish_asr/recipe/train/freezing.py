"""Which parts of a model are frozen: in stages of the run, or in the whole run."""

from typing import Final

from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrModel
from fairseq2.nn.utils.module import freeze_parameters

from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.sections import ALL_LAYERS, HEAD, top_layers

_WORDS: Final = {HEAD: "the head learns", ALL_LAYERS: "the whole model learns"}


class Freezing:
    """What a configuration freezes, and for how long.

    Parts that never learn are frozen before DDP or FSDP wraps the model: then no process waits for
    their gradients, the backward pass ends above them and the optimizer has no state for them.

    Attributes:
        stages: What learns after so many steps, from step 0 on: ``head``, ``top <n>`` or ``all``.
    """

    def __init__(self, config: AsrConfig) -> None:
        section, model = config.trainer, config.model
        self._layers = section.freeze_encoder_layers
        self._feature_extractor = section.freeze_feature_extractor
        if self._feature_extractor is None:  # then it is frozen if it is pretrained
            pretrained = model.name or model.path or config.pretrained_encoder.name
            self._feature_extractor = bool(pretrained)
        stages = section.unfreeze
        if not stages:
            stages = {0: ALL_LAYERS}
            if first := section.freeze_encoder_for_n_steps:
                stages = {0: HEAD, first: ALL_LAYERS}
        self.stages = dict(sorted(stages.items()))

    def stage(self, step: int) -> int:
        """The key of the stage that a step, counted from 1, belongs to."""
        return max(first for first in self.stages if first < step)

    def freeze_permanently(self, model: Wav2Vec2AsrModel) -> None:
        """Freeze what never learns: convolutions, or the lowest layers and all below them."""
        if self._feature_extractor:
            freeze_parameters(model.encoder_frontend.feature_extractor)
        if self._layers:
            lowest = model.encoder.layers[: self._layers]
            for part in (model.encoder_frontend, model.masker, *lowest):
                freeze_parameters(part)

    def begin(self, stage: int, model: Wav2Vec2AsrModel) -> None:
        """Let the parts of a stage learn, and freeze all others."""
        learning = self.stages[stage]
        for part in (model.encoder_frontend, model.masker, model.encoder):
            freeze_parameters(part, learning != ALL_LAYERS)
        if top := top_layers(learning):
            for part in (*model.encoder.layers[-top:], model.encoder.layer_norm):
                freeze_parameters(part, value=False)
        self.freeze_permanently(model)

    def describe(self, stage: int, model: Wav2Vec2AsrModel) -> str:
        """Say what learns in a stage that has begun, and until when."""
        learning = self.stages[stage]
        words = _WORDS.get(learning, f"the {learning} encoder layers and the head learn")
        count = sum(p.numel() for p in model.parameters() if p.requires_grad)
        later = [step for step in self.stages if step > stage]
        until = f" until step {later[0]}" if later else ""
        text = f"From step {stage + 1}{until}, {words}: {count:,} parameters."
        if stage:
            text += (
                " The loss may rise for some steps: the new parameters have no averages of their "
                "gradients yet. Memory grows by their gradients, optimizer state and activations."
            )
        return text
