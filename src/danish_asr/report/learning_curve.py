"""``danish-asr advise --learning-curve``: what more hours of training are expected to give."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Final

from rich.console import Console

from danish_asr.base.errors import RunError
from danish_asr.recipe.run.advice import SATURATED
from danish_asr.recipe.run.run_directory import (
    EVALUATION,
    PREDICTIONS,
    TRAINING_DATA,
    evaluation_of,
    read_evaluation,
)
from danish_asr.report import wording
from danish_asr.report.run_advice import SEED, SHARE
from danish_asr.report.run_history import COMPLETE, History
from danish_asr.report.run_table import Runs
from danish_asr.report.tables import light_table, print_table, say, warn
from danish_asr.scoring.intervals import Estimate
from danish_asr.scoring.learning_curve import (
    FEWEST,
    LearningCurve,
    TrainedRun,
    learning_curves,
    resamples_runs,
)
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.scored_rows import score_rows
from danish_asr.scoring.settings import Settings

_FAR: Final = 1.15
"""A point that is this factor from the curve is not on it."""

_SPAN: Final = 4
"""The least factor between the least and the most hours."""

_BENT: Final = 0.5
"""The curve flattens if its last part has less than this part of the exponent."""


def report_learning_curve(root: Path, console: Console | None = None) -> None:
    """Fit curves to the evaluated runs of a sweep over ``dataset.train_share``, and print them.

    Raises:
        RunError: There are too few shares, or runs that are not evaluated on one split.
        PredictionsError: An evaluation cannot be scored, or has other rows.
    """
    console, settings, listed = console or Console(), Settings(), Runs(root)
    if others := [key for key in listed.keys if key not in {SHARE, SEED}]:
        warn(f"the runs also differ in {', '.join(others)}, which the curve mixes in", console)
    finished = [history for history in listed.histories if history.state == COMPLETE]
    if left_out := [row.name for row in listed.rows if row.history not in finished]:
        warn(f"runs that are not finished are left out: {', '.join(left_out)}", console)
    shares = {_share(history) for history in finished}
    if len(shares) < FEWEST:
        raise RunError(
            f"{root}: runs on {len(shares)} shares of the training data; a curve needs {FEWEST}: "
            f"danish-asr sweep {quote(str(root))} -c FILE --over {SHARE}=0.1,0.3,1.0"
        )
    split = _common_split(root, [history.run for history in finished])
    runs = [_read(history, split, settings) for history in finished]
    if len(hours := {run.hours for run in runs}) < FEWEST:
        raise RunError(
            f"{root}: the shares have {len(hours)} different numbers of hours, as a row is in a "
            f"share or not; a curve needs {FEWEST}: choose shares that are further apart"
        )
    curves = [*learning_curves(runs, settings, "dialect")]
    say(f"WER on {split} of {len(runs)} runs, profile {settings.profile}", console)
    _print(curves, console)
    speakers = f"the {curves[0].speakers} speakers of {split}"
    if resamples_runs(runs):
        covered = f"for other speakers than {speakers}, and for other runs on other speakers"
    else:
        covered = (
            f"for other speakers than {speakers}, but not for other training speakers and seeds: "
            f"for them train each share more than once (--over {SEED}=1,2,3)"
        )
    say(f"95 % intervals hold {covered}. All hours are of all dialects in their shares.", console)
    for text in _advice(curves):
        say(f"advice: {text}", console)


def _common_split(root: Path, runs: Sequence[Path]) -> str:
    """Return the split on which all runs were evaluated, dev before test."""
    splits = [{*_evaluations(run)} for run in runs]
    common = set.intersection(*splits) if splits else set()
    if common:
        return min(common)
    wanted = min(set.union(*splits), default="dev")
    lacking = [run for run, own in zip(runs, splits, strict=True) if wanted not in own]
    commands = [
        f"danish-asr evaluate {quote(str(run))} evaluator.split={wanted}" for run in lacking
    ]
    raise RunError(
        "\n  ".join([f"{root}: runs that are not evaluated on {wanted} yet; run:", *commands])
    )


def _share(history: History) -> float:
    return float(history.config.get(SHARE) or 1.0)


def _evaluations(run: Path) -> dict[str, Path]:
    """Return greedy's predictions of the whole of each split by the best checkpoint."""
    found = {}
    for file in sorted(run.glob(f"eval/best/*/{EVALUATION}")):
        about = read_evaluation(file)
        if not {"decoder", "with", "where"} & {*about}:
            found[file.parent.name] = file.with_name(PREDICTIONS)
    return found


