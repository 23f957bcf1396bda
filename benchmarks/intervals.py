"""Coverage of intervals, and power and false positives of tests over speakers, simulated.

Speakers differ: their WER varies log-normally (sigma 0.5) around 20 %. ``even`` speakers say 200 to
600 words each; ``uneven`` ones about 300, log-normally (sigma 1); of ``talkative`` ones, those who
say more also have more errors (correlation 0.3 or 0.6 of the logarithms). A run is better or worse
on each speaker by a further 20 %, so that two equally good runs differ by speaker.

The second table has groups: eight dialects from 10 to 24 % WER, with 8 or 12 speakers each or 35 in
all; how often a gap is found there, and where all groups are equally good. The third has eight
equal dialects of 2 to 40 speakers, whose words are as many in all groups, log-normal, or 12 to 25
per speaker in every second group; and one group of 4 to 6 speakers with 60 to 100 words in all that
is ten times worse. The fourth has runs of three seeds, whose WER varies by 0.5 points with the
seed. The fifth has pooled intervals, the last lines of eight groups of 5 speakers, where the
standard deviation of the speakers' rates is as large in all groups, or 2 or 3 times in the last.

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
    pooled_intervals,
    spreads,
)
from danish_asr.scoring.rows import PERSON
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

UNEQUAL: Final = (2, 3, 5, 8, 12, 20, 30, 40)
POOLED: Final = (
    ("35 speakers, 10 to 24 %", FEW, DIALECTS, 1),
    ("35 speakers, 12 %, the last 24 %", FEW, [0.12] * 7 + [0.24], 1),
    *((f"40 speakers, spread of the last x {n}", [5] * 8, [WER] * 8, n) for n in (1, 2, 3)),
)

DrawGroups = Callable[[np.random.Generator], Sequence[pd.DataFrame]]
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
    lines = [
        [name, *shares([found_in(draw_case, splits)])]
        for name, draw_case in track(CASES.items(), transient=True)
    ]
    show(f"Unequal groups: {splits} splits per line", ["groups", "gap found"], lines)
    lines = [
        [name, *shares(pooled_holds(sizes, rates, splits, spread))]
        for name, sizes, rates, spread in track(POOLED, transient=True)
    ]
    headings = ["8 groups", "hold the rate", "of the last group"]
    show(f"Pooled intervals: {splits} splits per line", headings, lines)


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
            resolved += is_found(groups)
        shares_of_splits.append(resolved / splits)
    return shares_of_splits


def is_found(groups: Sequence[pd.DataFrame]) -> bool:
    """Whether the test says that groups differ."""
    gap = estimate_gap([(f"{n}", group) for n, group in enumerate(groups)], "standard")
    return bool(gap and gap.pair and gap.pair.resolved)


def found_in(draw_case: DrawGroups, splits: int) -> float:
    """Return how often a gap is found."""
    generator = np.random.default_rng(5)
    return sum(is_found(draw_case(generator)) for _ in range(splits)) / splits


def equal_dialects(words: str, generator: np.random.Generator) -> list[pd.DataFrame]:
    """Return eight equal dialects with 2 to 40 speakers."""
    groups: list[pd.DataFrame] = []
    for number, size in enumerate(generator.permutation(UNEQUAL)):
        own: IntArray = generator.integers(200, 600, size)
        if words == "lognormal":
            amounts = 300 * np.exp(generator.normal(size=size))
            own = np.maximum(amounts, 12).astype(np.int64)
        elif words == "few in some" and number % 2:
            own = generator.integers(12, 25, size)
        groups.append(said(own, WER, generator, f"{number}-"))
    return groups


def one_worse(
    rate: float, sizes: Sequence[int], generator: np.random.Generator
) -> list[pd.DataFrame]:
    """Return groups of a rate, and a small one that is ten times worse."""
    speakers = int(generator.integers(4, 7))
    total = int(generator.integers(60, 101))
    few = np.maximum(generator.multinomial(total, [1 / speakers] * speakers), 1)
    others = [
        said(generator.integers(200, 600, size), rate, generator, f"{number}-")
        for number, size in enumerate(sizes)
    ]
    return [said(few, 10 * rate, generator, "few-"), *others]


def said(words: IntArray, rate: float, generator: np.random.Generator, prefix: str) -> pd.DataFrame:
    """Return a group whose speakers vary around a rate."""
    own = np.minimum(rate * speaker_factors(len(words), generator), 1)
    return as_group(words, generator.binomial(words, own), prefix)


def draw_groups(
    sizes: Sequence[int],
    rates: Sequence[float],
    generator: np.random.Generator,
    spread_of_last: float = 1,
) -> list[pd.DataFrame]:
    """Return groups of different speakers, of whom those of the last may spread more."""
    factors = [speaker_factors(size, generator) for size in sizes[:-1]]
    factors.append(speaker_factors(sizes[-1], generator, spread_of_last))
    groups: list[pd.DataFrame] = []
    for number, (factor, rate) in enumerate(zip(factors, rates, strict=True)):
        words = generator.integers(200, 600, len(factor))
        errors = generator.binomial(words, np.minimum(rate * factor, 1))
        groups.append(as_group(words, errors, f"{number}-"))
    return groups


def speaker_factors(speakers: int, generator: np.random.Generator, times: float = 1) -> FloatArray:
    """Return what multiplies the rate of each speaker, 1 on average.

    Their standard deviation is ``times`` as large as usual.
    """
    variance = np.log1p(times**2 * np.expm1(BETWEEN_SPEAKERS**2))
    logs = generator.normal(-variance / 2, np.sqrt(variance), speakers)
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


def pooled_holds(
    sizes: Sequence[int], rates: Sequence[float], splits: int, spread_of_last: float
) -> list[float]:
    """Return how often pooled intervals hold the rates, of all groups but the last, and of it."""
    generator = np.random.default_rng(0)
    many = speaker_factors(2_000_000, generator, spread_of_last)
    truth = np.array([*rates[:-1], np.minimum(rates[-1] * many, 1).mean()])
    held = np.zeros(2)
    for _ in range(splits):
        groups = draw_groups(sizes, rates, generator, spread_of_last)
        intervals = pooled_intervals(groups, "standard")
        holds = [
            own is not None and own.low <= rate <= own.high
            for own, rate in zip(intervals, truth, strict=True)
        ]
        held += [np.mean(holds[:-1]), holds[-1]]
    return [*(held / splits)]


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


CASES: Final[dict[str, DrawGroups]] = {
    "8 equal, 2 to 40 speakers": partial(equal_dialects, "even"),
    "... words log-normal": partial(equal_dialects, "lognormal"),
    "... few words in some": partial(equal_dialects, "few in some"),
    "2 of 17, one small: 2.5 and 25 %": partial(one_worse, 0.025, (17, 17)),
    "7 of 5, one small: 2.5 and 25 %": partial(one_worse, 0.025, [5] * 7),
    "7 of 12, one small: 8 and 80 %": partial(one_worse, 0.08, [12] * 7),
}


if __name__ == "__main__":
    main()
