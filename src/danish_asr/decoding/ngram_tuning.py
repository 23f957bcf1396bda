"""``danish-asr lm tune``: alpha, beta and beam of a language model, chosen on the dev split.

The model runs once over dev; each point is decoded from the log-probabilities that it gave. What
was tried is in ``tuning.json`` beside the language model, so an interrupted search continues.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from fairseq2.data.tokenizers import Tokenizer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from torch import Tensor

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.files import publish, publish_json
from danish_asr.base.progress import Progress
from danish_asr.base.workers import WorkerPool
from danish_asr.decoding.beam import BeamDecoder
from danish_asr.decoding.ngram import HELD_OUT, NOTHING_HELD_OUT, SETTINGS_FILE, find_language_model
from danish_asr.metrics import ErrorCounts, count_errors
from danish_asr.scoring.predictions import Prediction
from danish_asr.text.profiles import normalize

ALPHAS: Final = (0.0, 0.3, 0.6, 0.9, 1.2)
BETAS: Final = (-1.0, 0.0, 1.0, 2.0, 3.0)
_STEPS: Final = ((0.15, 0.5), (0.08, 0.25))
"""Steps of alpha and beta around the best point so far; it moves until no neighbour is better."""

_MOST_MOVES: Final = 6
WEIGHTS_BEAM: Final = 25
"""The beam while alpha and beta are searched; a quarter of the time of 100."""

BEAMS: Final = (10, 25, 50, 100, 200)
ENOUGH: Final = 0.0005
"""The narrowest beam is taken whose WER is at most this much above the lowest."""

_FEW: Final = 100
"""Utterances below which the choice is uncertain."""

_FRAMES_PER_SECOND: Final = 50
_FRAMES_PER_CHUNK: Final = 60 * _FRAMES_PER_SECOND
"""So much of a point is decoded by one process at a time."""

_CHOSEN: Final[dict[str, Any]] = {"ms": 13, "mfc": "none", "mec": "C3", "mew": 2, "zorder": 3}


AddBatch = Callable[[Sequence[Prediction], Sequence[Tensor]], None]
"""Takes rows with greedy's hypotheses, and the log-probabilities of each, (S, V)."""


@dataclass(frozen=True, kw_only=True)
class DevSplit:
    """A split to tune on, and the model that hears it."""

    run: Path
    model: str
    weights: str  # a digest
    split: str
    rows: int
    tokenizer: Tokenizer
    forward: Callable[[AddBatch], None]
    """Runs the model over all rows, and calls a function with each batch of them."""


class Point(NamedTuple):
    """Values of a beam search."""

    alpha: float
    beta: float
    beam: int


class Trial(NamedTuple):
    """What the values gave: errors, and processor seconds of the search."""

    point: Point
    errors: ErrorCounts
    seconds: float


@dataclass(frozen=True)
class Tuning:
    """The result of a search: its trials, the chosen one and the error counts of greedy."""

    about: Mapping[str, Any]
    greedy: ErrorCounts
    trials: Mapping[Point, Trial]
    chosen: Trial
    seconds: float  # of audio

    def of_beams(self) -> list[Trial]:
        """The trials of all beams at the chosen weights."""
        return [self.trials[self.chosen.point._replace(beam=beam)] for beam in BEAMS]


class Search:
    """Tries points on the same utterances; ``file`` keeps the trials for a later start."""

    def __init__(
        self, chunks: Sequence[Any], pool: WorkerPool, file: Path, about: Mapping[str, Any]
    ) -> None:
        self._chunks, self._pool, self._file, self._about = chunks, pool, file, about
        self.trials = {trial.point: trial for trial in _earlier_trials(file, about)}

    def run(self, progress: Progress) -> Trial:
        """Search alpha and beta coarse to fine, then the beam; returns the best trial."""
        grid = product(ALPHAS, BETAS)
        self._try([Point(alpha, beta, WEIGHTS_BEAM) for alpha, beta in grid], progress)
        for alpha_step, beta_step in _STEPS:
            for _ in range(_MOST_MOVES):
                best = self._best_weights()
                self._try(_neighbours(best, alpha_step, beta_step), progress)
                if self._best_weights() == best:
                    break
        of_beams = [self._best_weights()._replace(beam=beam) for beam in BEAMS]
        self._try(of_beams, progress)
        rates = {point: self.trials[point].errors.wer() for point in of_beams}
        limit = min(rates.values()) + ENOUGH
        narrowest = next(point for point in of_beams if rates[point] <= limit)
        return self.trials[narrowest]

    def save(self, **more: Any) -> None:
        """Write the trials so far."""
        rows = [_to_row(trial) for trial in self.trials.values()]
        publish_json(self._file, {"about": self._about, **more, "trials": rows})

    def _try(self, points: Iterable[Point], progress: Progress) -> None:
        """Try the points that were not tried, in worker processes."""
        from danish_asr.decoding.beam_search import count_chunk  # noqa: PLC0415

        new = [point for point in dict.fromkeys(points) if point not in self.trials]
        progress.update(0, total=len(new))
        with self._pool.killed_on_error():
            running = {}
            for point in new:
                settings = replace(self._chunks[0].settings, **point._asdict())
                tasks = [chunk._replace(settings=settings) for chunk in self._chunks]
                running[point] = [self._pool.submit(count_chunk, task) for task in tasks]
            for point, futures in running.items():
                errors, seconds = ErrorCounts(), 0.0
                for future in futures:
                    chunk_errors, chunk_seconds = future.result()
                    errors, seconds = errors + chunk_errors, seconds + chunk_seconds
                progress.advance(f"alpha {point.alpha:g}, beta {point.beta:g}, beam {point.beam}")
                self.trials[point] = Trial(point, errors, seconds)
                self.save()

    def _best_weights(self) -> Point:
        """The point with the fewest word errors; of equals, the fewest character errors."""

        def merit(trial: Trial) -> tuple[float, ...]:
            errors, point = trial.errors, trial.point
            return errors.words.errors, errors.characters.errors, point.alpha, abs(point.beta)

        trials = [x for x in self.trials.values() if x.point.beam == WEIGHTS_BEAM]
        return min(trials, key=merit).point


