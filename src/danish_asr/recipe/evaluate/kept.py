"""The log-probabilities that an evaluation keeps, and what reads them, without the model.

Greedy's evaluation writes ``log_probs.arrow``; those with other decoders read it, and so does the
tuning of a language model.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache, partial
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import numpy as np
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.gang import Gangs
from fairseq2.recipe.task import TaskStopException
from fairseq2.utils.rich import configure_rich_logging
from torch import Tensor

from danish_asr.base.cluster import usable_cpus
from danish_asr.base.config_tree import read_yaml, value_of
from danish_asr.base.errors import LogProbsError
from danish_asr.base.files import publish_text, to_yaml
from danish_asr.base.progress import watch
from danish_asr.base.schema import CARDS_DIR, SAMPLE_RATE
from danish_asr.base.workers import SECONDS_ALONE, run_in_processes
from danish_asr.decoding.decoders import Decoder, decode, make_decoder
from danish_asr.decoding.ensemble import Ensemble, open_kept
from danish_asr.decoding.likelihood import Likelihood
from danish_asr.decoding.log_probs import LogProbsFile, keep, keep_command, to_batch, write_batches
from danish_asr.decoding.ngram_tuning import DevLogProbs
from danish_asr.recipe.config.loading import unstructure
from danish_asr.recipe.config.sections import names_of_splits
from danish_asr.recipe.data.index import Index
from danish_asr.recipe.evaluate.selection import Selection, log_stop, publish_predictions
from danish_asr.recipe.models.assets import open_tokenizer
from danish_asr.recipe.run.run_directory import CHECKPOINTS, CONFIG_FILE, best_step
from danish_asr.recipe.train.console import configure_console, log
from danish_asr.recipe.train.ending import on_stop_signals
from danish_asr.recipe.train.validation import ErrorRates, table
from danish_asr.scoring.predictions import Prediction, from_row, to_row

LOG_PROBS: Final = "log_probs.arrow"


@final
class LogProbsKeeper:
    """Writes ``log_probs.arrow``: each batch at once to a file of its own, in the end all to one.

    ``about`` is what the log-probabilities depend on.
    """

    def __init__(self, directory: Path, gangs: Gangs, about: Mapping[str, Any]) -> None:
        self._file = directory / LOG_PROBS
        self._parts = directory / f"{LOG_PROBS}.part"
        self._rank, self._about, self._batches = gangs.root.rank, dict(about), 0
        if gangs.root.rank == 0:
            shutil.rmtree(self._parts, ignore_errors=True)  # of an evaluation that was stopped
            self._parts.mkdir(parents=True)
        gangs.root.barrier()

    def add(self, rows: Sequence[Prediction], logits: Tensor, lengths: Sequence[int]) -> None:
        """Keep a batch: ``logits`` are (N, S, V), ``lengths`` the frames of each row."""
        texts = [json.dumps(to_row(row), ensure_ascii=False) for row in rows]
        about = json.dumps(self._about | {"vocabulary": logits.size(-1)})
        file = self._parts / f"{self._rank:04}_{self._batches:08}.arrow"
        write_batches(file, [to_batch(texts, keep(logits, lengths), about)])
        self._batches += 1

    def finish(self) -> None:
        """Write the batches of all ranks to one file; call it on one rank."""
        files = sorted(self._parts.glob("*.arrow"))
        write_batches(self._file, (LogProbsFile(file).batch(0) for file in files))
        shutil.rmtree(self._parts)


def content_of_splits(indices: Mapping[str, Index]) -> dict[str, str]:
    """Return a digest of the rows of each split."""
    return {
        name: index.digest(np.arange(len(index), dtype=np.int32)) for name, index in indices.items()
    }


def find_kept(selection: Selection, content: Mapping[str, str]) -> LogProbsFile | None:
    """Open what greedy's evaluation kept, if it depends on the same as the ``selection``."""
    file = selection.greedy_dir / LOG_PROBS
    if not file.is_file():
        return None
    try:
        kept = LogProbsFile(file)
    except LogProbsError as error:
        log.warning("{}", error)
        return None
    about = selection.dependencies(content)
    if changes := [key for key, value in about.items() if kept.about.get(key) != value]:
        log.warning("{} is of another evaluation ({} changed).", file, ", ".join(changes))
        return None
    return kept


