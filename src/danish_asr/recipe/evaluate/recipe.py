"""The evaluation recipe: a model's predictions of every row that is selected.

In: a `Selection`. Out: ``predictions.jsonl`` and ``evaluation.json`` in its directory, and a row
there of what a training measures in validation, by the same recorders (``metrics/eval.jsonl``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast, final

import numpy as np
import pandas as pd
import torch
from fairseq2.gang import Gang, all_sum
from fairseq2.metrics import MetricBag, sync_and_compute_metrics
from fairseq2.metrics.aggregation import Mean
from fairseq2.metrics.recorders import MetricRecorder
from fairseq2.recipe.base import EvalRecipe, RecipeContext
from fairseq2.recipe.evaluator import Evaluator
from fairseq2.recipe.run import evaluate as run_evaluation
from fairseq2.recipe.task import TaskStopException
from fairseq2.runtime.dependency import DependencyContainer
from fairseq2.utils.progress import ProgressReporter
from torch import Tensor
from typing_extensions import override

from danish_asr.base.cluster import rank_info, use_granted_cpus, wait_for_first_rank
from danish_asr.base.config_tree import Tree
from danish_asr.base.errors import RunFailedError, note
from danish_asr.base.files import publish_json, sha256_of
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.corpus.inventory import share_people_of
from danish_asr.decoding.ctc import confidences, ctc_nats, per_token
from danish_asr.decoding.decoders import GREEDY, Decoder, decode, make_decoder
from danish_asr.metrics import ErrorCounts
from danish_asr.recipe import entry as cli
from danish_asr.recipe.config.fairseq2 import Processes, processes_of
from danish_asr.recipe.data.index import TARGET, Index, Rows
from danish_asr.recipe.data.reader import ReaderSetup, in_background
from danish_asr.recipe.data.sampler import BatchLimits, Sharding, evaluation_batches
from danish_asr.recipe.data.targets import Targets, has_loss
from danish_asr.recipe.data.transforms import Waveform
from danish_asr.recipe.evaluate.selection import Selection, read_keys, select
from danish_asr.recipe.models.trained import TrainedModel
from danish_asr.recipe.run.evaluations import (
    BEST,
    EVALUATION,
    PREDICTIONS,
    PREDICTIONS_SHA256,
    SHARE_PEOPLE,
)
from danish_asr.recipe.run.locks import locked
from danish_asr.recipe.run.run import checkpoint_of
from danish_asr.recipe.train.console import configure_console, log
from danish_asr.recipe.train.ending import (
    StoppableTask,
    close_in_time,
    exit_on_error,
    explained,
    on_stop_signals,
)
from danish_asr.recipe.train.readers import any_row_has_loss
from danish_asr.recipe.train.training import register_titles, write_configuration
from danish_asr.recipe.train.validation import ErrorRates, rates_of
from danish_asr.scoring.predictions import read_predictions, write_predictions

_NOT_WRITTEN: Final = ("text", "language", TARGET)
"""What an index has of its rows and a predictions file does not, or by another name."""


def run(request: cli.Request, tree: Tree) -> Path | None:
    """Score a split, and return where its predictions are, None if there are none.

    `danish_asr.recipe.entry.run` has the exit statuses.
    """
    with exit_on_error():
        selection = select(request, tree)
        if request.dump_config:
            return None
        rank = rank_info().rank
        if rank == 0:
            best = selection.config.evaluator.checkpoint == BEST and selection.checkpoint
            name = best.run.best_in_words if best else selection.name
            note(f"scoring split {selection.config.evaluator.split} with {name}")
        with locked(selection.output_dir, rank), explained():
            wait_for_first_rank(rank)
            write_configuration(read_keys(selection.config), selection.output_dir)
            sections = processes_of(selection.config)
            run_evaluation(AsrEvalRecipe(selection), sections, selection.output_dir)
    return selection.output_dir


@final
class AsrEvalRecipe(EvalRecipe):
    """Lets fairseq2 start the processes and their logs; the rest is `Evaluation`."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    @override
    def register(self, container: DependencyContainer) -> None:
        configure_console()
        register_titles(container)

    @override
    def create_evaluator(self, context: RecipeContext) -> Evaluator:
        use_granted_cpus(self._selection.config.common.torch.num_threads)
        # fairseq2 uses it as a Task.
        return cast(Evaluator, Evaluation(context, self._selection))

    @property
    @override
    def config_kls(self) -> type[object]:
        return Processes