def _neighbours(point: Point, alpha_step: float, beta_step: float) -> Iterator[Point]:
    for alpha_change in (-alpha_step, 0.0, alpha_step):
        for beta_change in (-beta_step, 0.0, beta_step):
            alpha = round(point.alpha + alpha_change, 3)
            if alpha >= 0:
                yield Point(alpha, round(point.beta + beta_change, 3), point.beam)


def tune_language_model(
    dev: DevSplit,
    lm: Path,
    *,
    profile: str = "coral",
    rows: int = 1000,
    workers: int,
    json_path: Path | None = None,
    plot_path: Path | None = None,
) -> Tuning:
    """Search the values with the lowest WER on dev, print them, and write them to ``lm.json``.

    About ``rows`` utterances are decoded, at even distances.

    Raises:
        LanguageModelError: The language model is broken or does not fit the model.
        MissingExtraError: pyctcdecode or KenLM are not installed.
    """
    console = Console(highlight=False, soft_wrap=True)
    files = find_language_model(lm)
    settings_path = files.file.with_name(SETTINGS_FILE)
    json_path = json_path or files.file.with_name("tuning.json")
    plot_path = plot_path or files.file.with_name("tuning.png")
    chunks, greedy, about = _hear(dev, BeamDecoder(dev.tokenizer, lm, workers=1), profile, rows)
    about |= {"language_model": files.file.name, "language_model_size": files.file.stat().st_size}
    pool = WorkerPool(workers)
    search = Search(chunks, pool, json_path, about)
    if search.trials:
        console.print(f"{len(search.trials)} points were tried before ({json_path})")
    with Progress("searching", console=console) as progress:
        chosen = search.run(progress)
    pool.close()
    frames = sum(len(columns.values) for chunk in chunks for columns in chunk.utterances)
    tuning = Tuning(about, greedy, search.trials, chosen, frames / _FRAMES_PER_SECOND)
    search.save(chosen=_to_row(chosen), greedy_wer=greedy.wer())
    tuned: dict[str, Any] = {"run": str(dev.run)}
    tuned |= {name: about[name] for name in ("model", "split", "rows", "profile")}
    tuned |= {"wer": chosen.errors.wer(), "cer": chosen.errors.cer()}
    publish_json(settings_path, {**files.settings, **chosen.point._asdict(), "tuned": tuned})
    _print(tuning, console)
    if files.settings.get(HELD_OUT) == 0:
        console.print(f"warning: {NOTHING_HELD_OUT}")
    _save_plot(tuning, plot_path)
    for path in (settings_path, json_path, plot_path):
        console.print(f"wrote {path}")
    return tuning


def _hear(
    dev: DevSplit, decoder: BeamDecoder, profile: str, most_rows: int
) -> tuple[list[Any], ErrorCounts, dict[str, Any]]:
    """Run the model over dev.

    Returns the utterances in chunks for `count_chunk`, the errors of greedy, and what they are of.
    """
    from danish_asr.decoding.beam_search import Chunk  # noqa: PLC0415 - pyctcdecode is an extra

    step = max(dev.rows / most_rows, 1.0)
    chunks = [Chunk(decoder.search_settings, profile, [], [])]
    greedy, taken = ErrorCounts(), list[Prediction]()
    position = frames_in_chunk = 0

    def add(rows: Sequence[Prediction], log_probs: Sequence[Tensor]) -> None:
        nonlocal greedy, position, frames_in_chunk
        for row, frames in zip(rows, log_probs, strict=True):
            position += 1
            if position <= int(len(taken) * step):
                continue
            taken.append(row)
            if frames_in_chunk >= _FRAMES_PER_CHUNK:
                chunks.append(Chunk(decoder.search_settings, profile, [], []))
                frames_in_chunk = 0
            # Of a vocabulary of 10,000 symbols, this keeps about a hundred.
            columns = decoder.columns(frames[None], [len(frames)])[0]
            reference = normalize(row.reference, profile)
            chunks[-1].utterances.append(columns)
            chunks[-1].references.append(reference)
            greedy += count_errors(reference, normalize(row.hypothesis, profile))
            frames_in_chunk += len(frames)

    dev.forward(add)
    about: dict[str, Any] = {
        "run": dev.run.name,
        "model": dev.model,
        "weights": dev.weights,
        "split": dev.split,
        "rows": len(taken),
        "rows_in_split": dev.rows,
        "profile": profile,
        "rows_sha256": _digest(taken),
    }
    return chunks, greedy, about