class DecoderSpec(NamedTuple):
    """What another process needs to create a decoder; it is hashable."""

    name: str
    config: str  # JSON
    tokenizer: str  # name or file
    cards: tuple[Path, ...]  # directories with the tokenizer's card


@lru_cache(maxsize=1)
def open_decoder(spec: DecoderSpec) -> Decoder:
    """Create a decoder, once per process."""
    tokenizer = open_tokenizer(spec.tokenizer, spec.cards)
    return make_decoder(spec.name, json.loads(spec.config), tokenizer)


@lru_cache(maxsize=1)
def _open_likelihood(spec: DecoderSpec) -> Likelihood:
    return Likelihood(open_tokenizer(spec.tokenizer, spec.cards))


def decode_kept(
    kept: LogProbsFile | Ensemble, selection: Selection, rows: Mapping[str, int]
) -> None:
    """Decode all utterances of a file, or of several models, over processes; write the results.

    ``rows`` are the number of each split's rows.

    Raises:
        TaskStopException: A signal or the time limit stopped it; nothing is written.
    """
    config, directory = selection.config, selection.output_dir
    configure_rich_logging()
    configure_console()
    if isinstance(kept, Ensemble) and (warning := kept.agreement().warning()):
        log.warning("{}", warning)
    files = " and ".join(map(str, kept.paths))
    log.info("Decoding the log-probabilities in {}; the model does not run.", files)
    publish_text(directory / CONFIG_FILE, to_yaml(unstructure(config)))
    tokenizer = str(config.tokenizer.path or config.tokenizer.name)
    cards, decoder_config = config.common.assets.extra_paths, json.dumps(config.decoder.config)
    spec = DecoderSpec(config.decoder.name, decoder_config, tokenizer, tuple(cards))
    decoder = open_decoder(spec)
    _open_once.cache_clear()  # a file may have been written again in this process
    end = time.monotonic() + 60 * (config.trainer.max_wall_minutes or inf)
    predictions = _decode_all(kept, spec, sum(rows.values()), end)
    rates = ErrorRates(tuple(rows) if len(rows) > 1 else (), config.regime.score_profile)
    rates.update(
        [row.reference for row in predictions],
        [row.hypothesis for row in predictions],
        [{str(row.split)} & {*rates.groups} for row in predictions],
    )
    lines = "\n".join(table(rates.compute(), rates.groups))
    log.info("Evaluation, text profile {}\n{}", config.regime.score_profile, lines)
    about = selection.about(decoder, rows)
    about["content"] = kept.about["rows"]
    about["log_probs"] = os.path.relpath(kept.path, directory)
    for member, file in zip(about.get("with", []), kept.paths[1:], strict=True):
        member["log_probs"] = os.path.relpath(file, directory)
    publish_predictions(directory, predictions, about)


def _decode_all(
    kept: LogProbsFile | Ensemble, spec: DecoderSpec, rows: int, end: float
) -> list[Prediction]:
    stop_requests, predictions = list[bool](), list[Prediction]()
    task = partial(_decode_batch, kept.paths, spec)
    with (
        on_stop_signals(lambda: stop_requests.append(True)),
        closing(_results(task, len(kept))) as batches,
    ):
        for batch in watch("decoded", batches, _measure, rows):
            predictions += batch
            if stop_requests or time.monotonic() > end:
                log_stop(len(predictions), rows)
                raise TaskStopException
    return predictions


