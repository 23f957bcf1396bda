"""``danish-asr lm tune``: alpha and beta of a language model, chosen on the dev split.

The model runs once over dev; each point of a grid is decoded from the log-probabilities that it
gave. The best values are written to the ``lm.json`` of the language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from danish_asr.base.config_tree import value_of
from danish_asr.base.errors import ConfigError
from danish_asr.base.files import publish_json
from danish_asr.base.progress import Progress, plain_console
from danish_asr.decoding.beam import BeamDecoder
from danish_asr.decoding.beam_settings import SearchSettings
from danish_asr.decoding.ctc import GreedyDecoder
from danish_asr.decoding.ngram import HELD_OUT, NOTHING_HELD_OUT, SETTINGS_FILE, find_language_model
from danish_asr.inference.model import Model, load_model
from danish_asr.inference.run_facts import Row, dataset_of, read_rows, run_of
from danish_asr.metrics import ErrorCounts, count_errors
from danish_asr.text.profiles import normalize

ALPHAS: Final = (0.0, 0.15, 0.3, 0.45, 0.6, 0.9, 1.2)
BETAS: Final = (-1.0, 0.0, 1.0, 2.0, 3.0)
NARROW: Final = 25
"""The beam while alpha and beta are searched; a quarter of the time of 100."""

_AT_ONCE: Final = 64
"""Rows that are read before the model runs."""


class Trial(NamedTuple):
    """Values of a beam search, and the errors that they give."""

    settings: SearchSettings
    errors: ErrorCounts


def tune_language_model(
    directory: Path,
    lm: Path,
    *,
    profile: str = "coral",
    rows: int = 1000,
    workers: int | None = None,
    dataset: Path | None = None,
) -> Trial:
    """Search the values with the lowest WER on dev, print them, and write them to ``lm.json``.

    Args:
        directory: A run, whose best checkpoint is taken, or one of its checkpoints.
        lm: The directory of the language model.
        profile: Text profile of the error rates.
        rows: Utterances that are decoded, at even distances.
        workers: Processes; None: all CPUs.
        dataset: Root of a built dataset; None: that of the run.

    Raises:
        ConfigError: It is no run, it validates on test or train, or its data is gone.
        LanguageModelError: The language model is broken or does not fit the model.
    """
    run, config = run_of(directory)
    splits = str(value_of(config, "dataset.valid_split") or "dev").split(",")
    if {name.partition("_")[0] for name in splits} & {"test", "train"}:
        rule = "a model knows train, and scores on test would describe the tuning"
        raise ConfigError(
            [f"dataset.valid_split must be of dev, but is {','.join(splits)}: {rule}"]
        )
    files = find_language_model(lm)
    model = load_model(directory)
    decoder = BeamDecoder(model.tokenizer, lm, workers=workers)
    spoken = [*read_rows(dataset or dataset_of(config), splits, rows)]
    references = [normalize(row.text, profile) for row in spoken]

    def errors_of(texts: Sequence[str]) -> ErrorCounts:
        errors = ErrorCounts()
        for reference, text in zip(references, texts, strict=True):
            errors += count_errors(reference, normalize(text, profile))
        return errors

    utterances, greedy = _hear(model, decoder, spoken)
    points = [*product(ALPHAS, BETAS)]
    with Progress("searching", len(points) + 1) as progress:

        def attempt(alpha: float, beta: float, beam: int) -> Trial:
            progress.advance(f"alpha {alpha:g}, beta {beta:g}")
            settings = replace(decoder.search_settings, alpha=alpha, beta=beta, beam=beam)
            texts = [best[0].text for best in decoder.search(utterances, settings)]
            return Trial(settings, errors_of(texts))

        best = min((attempt(*point, NARROW) for point in points), key=_merit).settings
        chosen = attempt(best.alpha, best.beta, decoder.search_settings.beam)
    values = {"alpha": best.alpha, "beta": best.beta}
    tuned = {"run": str(run), "splits": splits, "rows": len(spoken), "profile": profile}
    tuned |= {"wer": chosen.errors.wer(), "cer": chosen.errors.cer()}
    path = files.file.with_name(SETTINGS_FILE)
    publish_json(path, {**files.settings, **values, "tuned": tuned})

    console = plain_console()
    shown = ", ".join(f"{name} {value:g}" for name, value in values.items())
    console.print(f"{len(spoken)} utterances, text profile {profile}; chosen: {shown}")
    table = Table("decoder", "WER %", "CER %", box=SIMPLE_HEAD)
    for name, errors in (("greedy", errors_of(greedy)), ("beam", chosen.errors)):
        table.add_row(name, f"{100 * errors.wer():.2f}", f"{100 * errors.cer():.2f}")
    console.print(table)
    # There is no alpha below 0.
    for name, ends in (("alpha", ALPHAS[-1:]), ("beta", (BETAS[0], BETAS[-1]))):
        if values[name] in ends:
            fix = f"compare others on dev: decoder.config.{name}=VALUE"
            console.print(f"warning: {name} {values[name]:g} is an end of what was tried; {fix}")
    if files.settings.get(HELD_OUT) == 0:
        console.print(f"warning: {NOTHING_HELD_OUT}")
    console.print(f"wrote {path}")
    return chosen


def _hear(model: Model, decoder: BeamDecoder, rows: Sequence[Row]) -> tuple[list[Any], list[str]]:
    """Return what the model hears in rows, as the search takes it, and greedy texts."""
    greedy = GreedyDecoder(model.tokenizer)
    utterances, texts = list[Any](), list[str]()
    with Progress("listening", len(rows)) as progress:
        for start in range(0, len(rows), _AT_ONCE):
            log_probs = model.log_probs([row.waveform for row in rows[start : start + _AT_ONCE]])
            utterances += [decoder.columns(frames) for frames in log_probs]
            texts += greedy(log_probs)
            progress.update(len(texts))
    return utterances, texts


def _merit(trial: Trial) -> tuple[float, ...]:
    """The fewest word errors; of equals, the fewest character errors and the smallest weights."""
    errors, settings = trial.errors, trial.settings
    return errors.words.errors, errors.characters.errors, settings.alpha, abs(settings.beta)
