"""The training recipe: from a configuration to a trained model."""

import shutil
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, cast, final

import torch
from fairseq2.datasets import Seq2SeqBatch
from fairseq2.metrics import MetricBag, format_as_float
from fairseq2.metrics.aggregation import Mean
from fairseq2.metrics.recorders import MetricDescriptor, MetricRecorder
from fairseq2.models.wav2vec2 import Wav2Vec2Model
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from fairseq2.nn import Linear
from fairseq2.nn.utils.module import share_parameters, to_device
from fairseq2.recipe.base import RecipeContext, TrainRecipe
from fairseq2.recipe.model import RecipeModel
from fairseq2.recipe.task import TaskStopException
from fairseq2.recipe.trainer import Trainer, TrainUnit
from fairseq2.runtime.dependency import DependencyContainer, DependencyResolver
from torch import Tensor
from typing_extensions import override

from danish_asr.base.cluster import rank_info
from danish_asr.base.config_tree import Tree
from danish_asr.base.fairseq2_private import run_recipe
from danish_asr.planning.disk import check_free_space, checkpoint_space
from danish_asr.planning.needs import needs
from danish_asr.planning.probe import Probe, probed
from danish_asr.recipe import entry as cli
from danish_asr.recipe.config.config import AsrConfig
from danish_asr.recipe.config.loading import inspect, unstructure
from danish_asr.recipe.config.sections import ALL_LAYERS, FULL
from danish_asr.recipe.data.targets import FrameCount
from danish_asr.recipe.models.assets import register_datasets
from danish_asr.recipe.run import advice, continuing, run_directory
from danish_asr.recipe.train import diagnostics
from danish_asr.recipe.train.averaging import finish
from danish_asr.recipe.train.console import configure_console, hide_progress_bar, log
from danish_asr.recipe.train.criterion import CtcCriterion, chance_of
from danish_asr.recipe.train.freezing import Freezing
from danish_asr.recipe.train.masking import install_masker
from danish_asr.recipe.train.optimizers import (
    layer_groups,
    register_optimizers,
    unwrap_names,
    use_fused,
)
from danish_asr.recipe.train.own_tokenizer import slice_head, write_own_tokenizer
from danish_asr.recipe.train.preflight import dump, resolve, tokenizer_card
from danish_asr.recipe.train.readers import ReaderSetup, training_index, training_reader
from danish_asr.recipe.train.record import (
    complete_model_card,
    keep_wandb_id,
    write_environment,
    write_model_card,
)
from danish_asr.recipe.train.reporting import RunReport
from danish_asr.recipe.train.trainer import StoppableTraining
from danish_asr.recipe.train.validation import open_validation, patience_stopper


def run(request: cli.Request, tree: Tree) -> None:
    """Train; `danish_asr.recipe.entry.train` has the exit statuses."""
    hide_progress_bar()
    output_dir = cast(Path, request.output_dir)  # only a dump needs none
    with diagnostics.exit_on_error():
        config, faults = inspect(AsrConfig, tree)
        if request.dump_config:
            dump(config, where=request.where, faults=faults)
            return
        config = resolve(config, where=request.where, faults=faults)
        rank, processes = rank_info(config.common.cluster)
        if config.trainer.probe_steps is not None:
            _probe(output_dir, config, rank, processes)
            return
        if rank == 0:
            continuing.check_output_dir(output_dir, dataset=config.dataset.name)
            if not request.trust:
                continuing.check_owner(output_dir)
            continuing.check_continuation(output_dir, unstructure(config))
            batches = config.trainer.grad_accumulation.num_batches
            if note := continuing.check_processes(output_dir, processes, batches):
                cli.note(note)
        with (
            continuing.locked(output_dir, rank),
            continuing.noted(output_dir),
            diagnostics.explained(request.where),
        ):
            if rank == 0:
                continuing.tidy(output_dir)
                continuing.fit_to_processes(output_dir, processes)
                write_environment(output_dir)
                write_own_tokenizer(output_dir, config)
                keep_wandb_id(output_dir, config.common.metric_recorders.wandb)
            stopper = patience_stopper(output_dir, config.regime)
            if stopper is None or not stopper.exhausted:
                keep = continuing.configuration_of_steps if rank == 0 else nullcontext
                with keep(output_dir):
                    run_recipe(AsrRecipe(), config, output_dir)
            if rank == 0:
                finish(output_dir, config)
                write_model_card(output_dir, tokenizer_card(config))


