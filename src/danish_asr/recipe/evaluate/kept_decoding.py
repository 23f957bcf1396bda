"""An evaluation that reads the log-probabilities which an earlier one kept, and runs no model."""

import json
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache, partial
from math import inf
from pathlib import Path
from typing import NamedTuple, Self, cast

from fairseq2.device import CPU
from fairseq2.gang import create_fake_gangs
from fairseq2.recipe.task import TaskStopException

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.fairseq2_private import configure_logging
from danish_asr.base.files import publish_text, to_yaml
from danish_asr.base.progress import watch
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.base.workers import SECONDS_ALONE, run_in_processes
from danish_asr.decoding import Decoder, decode, make_decoder
from danish_asr.decoding.log_probs import LogProbsFile
from danish_asr.recipe.config.config import AsrEvalConfig
from danish_asr.recipe.config.loading import unstructure
from danish_asr.recipe.data.make_reader import evaluation_fingerprint
from danish_asr.recipe.evaluate.evaluator import PREDICTIONS, publish_predictions
from danish_asr.recipe.evaluate.scored_batches import ScoredBatch, ScoredBatches
from danish_asr.recipe.evaluate.selection import Selection
from danish_asr.recipe.models.assets import configured_dataset, open_tokenizer
from danish_asr.recipe.run.run_directory import CONFIG_FILE
from danish_asr.recipe.train.console import configure_console, log
from danish_asr.recipe.train.readers import evaluation_task
from danish_asr.recipe.train.stopping import on_stop_signals
from danish_asr.recipe.train.subsets import validation_indices
from danish_asr.recipe.train.validation import ErrorRates, table
from danish_asr.scoring.predictions import Prediction, from_row


class DecoderSpec(NamedTuple):
    """What another process needs to create a decoder; it is hashable."""

    name: str
    config: str  # JSON
    tokenizer: str  # name or file
    cards: tuple[Path, ...]  # directories with the tokenizer's card

    @classmethod
    def of(cls, config: AsrEvalConfig) -> Self:
        """The decoder of a resolved configuration."""
        section, tokenizer = config.decoder, config.tokenizer
        cards = tuple(config.common.assets.extra_paths)
        named = str(tokenizer.path or tokenizer.name)
        return cls(section.name, json.dumps(section.config), named, cards)


@lru_cache(maxsize=1)
def open_decoder(spec: DecoderSpec) -> Decoder:
    """Create a decoder, once per process."""
    tokenizer = open_tokenizer(spec.tokenizer, spec.cards)
    return make_decoder(spec.name, json.loads(spec.config), tokenizer)


def split_fingerprints(config: AsrEvalConfig) -> dict[str, dict[str, object]]:
    """Return what identifies the rows of each split to score, as their reader has it."""
    section, task = config.dataset, evaluation_task(config.dataset)
    dataset, splits = configured_dataset(config), config.evaluator.split or ""
    indices = validation_indices(dataset, section, splits, None)
    return {name: evaluation_fingerprint(index, task) for name, index in indices.items()}


def decode_kept(
    kept: LogProbsFile, selection: Selection, rows: Mapping[str, Mapping[str, object]]
) -> None:
    """Decode all utterances of a file over processes, and write the results.

    It can be stopped and continued as an evaluation that runs the model.

    Raises:
        TaskStopException: A signal or the time limit stopped it; what was decoded is saved.
    """
    config, directory = selection.config, selection.output_dir
    configure_logging()
    configure_console()
    log.info("Decoding the log-probabilities in {}; the model does not run.", kept.path)
    publish_text(directory / CONFIG_FILE, to_yaml(unstructure(config)))
    spec = DecoderSpec.of(config)
    decoder = open_decoder(spec)
    counts = {name: cast(int, each["utterances"]) for name, each in rows.items()}
    scored = ScoredBatches(directory / PREDICTIONS, create_fake_gangs(CPU))
    scored.resume_rows(selection.predictions_depend_on(rows, decoder), sum(counts.values()))
    _decode_rest(kept, spec, scored, sum(counts.values()), config.trainer.max_wall_minutes)
    predictions = scored.collect()
    _report(predictions, config.regime.score_profile, list(counts))
    about = {**selection.about(decoder, counts), "log_probs": os.path.relpath(kept.path, directory)}
    publish_predictions(directory, predictions, about)
    scored.delete()


def _decode_rest(
    kept: LogProbsFile, spec: DecoderSpec, scored: ScoredBatches, rows: int, minutes: float | None
) -> None:
    """Decode what was not decoded before, and save each batch."""
    begin, requests = time.monotonic(), list[bool]()
    done = {batch.predictions[0].id for batch in scored.earlier}
    left = [n for n in range(len(kept)) if json.loads(kept.rows(n)[0])["id"] not in done]
    task = partial(_decode_batch, kept.path, spec)
    before = sum(len(batch.predictions) for batch in scored.earlier)
    with (
        on_stop_signals(lambda: requests.append(True)),
        closing(_results(task, left)) as batches,
    ):
        for batch in watch("decoded", batches, _measure, rows, done=before):
            scored.add(batch)
            if requests or time.monotonic() - begin > 60 * (minutes or inf):
                raise TaskStopException


def _results(
    task: Callable[[int], ScoredBatch], numbers: Sequence[int]
) -> Generator[ScoredBatch, None, None]:
    begin, left = time.monotonic(), list(numbers)
    while left and time.monotonic() - begin < SECONDS_ALONE:
        yield task(left.pop(0))
    with closing(run_in_processes(task, left, usable_cpus())) as batches:
        yield from batches


def _decode_batch(file: Path, spec: DecoderSpec, number: int) -> ScoredBatch:
    kept, decoder = LogProbsFile(file), open_decoder(spec)
    decoded = ((row, decode(decoder, x[None], [len(x)])[0]) for row, x in kept.log_probs(number))
    rows = (from_row({**json.loads(row), "hypothesis": x}, str(file)) for row, x in decoded)
    return ScoredBatch(0.0, [*rows])


def _measure(batch: ScoredBatch) -> tuple[int, int]:
    seconds = sum(row.duration or 0 for row in batch.predictions)
    return len(batch.predictions), round(seconds * SAMPLE_RATE)


def _report(predictions: Sequence[Prediction], profile: str, splits: Sequence[str]) -> None:
    """Print the error rates as an evaluation that runs the model does."""
    groups = tuple(splits) if len(splits) > 1 else ()
    rates = ErrorRates(groups, profile)
    rates.update(
        [row.reference for row in predictions],
        [row.hypothesis for row in predictions],
        [{str(row.split)} & {*groups} for row in predictions],
    )
    lines = table(rates.compute(), rates.groups)
    log.info("Evaluation, text profile {}\n{}", profile, "\n".join(lines))
