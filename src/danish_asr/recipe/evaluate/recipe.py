"""The evaluation recipe: which model on which rows, and where its predictions go."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast, final

from fairseq2.datasets import Seq2SeqBatch
from fairseq2.gang import Gang, all_sum
from fairseq2.metrics import MetricBag
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from fairseq2.recipe.base import EvalRecipe, RecipeContext
from fairseq2.recipe.evaluator import Evaluator
from fairseq2.recipe.run import evaluate as run_evaluation
from fairseq2.recipe.task import TaskStopException
from fairseq2.runtime.dependency import DependencyContainer
from torch import Tensor
from typing_extensions import override

from danish_asr.base.cluster import rank_info, use_granted_cpus, wait_for_first_rank
from danish_asr.base.config_tree import Tree, merge, read_yaml, value_of
from danish_asr.base.errors import ConfigError, RunFailedError
from danish_asr.base.files import publish_json, sha256_of
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.corpus.inventory import share_people_of
from danish_asr.decoding.ctc import confidences, ctc_nats, per_token
from danish_asr.decoding.decoders import GREEDY, Decoder, make_decoder
from danish_asr.recipe import entry as cli
from danish_asr.recipe.config.fairseq2 import Fairseq2Config, sections_of
from danish_asr.recipe.config.load import load
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.data.reader import ReaderSetup, SplitsReader, ValidationInterrupted
from danish_asr.recipe.models.cards import speech_of
from danish_asr.recipe.models.trained import TrainedModel
from danish_asr.recipe.run.evaluations import BEST, LAST, NO_CHECKPOINT
from danish_asr.recipe.run.run_directory import (
    CHECKPOINTS,
    CONFIG_FILE,
    EVALUATION,
    PREDICTIONS,
    PREDICTIONS_SHA256,
    SHARE_PEOPLE,
    best_step,
    checkpoint_steps,
    locked,
    weights_digest,
)
from danish_asr.recipe.train.console import log
from danish_asr.recipe.train.criterion import CtcCriterion
from danish_asr.recipe.train.ending import (
    StoppableTask,
    exit_on_error,
    explained,
    on_stop_signals,
)
from danish_asr.recipe.train.preflight import Resolved, dump, resolve
from danish_asr.recipe.train.readers import any_row_has_loss, model_frames, splits_reader
from danish_asr.recipe.train.training import register_common, write_configuration
from danish_asr.recipe.train.validation import AsrValidationUnit
from danish_asr.scoring.predictions import Prediction, from_row, read_predictions, write_predictions

_OF_TRAINING: Final = ("head", "keep_layers")
"""Keys of ``model`` that change it before it is trained."""

_NOT_WRITTEN: Final = frozenset({"text", "language", "audio_size", "target_size"})
"""What a batch has of its rows and a predictions file does not, or by another name."""


class Selection(NamedTuple):
    """What will be scored."""

    config: AsrConfig
    output_dir: Path  # of the results
    step: int | None  # of the checkpoint; None for `model.name` as it is


def run(request: cli.Request, tree: Tree) -> Path | None:
    """Score a split, and return where its predictions are, None if there are none.

    `danish_asr.recipe.entry.run` has the exit statuses.
    """
    output_dir = cast(Path, request.output_dir)
    with exit_on_error():
        selection = select(output_dir, tree, where=request.where)
        if request.dump_config:
            dump(selection.config, where=request.where)
            return None
        resolved = resolve(selection.config, where=request.where)
        config, rank = resolved.config, rank_info().rank
        if rank == 0:
            cli.note(f"scoring {config.model.name}, split {config.evaluator.split}")
        with locked(selection.output_dir, rank), explained():
            wait_for_first_rank(rank)
            write_configuration(config, selection.output_dir)
            recipe = AsrEvalRecipe(selection.step, resolved)
            run_evaluation(recipe, sections_of(config), selection.output_dir)
    return selection.output_dir


def select(run_dir: Path, tree: Tree, *, where: str) -> Selection:
    """Decide what is scored, for the OUTDIR of the command line and the configuration's YAML.

    ``evaluator.checkpoint`` says which checkpoint of the run in OUTDIR. Its default is the best
    one; where OUTDIR holds no run, it is the model that the configuration names, if any.

    Raises:
        ConfigError: There is no such checkpoint, or a value of the configuration, which errors call
            ``where``, is wrong.
    """
    steps, model = checkpoint_steps(run_dir), tree.get("model")
    checkpoint = _text(tree, "evaluator.checkpoint")
    if checkpoint is None:
        holds_run = bool(steps) or (run_dir / CONFIG_FILE).is_file()
        has_model = _text(tree, "model.name") or _text(tree, "model.path")
        checkpoint = NO_CHECKPOINT if has_model and not holds_run else BEST
    split = _text(tree, "evaluator.split")
    # An evaluation file of upstream calls it dataset.valid_split.
    if not split and checkpoint == NO_CHECKPOINT and value_of(tree, "dataset.train_split") is None:
        split = _text(tree, "dataset.valid_split")
    split = split or "test"
    rows = {"valid_split": split, "valid_where": _text(tree, "evaluator.where")}
    tree = merge(tree, {"dataset": rows})
    if checkpoint == NO_CHECKPOINT:
        step = None
        if isinstance(model, Mapping):
            tree["model"] = {key: model[key] for key in model if key not in _OF_TRAINING}
    else:
        step = _step_of(run_dir, steps, checkpoint, where)
        tree["model"], tree["pretrained_encoder"] = {"name": f"checkpoint_step_{step}"}, {}
        checkpoints = str((run_dir / CHECKPOINTS).resolve())
        tree = merge(tree, {"common": {"assets": {"prev_checkpoint_dir": checkpoints}}})
    config = load(tree, where=where)
    # Optimizer and schedule are checked like the rest of a training configuration, then dropped.
    config = replace(
        config,
        evaluator=replace(config.evaluator, checkpoint=checkpoint, split=split),
        optimizer=None,  # type: ignore[arg-type]
        lr_scheduler=None,  # type: ignore[arg-type]
    )
    return Selection(config, _output_dir(run_dir, config), step)


def _text(tree: Tree, key: str) -> str | None:
    """A value that is a text; one of another type is reported with the other faults."""
    value = value_of(tree, key)
    return str(value) if isinstance(value, str | Path) else None


def _step_of(run_dir: Path, steps: Sequence[int], checkpoint: str, where: str) -> int:
    """Return the step that ``best``, ``last`` or ``step_<n>`` names."""
    names = {f"step_{step}": step for step in steps}
    if steps:
        names |= {LAST: steps[-1], BEST: best_step(run_dir) or steps[-1]}
    if checkpoint not in names:
        fault = (
            f"evaluator.checkpoint: '{checkpoint}' is not in {run_dir}, which has: "
            f"{', '.join(names) or 'no checkpoint'}. Name the directory of a run, or set "
            f"evaluator.checkpoint={NO_CHECKPOINT} and model.name or model.path to score a model"
        )
        raise ConfigError([fault], where=where)
    return names[checkpoint]


def _output_dir(run_dir: Path, config: AsrConfig) -> Path:
    """Return ``OUTDIR/eval/<checkpoint>/<split>``, below it one for a label or another decoder.

    The dataset is part of its name where it is not that of the run.
    """
    scored = str(config.evaluator.checkpoint)
    if scored == NO_CHECKPOINT:
        scored = config.model.path.name if config.model.path else str(config.model.name)
    split, file = str(config.evaluator.split), run_dir / CONFIG_FILE
    tree = read_yaml(file) if file.is_file() else {}
    name, root = (_text(tree, f"dataset.{key}") for key in ("name", "config_overrides.data"))
    data = (config.dataset.config_overrides or {}).get("data")
    if name not in {None, config.dataset.name}:
        split = f"{split}@{config.dataset.name}"
    elif root and data and data != Path(root) and Path(root).exists():  # else it was moved
        split = f"{split}@{data.parent.name}"
    decoder = "" if config.decoder.name == GREEDY else config.decoder.name.replace(":", ".")
    return run_dir / "eval" / scored / split / (config.evaluator.label or decoder)


@final
class AsrEvalRecipe(EvalRecipe):
    """Runs the selected model over every row of ``evaluator.split``, and writes its predictions."""

    def __init__(self, step: int | None, resolved: Resolved) -> None:
        self._step, self._resolved = step, resolved

    @override
    def register(self, container: DependencyContainer) -> None:
        register_common(container)

    @override
    def create_evaluator(self, context: RecipeContext) -> Evaluator:
        config, tokenizer = self._resolved.config, self._resolved.tokenizer
        use_granted_cpus(config.common.torch.num_threads)
        # The model normalises waveforms.
        task = replace(config.dataset.asr_task_config, normalize_audio=False)
        raw = replace(config, dataset=replace(config.dataset, asr_task_config=task))
        setup = ReaderSetup(tokenizer, context.gangs, model_frames(context.model.config))
        reader = splits_reader(setup, raw, self._resolved.rows.valid)
        has_loss = any_row_has_loss(setup, raw, self._resolved.rows.valid)
        unit = PredictionUnit(context, self._step, self._resolved, has_loss=has_loss)
        # fairseq2 uses it as a Task.
        return cast(Evaluator, StoppableEvaluation(context, config, unit, reader))

    @property
    @override
    def config_kls(self) -> type[object]:
        return Fairseq2Config


@final
class PredictionUnit(AsrValidationUnit):
    """Validates, collects the predictions of each batch, and writes the results at the end.

    Attributes:
        predictions: Those so far, on this process.
    """

    TITLE = "Evaluation"

    def __init__(
        self,
        context: RecipeContext,
        step: int | None,
        resolved: Resolved,
        *,
        has_loss: bool = True,
    ) -> None:
        config, self._tokenizer = resolved.config, resolved.tokenizer
        decoder = make_decoder(config.decoder.name, config.decoder.config, self._tokenizer)
        criterion, profile = CtcCriterion(context.model), config.regime.score_profile
        super().__init__(criterion, decoder, profile, has_loss=has_loss)
        speech = speech_of(config)
        self._trained = TrainedModel(
            cast(Wav2Vec2AsrModel, context.model.base_module),
            cast(Wav2Vec2AsrConfig, context.model.config),
            normalize_audio=speech["normalize_audio"],
            amp_dtype=speech["amp_dtype"],
        )
        self._output_dir, self._gang = context.output_dir, context.gangs.root
        self._about = about_evaluation(step, resolved, decoder)
        self.predictions = list[Prediction]()

    @override
    def process_batch(self, batch: Seq2SeqBatch, metric_bag: MetricBag) -> None:
        example = cast(dict[str, list[Any]], batch.example)
        waveforms = _rows(batch.source_seqs, example["audio_size"])
        seconds = batch.source_seqs.numel() / SAMPLE_RATE
        log_probs = self._trained.log_probs(
            [waveform.numpy() for waveform in waveforms], batch_seconds=seconds
        )
        hypotheses = self._count_errors(batch, log_probs, metric_bag)
        sizes: list[int] = example["target_size"]
        targets = _rows(batch.target_seqs, sizes)
        frames = [len(row) for row in log_probs]
        nats = ctc_nats(log_probs, targets)
        losses = per_token(self._criterion.record_rows(nats, frames, batch, metric_bag), targets)
        sure = confidences(log_probs, hypotheses, self._tokenizer)
        columns = {key: values for key, values in example.items() if key not in _NOT_WRITTEN}
        for row, hypothesis in enumerate(hypotheses):
            seconds = example["audio_size"][row] / SAMPLE_RATE
            prediction = {key: values[row] for key, values in columns.items()} | {
                "reference": example["text"][row],
                "hypothesis": hypothesis,
                "duration": seconds,
                "loss": losses[row],
                "confidence": sure[row],
                "seconds_per_character": round(seconds / sizes[row], 4) if sizes[row] else None,
            }
            self.predictions.append(from_row(prediction, f"row {row} of a batch"))

    @override
    def finalize(self, metric_bag: MetricBag) -> None:
        write_results(self._output_dir, self._gang, self.predictions, self._about)


def _rows(padded: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """The rows of a batch, each of its size, on the CPU."""
    return [row[:size] for row, size in zip(padded.cpu(), sizes, strict=True)]


@final
class StoppableEvaluation(StoppableTask):
    """Runs fairseq2's evaluator and ends it early where that is requested, without results."""

    def __init__(
        self,
        context: RecipeContext,
        config: AsrConfig,
        unit: PredictionUnit,
        reader: SplitsReader,
    ) -> None:
        super().__init__(context, config.trainer)
        self.inner = context.create_evaluator([unit], [reader])
        self._unit, self._num_rows = unit, sum(map(len, reader.indices.values()))
        reader.interrupted = self.must_stop

    @override
    def run(self) -> None:
        with on_stop_signals(self.request_stop):
            try:
                self.inner.run()
            except ValidationInterrupted:
                done = int(all_sum(self._gang, len(self._unit.predictions)))
                log.warning(
                    "Stopped after {:,} of {:,} rows; nothing is written, and the next evaluation "
                    "begins anew: raise trainer.max_wall_minutes and the job's limit.",
                    *(done, self._num_rows),
                )
                self._gangs.close()
                raise TaskStopException from None