def _read(history: History, split: str, settings: Settings) -> TrainedRun:
    predictions, data = _evaluations(history.run)[split], history.run / TRAINING_DATA
    if not data.is_file():
        raise RunError(f"{history.run}: no {TRAINING_DATA}, which a run writes when it starts")
    rows = score_rows(read_predictions(predictions), by=["dialect"], settings=settings)
    evaluation_of(predictions, rows.digests)  # refuses predictions that were changed
    return TrainedRun(
        name=history.run.name,
        share=_share(history),
        hours=json.loads(data.read_text(encoding="utf-8"))["hours"],
        rows=rows,
    )


def _print(curves: Sequence[LearningCurve], console: Console) -> None:
    hours = [f"{point.hours:.3g} h" for point in curves[0].points]
    ends = ["one hour more, points", "twice the hours", "exponent"]
    headings = ["group", "rows", "speakers", *hours, *ends]
    lines: dict[str, list[list[str]]] = {}
    for number, curve in enumerate(curves):
        cells = [curve.label, wording.count(curve.rows), wording.count(curve.speakers)]
        cells += [wording.percent(point.rate) for point in curve.points]
        cells += [_cell(curve.next_hour, 100), _cell(curve.doubled, 100), _cell(curve.exponent, 1)]
        lines.setdefault("dialect" if number else "", []).append(cells)
    print_table(light_table(headings), lines, [], console)


def _cell(estimate: Estimate, unit: int) -> str:
    text = f"{unit * estimate.value:.2f}"
    if estimate.interval is None:
        return text
    low, high = estimate.interval
    return f"{text} ({unit * low:.2f} to {unit * high:.2f})"


def _advice(curves: Sequence[LearningCurve]) -> Iterator[str]:
    """Yield what the curve of all rows says, why not to trust it, and which dialects gain."""
    overall, *dialects = curves
    if overall.is_flat:
        yield (
            f"the curve is flat (exponent {_cell(overall.exponent, 1)}): more hours of the same "
            "kind gain nothing that these speakers can show; try other data, a larger model or "
            "more steps"
        )
    else:
        yield (
            f"one more hour changes the WER by {_cell(overall.next_hour, 100)} points, twice the "
            f"hours bring it to {_cell(overall.doubled, 100)} %"
        )
    if doubts := [*_doubts(overall)]:
        yield f"do not rely on it: {'; '.join(doubts)}"
    rising = [curve for curve in dialects if not curve.is_flat and curve.exponent.interval]
    if rising and len(dialects) > 1:
        most = min(rising, key=lambda curve: curve.next_hour.value)
        yield (
            f"{most.label} gains most by one more hour of all dialects, "
            f"{_cell(most.next_hour, 100)} points; an hour of one dialect alone was not tried"
        )


def _doubts(curve: LearningCurve) -> Iterator[str]:
    hours = [point.hours for point in curve.points]
    highest = 100 * max(point.rate for point in curve.points)
    if highest > SATURATED:
        yield f"a WER of {highest:.0f} % is of a model that is hardly trained; more steps"
    if hours[-1] < _SPAN * hours[0]:
        yield f"the hours differ by a factor of {hours[-1] / hours[0]:.1f} only; smaller shares"
    if curve.misfit > _FAR:
        yield f"a point is {curve.misfit - 1:.0%} away from the curve; more shares or seeds"
    if curve.bend < _BENT and not curve.is_flat:
        yield "it flattens at its end, so the next hours gain less than it says"