def _probe(output_dir: Path, config: AsrConfig, rank: int, processes: int) -> None:
    """Take some steps in a directory of their own, which is deleted, and write a report."""
    if rank == 0:
        continuing.check_output_dir(output_dir)
    folder, probe = output_dir / f".{run_directory.PROBE}", Probe(config, processes)
    try:
        with continuing.locked(folder, rank), diagnostics.explained():
            if rank == 0:
                write_own_tokenizer(folder, config)
            try:
                with suppress(TaskStopException):
                    run_recipe(AsrRecipe(probe), probed(config), folder)
            except torch.cuda.OutOfMemoryError:
                probe.write(output_dir, out_of_memory=True)
                raise
            if rank == 0:
                probe.write(output_dir)
    finally:
        if rank == 0:
            shutil.rmtree(folder, ignore_errors=True)


def register_common(container: DependencyContainer) -> None:
    """Register what training and evaluation share in fairseq2's container."""
    configure_console()
    register_datasets(container)
    # Also for fairseq2's own wer, whose score of 0 it would print as -0.
    for priority, (name, title) in enumerate(run_directory.SCORE_TITLES.items(), start=200):
        descriptor = MetricDescriptor(name, title, priority, format_score)
        container.collection.register_instance(MetricDescriptor, descriptor)
    for priority, name in enumerate(("chance", "consistency"), start=91):
        title = f"{name.title()} (nats per character)"
        descriptor = MetricDescriptor(name, title, priority, format_as_float)
        container.collection.register_instance(MetricDescriptor, descriptor)


def format_score(value: object) -> str:
    """Format an error rate as fairseq2 does; it negates scores, so that 0 arrives as -0.0."""
    return format_as_float(value or 0.0)


@final
class AsrRecipe(TrainRecipe):
    """Fine-tunes a CTC model, or trains one from a pretrained encoder or from scratch."""

    def __init__(self, probe: Probe | None = None) -> None:
        self._probe = probe

    @override
    def register(self, container: DependencyContainer) -> None:
        register_common(container)
        register_optimizers(container)

        def report(resolver: DependencyResolver) -> MetricRecorder:
            context = RecipeContext(resolver)
            config = context.config.as_(AsrConfig)
            return self._probe or RunReport(context.output_dir, config)

        container.collection.register(MetricRecorder, report)

    @override
    def prepare_model(self, context: RecipeContext, model: RecipeModel) -> RecipeModel:
        config = context.config.as_(AsrConfig)
        module = cast(Wav2Vec2AsrModel, model.module)
        described, seed = cast(Wav2Vec2AsrConfig, model.config), config.common.seed
        masking = install_masker(module, config.masking, described, seed=seed)
        head = cast(Linear, module.final_proj)
        if config.model.head != FULL:
            slice_head(head, context.output_dir, config)
        if config.pretrained_encoder.name and model.newly_initialized and not config.model.name:
            log.info("Taking the encoder's weights from the pretrained model.")
            encoder = cast(Wav2Vec2Model, context.bootstrap_model("pretrained_encoder").module)
            share_parameters(encoder.encoder_frontend, module.encoder_frontend)
            share_parameters(encoder.encoder, module.encoder)
            if module.masker is not None and masking["use_masking"]:
                share_parameters(encoder.masker, module.masker)
        if context.gangs.dp.rank == 0:
            # A new head beside pretrained weights may still be on the meta device.
            to_device(module, context.gangs.root.device)
        context.gangs.root.barrier()
        Freezing(config).freeze_permanently(module)
        if self._probe is None:
            log.info("{}", _headline(context, module))
        use_fused(config.optimizer.config, context.gangs.root.device)
        if config.optimizer.layer_decay is not None:
            layers, values = len(module.encoder.layers), cast(Any, config.optimizer.config)
            values.groups = layer_groups(values, config.optimizer.layer_decay, layers)
        if context.gangs.root.rank == 0 and self._probe is None:
            check_free_space(
                context.output_dir, checkpoint_space(context.output_dir, module, config)
            )
            changes = {**masking, "target_vocab_size": head.output_dim}
            complete_model_card(context.output_dir, config.tokenizer.name, changes)
        return model

    @override
    def create_trainer(self, context: RecipeContext) -> Trainer:
        config = context.config.as_(AsrConfig)
        # The text is checked first: the model takes longer to load.
        index = training_index(context, config)
        unwrap_names(context.model.module)
        criterion = CtcCriterion(context.model, config.masking.consistency_scale)
        setup = ReaderSetup.of(context)
        reader = training_reader(setup, config, index)
        if context.gangs.root.rank == 0:
            log.info("{}", needs(context, config, reader, setup.tokenizer))
        if self._probe is not None:
            self._probe.prepare(reader)
        size = setup.tokenizer.vocab_info.size
        unit = AsrTrainUnit(criterion, Freezing(config), setup.frames, size)
        validates = config.dataset.valid_split is not None
        validation = open_validation(setup, config, criterion) if validates else None
        task = StoppableTraining(context, config, unit, reader, validation)
        return cast(Trainer, task)  # fairseq2 uses it as a Task

    @override
    def has_static_autograd_graph(self, context: RecipeContext) -> bool:
        # DDP would wait for the gradients of parameters that are frozen after it wrapped the model.
        return {*Freezing(context.config.as_(AsrConfig)).stages.values()} == {ALL_LAYERS}

    @property
    @override
    def config_kls(self) -> type[object]:
        return AsrConfig


