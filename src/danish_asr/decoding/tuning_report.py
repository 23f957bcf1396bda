"""The result of tuning as tables in the terminal, and as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from danish_asr.base.files import publish
from danish_asr.decoding.ngram_tuning import (
    ALPHAS,
    BEAMS,
    BETAS,
    WEIGHTS_BEAM,
    Point,
    Trial,
    Tuning,
)
from danish_asr.metrics import ErrorCounts

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_CHOSEN: Final[dict[str, Any]] = {"ms": 13, "mfc": "none", "mec": "C3", "mew": 2, "zorder": 3}


def print_tuning(tuning: Tuning, console: Console) -> None:
    """Print WER over the coarse grid, and greedy beside the beams at the best weights."""
    about, by_point = tuning.about, {trial.point: trial for trial in tuning.trials}
    console.print(
        f"{about['rows']} of {about['rows_in_split']} utterances of {about['split']}, "
        f"{tuning.seconds / 60:.1f} minutes; {len(tuning.trials)} points; text profile "
        f"{about['profile']}",
        highlight=False,
    )
    grid = Table(title=f"WER %, beam {WEIGHTS_BEAM}", box=SIMPLE_HEAD, title_justify="left")
    for heading in ("alpha", *(f"beta {beta:g}" for beta in BETAS)):
        grid.add_column(heading, justify="right")
    for alpha in ALPHAS:
        cells = [_wer(by_point[Point(alpha, beta, WEIGHTS_BEAM)]) for beta in BETAS]
        grid.add_row(f"{alpha:g}", *cells)
    console.print(grid)
    chosen = tuning.chosen.point
    table = Table(box=SIMPLE_HEAD)
    for heading in ("decoder", "alpha", "beta", "WER %", "CER %", "CPU ms per s"):
        table.add_column(heading, justify="left" if heading == "decoder" else "right")
    table.add_row("greedy", "", "", f"{100 * tuning.greedy.wer():.2f}", _cer(tuning.greedy), "")
    for beam in BEAMS:
        trial = by_point[chosen._replace(beam=beam)]
        table.add_row(
            f"beam {beam}" + (" (chosen)" if beam == chosen.beam else ""),
            *(f"{chosen.alpha:g}", f"{chosen.beta:g}", _wer(trial), _cer(trial.errors)),
            f"{1000 * trial.seconds / tuning.seconds:.1f}",
        )
    console.print(table)


def _wer(trial: Trial) -> str:
    return f"{100 * trial.errors.wer():.2f}"


def _cer(errors: ErrorCounts) -> str:
    return f"{100 * errors.cer():.2f}"


def save_plot(tuning: Tuning, file: Path) -> None:
    """Write the plot: WER over alpha and beta, and over the beam; the suffix says the format."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow

    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _plot_weights(left, tuning)
    _plot_beams(right, tuning)
    about = tuning.about
    figure.legend(loc="outside lower right", ncols=3, fontsize=8)  # inside it may hide the curve
    title = f"{about['language_model']} on {about['split']} of {about['run']} ({about['model']})"
    figure.suptitle(title, fontsize=10, parse_math=False)
    with publish(file) as stream:
        figure.savefig(stream, format=file.suffix.removeprefix(".") or "png", dpi=150)


def _plot_weights(axes: Axes, tuning: Tuning) -> None:
    trials = [trial for trial in tuning.trials if trial.point.beam == WEIGHTS_BEAM]
    rates = [100 * trial.errors.wer() for trial in trials]
    places = [(trial.point.alpha, trial.point.beta) for trial in trials]
    alphas, betas = zip(*places, strict=True)
    # Without a language model (alpha 0) the rates are far from the others.
    most = min(max(rates), 2 * min(rates)) or None
    dots = axes.scatter(alphas, betas, c=rates, vmax=most, cmap="viridis", s=60, zorder=2)
    axes.figure.colorbar(dots, ax=axes, label="WER %", extend="max")
    best = tuning.chosen.point
    axes.plot(best.alpha, best.beta, "o", **_CHOSEN)
    axes.set(xlabel="alpha", ylabel="beta", title=f"beam {WEIGHTS_BEAM}")
    axes.grid(visible=True, alpha=0.3)


def _plot_beams(axes: Axes, tuning: Tuning) -> None:
    by_point = {trial.point: trial for trial in tuning.trials}
    best = tuning.chosen.point
    rates = [100 * by_point[best._replace(beam=beam)].errors.wer() for beam in BEAMS]
    axes.plot(BEAMS, rates, "o-", color="C0", label="with the language model")
    axes.plot(best.beam, rates[BEAMS.index(best.beam)], "o", label="chosen", **_CHOSEN)
    axes.axhline(100 * tuning.greedy.wer(), color="0.4", ls="--", lw=1, label="greedy")
    axes.set_xscale("log")
    axes.set_xticks(BEAMS, [str(beam) for beam in BEAMS], minor=False)
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    title = f"alpha {best.alpha:g}, beta {best.beta:g}"
    axes.set(xlabel="beam", ylabel="WER %", title=title)
    axes.grid(visible=True, alpha=0.3)
