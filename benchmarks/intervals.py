"""Coverage of intervals, and power and false positives of tests over speakers, simulated.

Speakers differ: their WER varies log-normally (sigma 0.5) around 20 %. ``even`` speakers say 200 to
600 words each; ``uneven`` ones about 300, log-normally (sigma 1); of ``talkative`` ones, those who
say more also have more errors (correlation 0.3 or 0.6 of the logarithms). A run is better or worse
on each speaker by a further 20 %, so that two equally good runs differ by speaker.

The second table has groups: eight dialects from 10 to 24 % WER, with 8 or 12 speakers each or 35 in
all; how often a gap is found there, and where all groups are equally good. The third has runs of
three seeds, whose WER varies by 0.5 points with the seed. The fourth has pooled intervals.

::

    python benchmarks/intervals.py
    python benchmarks/intervals.py --splits 2000   # more exact; the default is 400
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track
from rich.table import Table

from danish_asr.scoring.compare import compare_counts
from danish_asr.scoring.gap import estimate_gap
from danish_asr.scoring.intervals import (
    ALPHA,
    COUNTS,
    FloatArray,
    IntArray,
    logs_and_errors,
    of_speakers,
    spreads,
    t_quantile,
)
from danish_asr.scoring.scores import PERSON
from danish_asr.scoring.settings import Settings

SPEAKERS: Final = (8, 12, 20, 35, 100)
WER, BETWEEN_SPEAKERS, BETWEEN_RUNS = 0.2, 0.5, 0.2
SEEDS, BETWEEN_SEEDS = 3, 0.005
DIALECTS: Final = np.linspace(0.1, 0.24, 8).tolist()
FEW: Final = (5, 5, 5, 4, 4, 4, 4, 4)
GROUPS: Final[dict[str, Sequence[int]]] = {
    "8 dialects, 8 speakers each": [8] * 8,
    "8 dialects, 12 speakers each": [12] * 8,
    "8 dialects, 35 speakers in all": FEW,
}

Draw = Callable[[int, np.random.Generator], tuple[IntArray, IntArray, IntArray]]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=400, help="simulated splits per line")
    splits = parser.parse_args().splits
    headings = ["words per speaker", "speakers", "interval holds the rate", "p < 0.05, equal runs"]
    cases = [(kind, speakers) for kind in KINDS for speakers in SPEAKERS]
    lines = [
        [kind, str(speakers), *shares(measure(KINDS[kind], speakers, splits))]
        for kind, speakers in track(cases, transient=True)
    ]
    show(f"Intervals and runs: {splits} splits per line, shares in %", headings, lines)
    lines = [
        [name, *shares(gaps_found(sizes, splits))]
        for name, sizes in track(GROUPS.items(), transient=True)
    ]
    title = f"Gaps: {splits} splits per line, shares in %"
    show(title, ["groups", "gap found", "equal groups"], lines)
    lines = [[str(n), *shares(seeds_differ(n, splits))] for n in track((12, 35), transient=True)]
    headings = ["speakers", "p < 0.05", "p < 0.05, of speakers only"]
    show(f"Equal runs of {SEEDS} seeds: {splits} splits per line", headings, lines)
    rates = {"10 to 24 %": DIALECTS, "12 %, the last 24 %": [0.12] * 7 + [0.24]}
    lines = [[name, *shares([pooled_holds(own, splits)])] for name, own in rates.items()]
    show("Pooled intervals", ["rates of 8 groups, 35 speakers", "hold the rate"], lines)


def show(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    table = Table(title=title)
    for name in headings:
        table.add_column(name, justify="right")
    for line in lines:
        table.add_row(*line)
    Console(width=110).print(table)


def shares(values: Sequence[float]) -> list[str]:
    """Return shares in per cent."""
    return [f"{100 * value:.1f}" for value in values]


def measure(draw: Draw, speakers: int, splits: int) -> list[float]:
    """Return how often the interval holds the truth, and equal runs differ."""
    generator = np.random.default_rng([speakers, 1])
    words, errors, _ = draw(2_000_000, generator)
    truth = float(errors.sum() / words.sum())
    counts = np.zeros(2)
    for _ in range(splits):
        words, errors, other = resolvable(draw, speakers, generator)
        group = as_group(words, errors)
        low, high = spreads(group, "standard")[0].limits()
        difference, _ = spreads(as_group(words, other), "standard", group)
        counts += [low <= truth <= high, difference.p_value() < ALPHA]
    return [*(counts / splits)]


def resolvable(
    draw: Draw, speakers: int, generator: np.random.Generator
) -> tuple[IntArray, IntArray, IntArray]:
    """Draw until there are enough effective speakers, as for such a split there is an interval."""
    while True:
        words, errors, other = draw(speakers, generator)
        if not spreads(as_group(words, errors), "standard")[0].not_resolvable:
            return words, errors, other


def gaps_found(sizes: Sequence[int], splits: int) -> list[float]:
    """Return how often a gap is found, and how often where there is none."""
    shares_of_splits: list[float] = []
    for truth in (DIALECTS, [float(np.mean(DIALECTS))] * len(DIALECTS)):
        generator = np.random.default_rng(len(sizes))
        resolved = 0
        for _ in range(splits):
            groups = draw_groups(sizes, truth, generator)
            gap = estimate_gap([(f"{n}", group) for n, group in enumerate(groups)], "standard")
            resolved += gap is not None and gap.resolved
        shares_of_splits.append(resolved / splits)
    return shares_of_splits


def draw_groups(
    sizes: Sequence[int], rates: Sequence[float], generator: np.random.Generator
) -> list[pd.DataFrame]:
    """Return groups of different speakers."""
    factors = [speaker_factors(size, generator) for size in sizes]
    groups: list[pd.DataFrame] = []
    for number, (factor, rate) in enumerate(zip(factors, rates, strict=True)):
        words = generator.integers(200, 600, len(factor))
        errors = generator.binomial(words, np.minimum(rate * factor, 1))
        groups.append(as_group(words, errors, f"{number}-"))
    return groups


def speaker_factors(speakers: int, generator: np.random.Generator) -> FloatArray:
    """Return what multiplies the rate of each speaker, 1 on average."""
    logs = generator.normal(-(BETWEEN_SPEAKERS**2) / 2, BETWEEN_SPEAKERS, speakers)
    return np.asarray(np.exp(logs), np.float64)


def seeds_differ(speakers: int, splits: int) -> list[float]:
    """Return how often equal runs of several seeds differ, over seeds or over speakers alone."""
    generator = np.random.default_rng(speakers)
    counts = np.zeros(2)
    for _ in range(splits):
        words, *_ = even(speakers, generator)
        factors = WER * speaker_factors(speakers, generator)
        runs = {
            name: np.array([of_seed(words, factors, generator) for _ in range(SEEDS)])
            for name in "AB"
        }
        sums = {name: counts.sum(axis=0, keepdims=True) for name, counts in runs.items()}
        rows = pd.DataFrame({PERSON: [f"{n:03}" for n in range(speakers)]})
        for number, counts_of_runs in enumerate((runs, sums)):
            table = compare_counts(rows, counts_of_runs, "", Settings())
            counts[number] += table["wer_p"].iloc[1] < ALPHA  # not if it is NaN
    return [*(counts / splits)]


def of_seed(words: IntArray, rates: FloatArray, generator: np.random.Generator) -> IntArray:
    """Return the counts of one seed, (speakers, 8), which is better or worse for all of them."""
    rate = np.clip(rates * (1 + generator.normal(0, BETWEEN_SEEDS / WER)), 0, 1)
    return as_group(words, generator.binomial(words, rate)).to_numpy()


def pooled_holds(rates: Sequence[float], splits: int) -> float:
    """Return how often pooled intervals hold the rates of small groups."""
    generator = np.random.default_rng(0)
    reach = t_quantile(1 - ALPHA / 2, sum(FEW) - len(FEW))
    truth, held = np.log(rates), 0.0
    for _ in range(splits):
        values, starts = of_speakers(draw_groups(FEW, rates, generator), "standard")
        (logs,), (errors,) = logs_and_errors(values[:, None, :], starts)
        held += float(np.mean(np.abs(logs - truth) <= reach * errors))
    return held / splits


def as_group(words: IntArray, errors: IntArray, prefix: str = "") -> pd.DataFrame:
    """Return the counts of speakers, all errors as substitutions."""
    sums = np.zeros((len(words), len(COUNTS)), np.int64)
    sums[:, 0], sums[:, 1] = words - errors, errors
    names = [f"{prefix}{number}" for number in range(len(words))]
    return pd.DataFrame(sums, names, [*COUNTS])


def even(speakers: int, generator: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
    """Speakers with 200 to 600 words."""
    words = generator.integers(200, 600, speakers)
    return words, *errors_of(words, generator.normal(size=speakers), generator)


def uneven(
    speakers: int, generator: np.random.Generator, *, correlation: float = 0
) -> tuple[IntArray, IntArray, IntArray]:
    """Speakers some of whom say ten times as much as others, and may have more errors."""
    amount, other = generator.normal(size=(2, speakers))
    words = np.maximum(300 * np.exp(amount), 20).astype(np.int64)
    difficulty = correlation * amount + np.sqrt(1 - correlation**2) * other
    return words, *errors_of(words, difficulty, generator)


KINDS: Final[dict[str, Draw]] = {
    "even": even,
    "uneven": uneven,
    "talkative 0.3": partial(uneven, correlation=0.3),
    "talkative 0.6": partial(uneven, correlation=0.6),
}


def errors_of(
    words: IntArray, difficulty: FloatArray, generator: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Return the word errors of two runs that are equally good."""
    rate = WER * np.exp(BETWEEN_SPEAKERS * difficulty - BETWEEN_SPEAKERS**2 / 2)
    one, other = (
        generator.binomial(words, np.minimum(rate * np.exp(BETWEEN_RUNS * factor), 1))
        for factor in generator.normal(-BETWEEN_RUNS / 2, 1, size=(2, len(words)))
    )
    return one, other


if __name__ == "__main__":
    main()