def about_evaluation(step: int | None, resolved: Resolved, decoder: Decoder) -> dict[str, Any]:
    """Return what is scored, on which rows of which dataset."""
    config, indices = resolved.config, resolved.rows.valid
    checkpoints = config.common.assets.prev_checkpoint_dir
    about: dict[str, Any] = {
        "dataset": config.dataset.name,
        "dataset_root": str(resolved.dataset),
        SHARE_PEOPLE: share_people_of(resolved.dataset),
        "model": config.model.name,
        "checkpoint": config.evaluator.checkpoint,
        "step": step,
        "run": str(checkpoints or ""),
        "weights": weights_digest(checkpoints.parent, step) if checkpoints and step else None,
        "tokenizer": str(config.tokenizer.path or config.tokenizer.name),
        "score_profile": config.regime.score_profile,
    }
    if config.decoder.name != GREEDY:
        about["decoder"] = dict(vars(config.decoder))
        if settings := getattr(decoder, "settings", None):  # such as tuned values
            about["decoder"]["settings"] = settings
    if config.evaluator.where:
        about["where"] = config.evaluator.where
    return about | {
        "rows": {name: len(index) for name, index in indices.items()},
        "rows_in_split": {name: index.rows_in_split for name, index in indices.items()},
    }


def write_results(
    directory: Path, gang: Gang, predictions: list[Prediction], about: Mapping[str, Any]
) -> None:
    """Write the predictions of all processes as one file, and ``evaluation.json`` beside it.

    ``about`` is the content of that, without the hash of the predictions file.

    Raises:
        RunFailedError: There is not one prediction for each row to score.
    """
    # Ranks may be on several hosts and share only the output directory.
    files = [directory / f"{PREDICTIONS}.{rank}" for rank in range(gang.size)]
    if gang.rank != 0:
        write_predictions(files[gang.rank], predictions)
    gang.barrier()
    if gang.rank == 0:
        for file in files[1:]:
            predictions += read_predictions(file)
            file.unlink()
        rows = sum(about["rows"].values())
        if len({p.key for p in predictions}) != rows or len(predictions) != rows:
            raise RunFailedError(
                f"{len(predictions)} predictions were made for {rows} rows; every row must "
                "be scored once. `danish-asr verify` finds ids that occur twice."
            )
        path = directory / PREDICTIONS
        write_predictions(path, sorted(predictions, key=lambda p: (p.split, p.id, p.corpus)))
        of_file = {"predictions": PREDICTIONS, PREDICTIONS_SHA256: sha256_of(path)}
        publish_json(directory / EVALUATION, {**about, **of_file})
        log.info("{} predictions written to {}.", rows, path)
    gang.barrier()