def _results(
    task: Callable[[int], list[Prediction]], count: int
) -> Generator[list[Prediction], None, None]:
    """Run the task for so many numbers: some seconds in this process, the rest in others."""
    begin, numbers = time.monotonic(), list(range(count))
    while numbers and time.monotonic() - begin < SECONDS_ALONE:
        yield task(numbers.pop(0))
    with closing(run_in_processes(task, numbers, usable_cpus())) as batches:
        yield from batches


_open_once = lru_cache(maxsize=1)(open_kept)  # per process: reading where rows are takes time


def _decode_batch(files: tuple[Path, ...], spec: DecoderSpec, number: int) -> list[Prediction]:
    kept, decoder, predictions = _open_once(files), open_decoder(spec), []
    likelihood = _open_likelihood(spec)
    for text, log_probs in kept.log_probs(number):
        batch = log_probs[None], [len(log_probs)]
        hypotheses = decode(decoder, *batch)
        (confidence,) = likelihood.confidences(*batch, hypotheses)
        row = json.loads(text) | {"hypothesis": hypotheses[0], "confidence": confidence}
        if len(files) > 1:
            row["loss"] = None  # that of the first model alone
        predictions.append(from_row(row, str(files[0])))
    return predictions


def _measure(batch: Sequence[Prediction]) -> tuple[int, int]:
    return len(batch), round(sum(row.duration or 0 for row in batch) * SAMPLE_RATE)


def find_dev_log_probs(directory: Path) -> DevLogProbs:
    """Find the log-probabilities of dev in a run, or in the directory of an evaluation.

    Raises:
        LogProbsError: There are none of dev, or several, or they are of another checkpoint.
    """
    run = directory = directory.expanduser()
    paths = sorted(directory.glob(f"eval/*/*/{LOG_PROBS}"))
    if (directory / LOG_PROBS).is_file():
        run, paths = directory.resolve().parents[2], [directory / LOG_PROBS]
    files = [LogProbsFile(path) for path in paths]
    of_dev = [file for file in files if _is_dev(str(file.about["evaluator"]["split"]))]
    if len(of_dev) != 1:
        folders = ", ".join(str(path.parent) for path in paths) or "none"
        raise LogProbsError(
            f"{directory}: expected one evaluation with log-probabilities of dev (a model knows "
            "train, and scores on test would then describe the tuning), found those in: "
            f"{folders}. Name one OUTDIR/eval/<checkpoint>/<split>, or run: {keep_command(run)}"
        )
    (file,) = of_dev
    evaluation, run = file.path.parent, file.path.resolve().parents[3]
    model, scored = str(file.about["model"]["name"]), file.about["evaluator"]
    if scored["checkpoint"] == "best" and (run / CHECKPOINTS).is_dir():
        step = best_step(run)
        if step is not None and model != f"checkpoint_step_{step}":
            raise LogProbsError(
                f"{evaluation}: the log-probabilities are of {model}, but the best checkpoint is "
                f"now step {step}; run: {keep_command(run)}"
            )
    tokenizer = _tokenizer(evaluation, run, file.about)
    return DevLogProbs(file, run, model, str(scored["split"]), tokenizer)


def _is_dev(split: str) -> bool:
    beginnings = {name.partition("_")[0] for name in names_of_splits(split)}
    return beginnings.isdisjoint({"test", "train"})


def _tokenizer(evaluation: Path, run: Path, about: Mapping[str, Any]) -> Tokenizer:
    # The run's own card has a copy of the tokenizer beside it, also where the run was moved.
    for card in sorted((run / CARDS_DIR).glob("*.yaml")):
        if "tokenizer_family" in read_yaml(card):
            return open_tokenizer(card.stem, [card.parent])
    section, config = about["tokenizer"], read_yaml(evaluation / CONFIG_FILE)
    folders = value_of(config, "common.assets.extra_paths") or ()
    return open_tokenizer(str(section["path"] or section["name"]), [Path(path) for path in folders])