@dataclass(frozen=True)
class _Batch:
    """Rows of a split for one process, perhaps none."""

    split: str
    index: Index
    rows: Rows

    def waveforms(self) -> list[Waveform]:
        """Decode its rows."""
        decoded = [np.empty(samples, np.float32) for samples in self.index.lengths[self.rows]]
        for row, waveform in zip(self.rows.tolist(), decoded, strict=True):
            self.index.decode(row, waveform)
        return decoded


@final
class Evaluation(StoppableTask):
    """Scores every row once, on one of the processes, and writes the predictions at the end."""

    def __init__(self, context: RecipeContext, selection: Selection) -> None:
        super().__init__(context, selection.config.trainer)
        opened, settings = selection.model, selection.config.decoder
        self._decoder = make_decoder(settings.name, settings.config, opened.tokenizer)
        self._model = TrainedModel(
            *opened.load(self._gang.device),
            normalize_audio=opened.normalize_audio,
            amp_dtype=opened.amp_dtype,
        )
        self._selection, self._tokenizer = selection, opened.tokenizer
        self._targets = Targets(opened.tokenizer)
        self._progress = context.resolver.resolve(ProgressReporter)
        self._recorder = context.resolver.resolve(MetricRecorder)
        self._metrics = MetricBag(self._gang.device)
        self._metrics.add("errors", ErrorRates([], selection.config.regime.score_profile))

    @override
    def run(self) -> None:
        config, rows = self._selection.config, self._selection.rows
        setup = ReaderSetup(self._tokenizer, self._gangs, self._model.frames)
        if any_row_has_loss(setup, config, rows):  # the mean of no rows would be 0
            self._metrics.add("loss", Mean())
        predictions, batches = list[dict[str, Any]](), self._batches()
        waveforms = in_background(lambda number: batches[number].waveforms(), len(batches))
        with on_stop_signals(self.request_stop), self._progress:
            task = self._progress.create_task("eval", total=len(batches))
            with task:
                for batch in batches:
                    if self.must_stop():
                        self._stop(len(predictions))
                    predictions += self.score(batch, next(waveforms))
                    task.step()
        about = about_evaluation(self._selection, self._decoder)
        write_results(self._selection.output_dir, self._gang, predictions, about)
        self._record(about["step"])
        self._gangs.close()

    def _record(self, step: int | None) -> None:
        values = sync_and_compute_metrics(self._metrics, self._gang)
        if values is not None:  # on the first rank
            values |= rates_of(cast(dict[str, ErrorCounts], values.pop("errors")))
            self._recorder.record_metric_values("eval", values, step)

    @override
    def close(self) -> None:
        close_in_time(self._recorder.close)

    def _stop(self, scored: int) -> None:
        done, rows = int(all_sum(self._gang, scored)), sum(map(len, self._selection.rows.values()))
        asked = all_sum(self._gang, int(self._stop_requested)).item() > 0
        self._gangs.close()
        text = (
            f"stopped after {done:,} of {rows:,} rows; nothing is written, and the next evaluation "
            "begins anew"
        )
        if not asked:  # the next one would end as this one
            raise RunFailedError(f"{text}: raise trainer.max_wall_minutes and the job's limit")
        log.warning("{}", text)
        raise TaskStopException

    def _batches(self) -> list[_Batch]:
        """The batches of this process; each has equally many, as all stop after the same one."""
        limits = BatchLimits.of_evaluation(self._selection.config.dataset)
        sharding, batches = Sharding(self._gang.rank, self._gang.size, 1), list[_Batch]()
        for split, index in self._selection.rows.items():
            of_split = evaluation_batches(index.lengths, limits)
            for spans in sharding.steps(of_split, 0, keep_all=True):
                begin, end = spans[0] if spans else (0, 0)
                batches.append(_Batch(split, index, of_split.rows[begin:end]))
        return batches

    def score(self, batch: _Batch, waveforms: Sequence[Waveform]) -> Iterator[dict[str, Any]]:
        """Yield the prediction of each row of a batch."""
        if not waveforms:
            return
        longest = max(1, *map(len, waveforms))
        seconds = longest * len(waveforms) / SAMPLE_RATE
        log_probs = self._model.log_probs(waveforms, batch_seconds=seconds)
        hypotheses = decode(self._decoder, log_probs)
        rows = batch.index.texts[batch.rows].to_dicts()
        targets = [torch.from_numpy(self._targets(row[TARGET])) for row in rows]
        losses = losses_of(log_probs, targets, [row["id"] for row in rows])
        for loss, target in zip(losses, targets, strict=True):
            if loss is not None:
                self._metrics.get("loss", Mean).update(loss, weight=len(target))
        texts = [row["text"] for row in rows]
        self._metrics.get("errors", ErrorRates).update(texts, hypotheses, [()] * len(rows))
        sure = confidences(log_probs, hypotheses, self._tokenizer)
        for number, row in enumerate(rows):
            duration, tokens = len(waveforms[number]) / SAMPLE_RATE, len(targets[number])
            yield {name: row[name] for name in row if name not in _NOT_WRITTEN} | {
                "split": batch.split,
                "reference": row["text"],
                "hypothesis": hypotheses[number],
                "duration": duration,
                "loss": losses[number],
                "confidence": sure[number],
                "seconds_per_character": round(duration / tokens, 4) if tokens else None,
            }


