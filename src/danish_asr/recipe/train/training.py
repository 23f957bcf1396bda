"""The training recipe: from a configuration to a trained model."""

from dataclasses import replace
from pathlib import Path
from typing import cast, final

import torch
from fairseq2.metrics import format_as_float
from fairseq2.metrics.recorders import MetricDescriptor, MetricRecorder
from fairseq2.models.wav2vec2 import Wav2Vec2Model
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from fairseq2.nn import Linear
from fairseq2.nn.utils.module import share_parameters, to_device
from fairseq2.recipe.base import RecipeContext, TrainRecipe
from fairseq2.recipe.model import RecipeModel
from fairseq2.recipe.run import train as run_training
from fairseq2.recipe.trainer import Trainer
from fairseq2.runtime.dependency import DependencyContainer, DependencyResolver
from typing_extensions import override

from danish_asr.base.cluster import rank_info, use_granted_cpus, wait_for_first_rank
from danish_asr.base.config_tree import Tree, flatten
from danish_asr.base.errors import note
from danish_asr.base.fairseq2_private import write_configuration_with
from danish_asr.base.files import publish_text, to_yaml
from danish_asr.recipe import entry as cli
from danish_asr.recipe.config.fairseq2 import Fairseq2Config, sections_of
from danish_asr.recipe.config.load import ALL_LAYERS, load, unstructure
from danish_asr.recipe.config.schema import FULL, AsrConfig
from danish_asr.recipe.data.reader import ReaderSetup
from danish_asr.recipe.models.cards import open_tokenizer, register_placed
from danish_asr.recipe.run.advice import CHANCE, never_reached
from danish_asr.recipe.run.continuing import (
    check_continuation,
    check_scores,
    complete_scores,
    tidy,
)
from danish_asr.recipe.run.locks import locked
from danish_asr.recipe.run.processes import check_processes, fit_to_processes
from danish_asr.recipe.run.run import CONFIG_FILE, SCORE_TITLES, TOKENIZER, Run, score_title
from danish_asr.recipe.train import learning, readers, record
from danish_asr.recipe.train.console import RunReport, configure_console, log
from danish_asr.recipe.train.criterion import AsrTrainUnit, CtcCriterion
from danish_asr.recipe.train.ending import exit_on_error, explained, noted
from danish_asr.recipe.train.masking import install_masker
from danish_asr.recipe.train.preflight import Resolved, dump, resolve, write_start
from danish_asr.recipe.train.readers import model_frames
from danish_asr.recipe.train.trainer import StoppableTraining
from danish_asr.recipe.train.validation import PatienceStopper, open_validation


def run(request: cli.Request, tree: Tree) -> None:
    """Train; `danish_asr.recipe.entry.run` has the exit statuses."""
    output_dir = cast(Path, request.output_dir)  # only a dump needs none
    with exit_on_error():
        config = load(tree, where=request.where)
        if request.dump_config:
            dump(config, where=request.where)
            return
        run = Run(output_dir)
        resolved = resolve(config, run, where=request.where)
        asked = unstructure(resolved.asked)
        rank, processes = rank_info()
        with locked(output_dir, rank):
            if rank == 0:  # not before: who has held the lock may have saved
                check_continuation(run, asked, unstructure(AsrConfig()))
                now = dict(flatten(asked))
                for line in (
                    run.completion(now),
                    check_scores(run, now),
                    check_processes(run, processes),
                ):
                    if line:
                        note(line)
            with noted(output_dir, rank), explained():
                _train(run, config, resolved)


def _train(run: Run, config: AsrConfig, resolved: Resolved) -> None:
    """Train a run that this process has the lock of, from its last checkpoint on."""
    asked = unstructure(resolved.asked)
    rank, processes = rank_info()
    if rank == 0:
        tidy(run)
        record.purge_curves(run)
        fit_to_processes(run, processes)
        record.write_environment(run.folder)
        if not run.last:
            write_start(run, config, resolved.model, resolved.tokenizer_file)
            record.write_own_tokenizer(run, resolved)
    wait_for_first_rank(rank)
    stopper = PatienceStopper(run.folder, config.regime)
    if run.can_continue and not stopper.exhausted:
        write_configuration(asked, run.folder)
        run_training(AsrRecipe(resolved, stopper), sections_of(resolved.config), run.folder)
    else:
        configure_console()
    if rank == 0:
        complete_scores(run)
        record.write_model_card(run, stopper.reason)


def write_configuration(config: Tree, output_dir: Path) -> None:
    """Let the recipe that runs next write this configuration to ``config.yaml``."""

    def write() -> None:
        if rank_info().rank == 0:
            publish_text(output_dir / CONFIG_FILE, to_yaml(config))

    write_configuration_with(write)


def register_titles(container: DependencyContainer, metric: str | None = None) -> None:
    """Let fairseq2 call what this project measures by its titles; ``metric`` is the score."""
    titles = {"chance": CHANCE, **SCORE_TITLES, metric or "wer": score_title(metric)}
    for priority, (name, title) in enumerate(titles.items(), start=199):
        descriptor = MetricDescriptor(name, title, priority, format_as_float)
        container.collection.register_instance(MetricDescriptor, descriptor)