def _digest(rows: Sequence[Prediction]) -> str:
    texts = [[row.id, row.reference, row.hypothesis] for row in rows]
    return sha256(json.dumps(texts).encode()).hexdigest()


def _earlier_trials(file: Path, about: Mapping[str, Any]) -> Iterator[Trial]:
    """Yield the trials of an earlier start, if they are of the same search."""
    if not file.is_file():
        return
    try:
        earlier = json.loads(file.read_text("utf-8"))
        if earlier["about"] == json.loads(json.dumps(about)):
            for row in earlier["trials"]:
                point = Point(row["alpha"], row["beta"], row["beam"])
                yield Trial(point, ErrorCounts.from_tuple(row["counts"]), row["cpu_seconds"])
    except (ValueError, TypeError, KeyError) as error:
        raise DanishAsrError(f"{file}: is no earlier tuning ({error!r}); name another") from error


def _to_row(trial: Trial) -> dict[str, Any]:
    errors = trial.errors
    row = {**trial.point._asdict(), "wer": errors.wer(), "cer": errors.cer()}
    return row | {"cpu_seconds": round(trial.seconds, 3), "counts": errors.to_tuple()}


def _print(tuning: Tuning, console: Console) -> None:
    """Print greedy beside the beams at the best weights; the plot has the other points."""
    about, chosen = tuning.about, tuning.chosen.point
    console.print(
        f"{about['rows']} of {about['rows_in_split']} utterances of {about['split']}, "
        f"{tuning.seconds / 60:.1f} minutes; {len(tuning.trials)} points; text profile "
        f"{about['profile']}; alpha {chosen.alpha:g}, beta {chosen.beta:g}"
    )
    if about["rows"] < _FEW:
        console.print(f"warning: {about['rows']} utterances are few; the choice is uncertain")
    table = Table("decoder", box=SIMPLE_HEAD)
    for heading in ("WER %", "CER %", "CPU ms per s"):
        table.add_column(heading, justify="right")
    table.add_row("greedy", f"{100 * tuning.greedy.wer():.2f}", f"{100 * tuning.greedy.cer():.2f}")
    for trial in tuning.of_beams():
        mark = " (chosen)" if trial.point == chosen else ""
        rates = (f"{100 * trial.errors.wer():.2f}", f"{100 * trial.errors.cer():.2f}")
        cost = f"{1000 * trial.seconds / tuning.seconds:.1f}"
        table.add_row(f"beam {trial.point.beam}{mark}", *rates, cost)
    console.print(table)


def _save_plot(tuning: Tuning, file: Path) -> None:
    """Write the plot: WER over alpha and beta, and over the beam; the suffix says the format."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow

    best, about = tuning.chosen.point, tuning.about
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    trials = [trial for trial in tuning.trials.values() if trial.point.beam == WEIGHTS_BEAM]
    rates = [100 * trial.errors.wer() for trial in trials]
    alphas, betas = [x.point.alpha for x in trials], [x.point.beta for x in trials]
    # Without a language model (alpha 0) the rates are far from the others.
    most = min(max(rates), 2 * min(rates)) or None
    dots = left.scatter(alphas, betas, c=rates, vmax=most, cmap="viridis", s=60, zorder=2)
    figure.colorbar(dots, ax=left, label="WER %", extend="max")
    left.plot(best.alpha, best.beta, "o", **_CHOSEN)
    left.set(xlabel="alpha", ylabel="beta", title=f"beam {WEIGHTS_BEAM}")
    rates = [100 * trial.errors.wer() for trial in tuning.of_beams()]
    right.plot(BEAMS, rates, "o-", color="C0", label="with the language model")
    right.plot(best.beam, rates[BEAMS.index(best.beam)], "o", label="chosen", **_CHOSEN)
    right.axhline(100 * tuning.greedy.wer(), color="0.4", ls="--", lw=1, label="greedy")
    right.set_xscale("log")
    right.set_xticks(BEAMS, [str(beam) for beam in BEAMS], minor=False)
    right.minorticks_off()
    right.set(xlabel="beam", ylabel="WER %", title=f"alpha {best.alpha:g}, beta {best.beta:g}")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside lower right", ncols=3, fontsize=8)  # inside it may hide the curve
    title = f"{about['language_model']} on {about['split']} of {about['run']} ({about['model']})"
    figure.suptitle(title, fontsize=10, parse_math=False)
    with publish(file) as stream:
        figure.savefig(stream, format=file.suffix.removeprefix(".") or "png", dpi=150)