def losses_of(
    log_probs: Sequence[Tensor], targets: Sequence[Tensor], ids: Sequence[str]
) -> list[float | None]:
    """Return the loss of each row, (S, V), per token; None if CTC gives its target none.

    Raises:
        RunFailedError: A loss is NaN or infinite.
    """
    nats, pairs = ctc_nats(log_probs, targets), zip(targets, log_probs, strict=True)
    counted = torch.tensor([has_loss(tokens.numpy(), len(row)) for tokens, row in pairs])
    if bad := [ids[n] for n in (counted & ~nats.isfinite()).nonzero().flatten().tolist()]:
        raise RunFailedError(f"the loss of {', '.join(bad)} is NaN or infinite; listen to it.")
    return per_token(nats.masked_fill(~counted, torch.inf), targets)


def about_evaluation(selection: Selection, decoder: Decoder) -> dict[str, Any]:
    """Return what is scored, on which rows of which dataset."""
    config, checkpoint = selection.config, selection.checkpoint
    if checkpoint is None and config.model.path:  # which may be of another run
        checkpoint = checkpoint_of(config.model.path)
    about: dict[str, Any] = {
        "dataset": config.dataset.name,
        "dataset_root": str(selection.dataset),
        SHARE_PEOPLE: share_people_of(selection.dataset),
        "model": selection.name,
        "checkpoint": config.evaluator.checkpoint,
        "step": checkpoint.step if checkpoint else None,
        "run": str(checkpoint.run.checkpoints) if checkpoint else "",
        "weights": checkpoint.digest() if checkpoint else None,
        "score_profile": config.regime.score_profile,
    }
    if config.decoder.name != GREEDY:
        about["decoder"] = dict(vars(config.decoder))
        if settings := getattr(decoder, "settings", None):  # such as tuned values
            about["decoder"]["settings"] = settings
    if config.evaluator.where:
        about["where"] = config.evaluator.where
    rows = selection.rows
    return about | {
        "rows": {name: len(index) for name, index in rows.items()},
        "rows_in_split": {name: index.rows_in_split for name, index in rows.items()},
    }


def write_results(
    directory: Path, gang: Gang, predictions: list[dict[str, Any]], about: Mapping[str, Any]
) -> None:
    """Write the predictions of all processes as one file, and ``evaluation.json`` beside it.

    ``about`` is the content of that, without the hash of the predictions file.

    Raises:
        RunFailedError: There is not one prediction for each row to score.
    """
    # Ranks may be on several hosts and share only the output directory.
    files = [directory / f"{PREDICTIONS}.{rank}" for rank in range(gang.size)]
    if gang.rank != 0:
        write_predictions(files[gang.rank], read_predictions(predictions))
    gang.barrier()
    if gang.rank == 0:
        others = [file for file in files[1:] if file.stat().st_size]  # some may have no rows
        table = pd.concat(map(read_predictions, (predictions, *others)), ignore_index=True)
        for file in directory.glob(f"{PREDICTIONS}.[0-9]*"):  # also of one that was killed
            file.unlink()
        rows = sum(about["rows"].values())
        if len(table) != rows or table.duplicated(["corpus", "id"]).any():
            raise RunFailedError(
                f"{len(table)} predictions were made for {rows} rows; every row must "
                "be scored once. `danish-asr verify` finds ids that occur twice."
            )
        path = directory / PREDICTIONS
        write_predictions(path, table.sort_values(["split", "id", "corpus"]))
        of_file = {"predictions": PREDICTIONS, PREDICTIONS_SHA256: sha256_of(path)}
        publish_json(directory / EVALUATION, {**about, **of_file})
        log.info("{} predictions written to {}.", rows, path)
    gang.barrier()