@final
class AsrRecipe(TrainRecipe):
    """Fine-tunes a CTC model, or trains one from a pretrained encoder or from scratch."""

    def __init__(self, resolved: Resolved, stopper: PatienceStopper | None = None) -> None:
        self._resolved, self._stopper = resolved, stopper

    @override
    def register(self, container: DependencyContainer) -> None:
        configure_console()
        register_titles(container, self._resolved.config.regime.score_metric)
        register_placed(container, self._resolved.placed)
        learning.register_optimizer(container, self._resolved.config.optimizer.name)

        def report(resolver: DependencyResolver) -> MetricRecorder:
            context = RecipeContext(resolver)
            return RunReport(context.output_dir, self._resolved.config)

        container.collection.register(MetricRecorder, report)

    @override
    def prepare_model(self, context: RecipeContext, model: RecipeModel) -> RecipeModel:
        config, root = self._resolved.config, context.gangs.root
        use_granted_cpus(config.common.torch.num_threads)
        module = cast(Wav2Vec2AsrModel, model.module)
        model_config = cast(Wav2Vec2AsrConfig, model.config)
        masking = install_masker(module, config.masking, model_config, seed=config.common.seed)
        head = cast(Linear, module.final_proj)
        if config.model.head != FULL:
            own = Run(context.output_dir).checkpoints / TOKENIZER
            learning.slice_head(head, self._resolved.tokenizer_file, own)
        if config.pretrained_encoder.name and model.newly_initialized and not config.model.name:
            _share_encoder(context, module, masks=masking["use_masking"])
        learning.keep_layers(module, config.model.keep_layers)
        if context.gangs.dp.rank == 0:
            # A new head beside pretrained weights may still be on the meta device.
            to_device(module, root.device)
        root.barrier()
        learning.Freezing(self._resolved.asked).freeze_permanently(module)
        log.info("{}", _headline(context, module))
        if root.rank == 0:
            record.check_free_space(context.output_dir, module, config)
            encoder = {"num_encoder_layers": len(module.encoder.layers)}
            size = {"target_vocab_size": head.output_dim, "encoder_config": encoder}
            changes = {**masking, **size}
            record.complete_model_card(context.output_dir, config, changes)
        return model

    @override
    def create_trainer(self, context: RecipeContext) -> Trainer:
        config, rows = self._resolved.config, self._resolved.rows
        tokenizer = open_tokenizer(Run(context.output_dir).checkpoints / TOKENIZER)
        # The text is checked first: the model takes longer to load.
        for first, stage in config.stages().items():
            readers.check_text(rows.train[first], tokenizer, stage)
        criterion = CtcCriterion(context.model)
        setup = ReaderSetup(tokenizer, context.gangs, model_frames(context.model.config))
        reader = readers.training_reader(setup, config, rows.train)
        epoch, size = reader.epoch_size().steps, setup.tokenizer.vocab_info.size
        if config.regime.validate_every_n_data_epochs:
            regime = replace(config.regime)
            interval = config.regime.validate_every_n_data_epochs * epoch
            reports = regime.publish_metrics_every_n_steps or 1
            steps = max(round(interval / reports), 1) * reports
            log.info("Validation after every {} steps.", steps)
            for section in (regime, context.config.as_(Fairseq2Config).regime):
                section.validate_every_n_steps = section.checkpoint_every_n_steps = steps
            config = replace(config, regime=regime)
        freezing = learning.Freezing(self._resolved.asked, epoch)
        reader.frees_layers = freezing.stages
        begins = {*config.trainer.stages, *freezing.stages}
        for warning in never_reached(dict(flatten(unstructure(config))), epoch, begins):
            log.warning("{}", warning)
        unit = AsrTrainUnit(criterion, freezing, setup.frames, size)
        validation = None
        if rows.valid:
            validation = open_validation(setup, config, rows.valid, criterion)
        task = StoppableTraining(context, config, unit, reader, validation, stopper=self._stopper)
        return cast(Trainer, task)  # fairseq2 uses it as a Task

    @override
    def has_static_autograd_graph(self, context: RecipeContext) -> bool:
        # DDP would wait for the gradients of parameters that are frozen after it wrapped the model.
        return {*learning.Freezing(self._resolved.asked).stages.values()} == {ALL_LAYERS}

    @property
    @override
    def config_kls(self) -> type[object]:
        return Fairseq2Config


def _share_encoder(context: RecipeContext, module: Wav2Vec2AsrModel, *, masks: bool) -> None:
    """Give a new model the weights of the pretrained encoder, with its mask embedding if any."""
    log.info("Taking the encoder's weights from the pretrained model.")
    pretrained = cast(Wav2Vec2Model, context.bootstrap_model("pretrained_encoder").module)
    share_parameters(pretrained.encoder_frontend, module.encoder_frontend)
    share_parameters(pretrained.encoder, module.encoder)
    if module.masker is not None and masks:
        share_parameters(pretrained.masker, module.masker)


def _headline(context: RecipeContext, model: Wav2Vec2AsrModel) -> str:
    root = context.gangs.root
    device = torch.cuda.get_device_name(root.device) if root.device.type == "cuda" else root.device
    count = sum(p.numel() for p in model.parameters())
    learn = sum(p.numel() for p in model.parameters() if p.requires_grad)
    parameters = f"{count:,} parameters of which {learn:,} learn"
    return f"Run {context.output_dir}: {root.size} x {device}, {parameters}"