def _headline(context: RecipeContext, model: Wav2Vec2AsrModel) -> str:
    root = context.gangs.root
    device = torch.cuda.get_device_name(root.device) if root.device.type == "cuda" else root.device
    count, learn = (
        sum(p.numel() for p in model.parameters() if p.requires_grad or every) for every in (1, 0)
    )
    return (
        f"Run {context.output_dir}: {root.size} x {device}, {count:,} parameters of which "
        f"{learn:,} learn. Details are in its config.yaml and logs/"
    )


@final
class AsrTrainUnit(TrainUnit[Seq2SeqBatch]):
    """Computes the loss, and freezes what does not learn in a stage of the run.

    ``vocabulary`` is the number of symbols, blank included.
    """

    def __init__(
        self, criterion: CtcCriterion, freezing: Freezing, num_frames: FrameCount, vocabulary: int
    ) -> None:
        self._criterion, self._freezing = criterion, freezing
        self._num_frames, self._vocabulary = num_frames, vocabulary
        self._stage: int | None = None
        self._step, self._first_is_known = 0, False

    @override
    def set_step_nr(self, step_nr: int) -> None:
        self._step = step_nr
        stage = self._freezing.stage(step_nr)
        if stage == self._stage:
            return
        model = cast(Wav2Vec2AsrModel, self._criterion.model.base_module)
        self._freezing.begin(stage, model)
        if len(self._freezing.stages) > 1:
            log.info("{}", "".join(self._freezing.describe(stage, model)))
        self._stage = stage

    @override
    def prepare_metric_bag(self, metric_bag: MetricBag) -> None:
        self._criterion.prepare_training_bag(metric_bag)
        metric_bag.add("chance", Mean())

    @override
    def process_batch(
        self, batch: Seq2SeqBatch, metric_bag: MetricBag
    ) -> tuple[Tensor, int | None]:
        loss = self._criterion(batch, metric_bag)
        self._compare_with_chance(batch, metric_bag)
        # The number of utterances normalises the gradient, over all batches and ranks of the step.
        return loss, batch.batch_size

    @torch.no_grad()
    def _compare_with_chance(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> None:
        characters = sum(batch.target_seq_lens)
        chance = chance_of(batch, self._num_frames, self._vocabulary) / characters
        metric_bag.get("chance", Mean).update(chance, weight=characters)
        if self._step == 1 and not self._first_is_known:
            self._first_is_known = True
            first, usual = float(metric_bag.get("loss", Mean).compute()), float(chance)
            log.info("{}", diagnostics.first_loss(first, usual, self._vocabulary))
            if warning := advice.loss_warning(first, usual):
                log.warning("{}", warning)

    @property
    @override
    def model(self) -> RecipeModel:
        return self._criterion.model
