"""``danish-asr lm tune``: alpha, beta and beam of a language model, chosen on the dev split.

Each point is decoded from kept log-probabilities; the model does not run. What was tried is in
``tuning.json`` beside the language model, so an interrupted search continues.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from danish_asr.base.errors import DanishAsrError, LanguageModelError
from danish_asr.base.files import publish_text
from danish_asr.base.lease import take
from danish_asr.base.progress import Progress
from danish_asr.base.workers import WorkerPool
from danish_asr.decoding.beam import BeamDecoder
from danish_asr.decoding.language_model.dev_log_probs import DevLogProbs, find_dev_log_probs
from danish_asr.decoding.language_model.search import (
    Point,
    Trial,
    Trials,
    Tuning,
    Utterance,
    decode_chunk,
    search_weights,
)
from danish_asr.decoding.language_model.tuning_report import print_tuning, save_plot
from danish_asr.decoding.ngram import HELD_OUT, NOTHING_HELD_OUT, SETTINGS_FILE, find_language_model
from danish_asr.metrics import ErrorCounts, count_errors
from danish_asr.text.profiles import normalize

TUNING: Final = "tuning.json"
PLOT: Final = "tuning.png"

_FEW: Final = 100
"""Utterances below which the choice is uncertain."""

_FRAMES_PER_CHUNK: Final = 3_000
"""A minute of audio: so much of a point is decoded by one process at a time."""


def tune_language_model(
    where: Path,
    lm: Path,
    *,
    profile: str = "coral",
    rows: int = 1000,
    workers: int,
    json_path: Path | None = None,
    plot_path: Path | None = None,
    console: Console | None = None,
) -> Tuning:
    """Search the values with the lowest WER on dev, print them, and write them to ``lm.json``.

    ``where`` is a run or the results of an evaluation of dev. About ``rows`` of its utterances are
    decoded, at even distances. One search of a language model runs at a time.

    Raises:
        LogProbsError: No log-probabilities were kept there, or they are not for tuning.
        LanguageModelError: The language model is broken, does not fit the model or is being tuned.
    """
    console = console or Console()
    files, dev = find_language_model(lm), find_dev_log_probs(where)
    advice = "Another search of this language model runs; wait for its end."
    lease = take(files.file.parent, error=LanguageModelError, advice=advice, work="tuning")
    try:
        decoder = BeamDecoder(dev.tokenizer, lm, workers=1)
        json_path = json_path or files.file.with_name(TUNING)
        rows_in_split = sum(len(dev.file.rows(number)) for number in range(len(dev.file)))
        utterances, greedy = _read(dev, decoder, profile, max(rows_in_split / rows, 1.0))
        frames = sum(len(each.columns.values) for each in utterances)
        about = {
            "run": dev.run.name,
            "model": dev.model,
            "split": dev.split,
            "rows": len(utterances),
            "rows_in_split": rows_in_split,
            "profile": profile,
            "language_model": files.file.name,
            "language_model_size": files.file.stat().st_size,
            "log_probs": dict(dev.file.about),
        }
        pool = WorkerPool(workers)
        trials = Trials(
            partial(decode_chunk, decoder.search_settings, profile),
            [*_chunks(utterances)],
            pool,
            done=_earlier(json_path, about),
            save=lambda: _save(json_path, about, trials.found.values()),
        )
        if trials.found:
            console.print(f"{len(trials.found)} points were tried before ({json_path})")
        with Progress("searching", console=console) as progress:
            trials.progress = lambda what, done, total: progress.update(
                done, text=f"{what}  {_best(trials)}", total=total
            )
            chosen = search_weights(trials)
        pool.close()
        tuning = Tuning(about, greedy, [*trials.found.values()], chosen, frames / 50)
        _save(json_path, about, tuning.trials, chosen=chosen.to_row(), greedy_wer=greedy.wer())
        _keep(files.file.with_name(SETTINGS_FILE), files.settings, tuning, dev.run)
        print_tuning(tuning, console)
        if len(utterances) < _FEW:
            console.print(
                f"warning: {len(utterances)} utterances are few; the chosen values are uncertain"
            )
        if files.settings.get(HELD_OUT) == 0:
            console.print(f"warning: {NOTHING_HELD_OUT}", soft_wrap=True)
        plot_path = plot_path or files.file.with_name(PLOT)
        save_plot(tuning, plot_path)
        for file in (files.file.with_name(SETTINGS_FILE), json_path, plot_path):
            console.print(f"wrote {file}", soft_wrap=True, highlight=False)
        return tuning
    finally:
        lease.release()


def _read(
    dev: DevLogProbs, decoder: BeamDecoder, profile: str, step: float
) -> tuple[list[Utterance], ErrorCounts]:
    """Return an utterance of each ``step``, at even distances, and the errors of greedy."""
    kept = (pair for number in range(len(dev.file)) for pair in dev.file.utterances(number))
    found, greedy = list[Utterance](), ErrorCounts()
    for place, (text, frames) in enumerate(kept):
        if place < int(len(found) * step):
            continue
        log_probs, row = frames.log_probs(dev.file.about["vocabulary"]), json.loads(text)
        columns = decoder.columns(log_probs[None], [len(log_probs)])[0]
        reference = normalize(row["reference"], profile)
        found.append(Utterance(columns, reference))
        greedy += count_errors(reference, normalize(row["hypothesis"], profile))
    return found, greedy


def _chunks(utterances: Sequence[Utterance]) -> Iterator[list[Utterance]]:
    chunk, frames = list[Utterance](), 0
    for each in utterances:
        chunk.append(each)
        frames += len(each.columns.values)
        if frames >= _FRAMES_PER_CHUNK:
            yield chunk
            chunk, frames = [], 0
    if chunk:
        yield chunk


def _earlier(file: Path, about: Mapping[str, Any]) -> list[Trial]:
    """Return the trials of an earlier start, if they are of the same search."""
    if not file.is_file():
        return []
    try:
        found = json.loads(file.read_text("utf-8"))
        same = found["about"] == json.loads(json.dumps(about))
        return [Trial.from_row(row) for row in found["trials"]] if same else []
    except (ValueError, TypeError, KeyError) as error:
        raise DanishAsrError(f"{file}: is no earlier tuning ({error!r}); name another") from error


def _save(file: Path, about: Mapping[str, Any], trials: Any, **more: Any) -> None:
    found = {"about": about, **more, "trials": [trial.to_row() for trial in trials]}
    publish_text(file, json.dumps(found, ensure_ascii=False, indent=1) + "\n")


def _keep(file: Path, settings: Mapping[str, Any], tuning: Tuning, run: Path) -> None:
    """Write the chosen values into ``lm.json``, from where `BeamDecoder` takes them."""
    names = ("model", "split", "rows", "profile")
    tuned = {"run": str(run)} | {name: tuning.about[name] for name in names}
    tuned |= {"wer": tuning.chosen.errors.wer(), "cer": tuning.chosen.errors.cer()}
    found = {**settings, **tuning.chosen.point._asdict(), "tuned": tuned}
    publish_text(file, json.dumps(found, ensure_ascii=False, indent=2) + "\n")


def _best(trials: Trials) -> str:
    if not trials.found:
        return ""
    best = min(trials.found.values(), key=lambda trial: trial.errors.words.errors)
    return f"best WER {best.errors.wer():.2%}: {describe(best.point)}"


def describe(point: Point) -> str:
    """Return the values as text."""
    return f"alpha {point.alpha:g}, beta {point.beta:g}, beam {point.beam}"
