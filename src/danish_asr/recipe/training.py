"""The training recipe: from a configuration to a trainer."""

from __future__ import annotations

from typing import cast, final

from fairseq2.logging import log
from fairseq2.metrics import format_as_float
from fairseq2.metrics.recorders import MetricDescriptor
from fairseq2.models.wav2vec2 import Wav2Vec2Model
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrModel
from fairseq2.nn.utils.module import share_parameters, to_device
from fairseq2.recipe.base import RecipeContext, TrainRecipe
from fairseq2.recipe.model import RecipeModel
from fairseq2.recipe.trainer import Trainer
from fairseq2.runtime.dependency import DependencyContainer
from fairseq2.utils.device_stat import NOOP_DEVICE_STAT_TRACKER, DeviceStatTracker
from typing_extensions import override

from danish_asr.decoding.greedy import GreedyDecoder
from danish_asr.recipe.asset_store import register_datasets
from danish_asr.recipe.checkpoints import check_free_space
from danish_asr.recipe.cli import train_main
from danish_asr.recipe.config import AsrConfig
from danish_asr.recipe.criterion import CtcCriterion
from danish_asr.recipe.freezing import Freezing
from danish_asr.recipe.optimizers import STATE_BYTES, register_optimizers
from danish_asr.recipe.readers import (
    SplitsReader,
    model_frames,
    training_index,
    training_reader,
    validation_reader,
)
from danish_asr.recipe.run_directory import SCORE_TITLES, complete_model_card
from danish_asr.recipe.trainer import create_trainer
from danish_asr.recipe.units import AsrTrainUnit, AsrValidationUnit


def register_common(container: DependencyContainer) -> None:
    """Register what training and evaluation share in fairseq2's container."""
    register_datasets(container)
    # fairseq2 knows trackers for GPUs only and refuses to run without one.
    container.register_instance(DeviceStatTracker, NOOP_DEVICE_STAT_TRACKER, key="cpu")
    for name in ("cer", "worst_group_wer"):
        descriptor = MetricDescriptor(name, SCORE_TITLES[name], 201, format_as_float)
        container.collection.register_instance(MetricDescriptor, descriptor)


@final
class AsrRecipe(TrainRecipe):
    """Fine-tunes a CTC model, or trains one from a pretrained encoder or from scratch."""

    @override
    def register(self, container: DependencyContainer) -> None:
        register_common(container)
        register_optimizers(container)

    @override
    def prepare_model(self, context: RecipeContext, model: RecipeModel) -> RecipeModel:
        config = context.config.as_(AsrConfig)
        module = cast(Wav2Vec2AsrModel, model.module)
        if config.pretrained_encoder.name and model.newly_initialized and not config.model.name:
            _take_encoder(context, module)
        if context.gangs.dp.rank == 0:
            # A new head beside pretrained weights may still be on the meta device.
            to_device(module, context.gangs.root.device)
        context.gangs.root.barrier()
        Freezing.of(config).freeze_for_good(module)
        if context.gangs.root.rank == 0:
            state = STATE_BYTES[config.optimizer.name]
            check_free_space(context.output_dir, module, config.regime, state_bytes=state)
            complete_model_card(context.output_dir, config.tokenizer.name)
        return model

    @override
    def create_trainer(self, context: RecipeContext) -> Trainer:
        config = context.config.as_(AsrConfig)
        # The text is looked at first: the model takes longer to load.
        index = training_index(context, config)
        criterion = CtcCriterion(context.model)
        reader = training_reader(context, config, index)
        unit = AsrTrainUnit(
            criterion,
            freezing=Freezing.of(config),
            num_frames=model_frames(context),
            vocabulary=context.default_tokenizer.vocab_info.size,
        )
        valid_units: list[AsrValidationUnit] = []
        valid_readers: list[SplitsReader] = []
        if config.dataset.valid_split is not None:
            valid_reader = validation_reader(context, config)
            valid_readers.append(valid_reader)
            valid_units.append(
                AsrValidationUnit(
                    criterion,
                    GreedyDecoder(context.default_tokenizer),
                    splits=valid_reader.splits,
                    dialects=valid_reader.dialects,
                    profile=config.regime.score_profile,
                )
            )
        return create_trainer(
            context, config, unit, reader, valid_units=valid_units, valid_readers=valid_readers
        )

    @override
    def has_static_autograd_graph(self, context: RecipeContext) -> bool:
        # Parameters that are frozen after DDP has wrapped the model would be waited for in vain.
        return context.config.as_(AsrConfig).trainer.freeze_encoder_for_n_steps == 0

    @property
    @override
    def config_kls(self) -> type[object]:
        return AsrConfig


def _take_encoder(context: RecipeContext, module: Wav2Vec2AsrModel) -> None:
    log.info("Taking the encoder's weights from the pretrained model.")
    encoder = cast(Wav2Vec2Model, context.bootstrap_model("pretrained_encoder").module)
    share_parameters(encoder.encoder_frontend, module.encoder_frontend)
    share_parameters(encoder.encoder, module.encoder)
    if module.masker is not None:
        share_parameters(encoder.masker, module.masker)


def main() -> None:
    """Run the recipe as the command line says."""
    train_main(AsrRecipe())
