"""Coverage of intervals, and power and false positives of tests over speakers, simulated.

Speakers differ: their WER varies log-normally (sigma 0.5) around 20 %. ``even`` speakers say 200 to
600 words each; ``uneven`` ones about 300, log-normally (sigma 1); of ``talkative`` ones, those who
say more also have more errors (correlation 0.3 or 0.6 of the logarithms). A run is better or worse
on each speaker by a further 20 %, so that two equally good runs differ by speaker.

The second table has groups: eight dialects from 10 to 24 % WER, with 8 or 12 speakers each or 35 in
all, and four conditions of noise from 15 to 20 % with the same 20 speakers. How often a gap is
found there, and where all groups are equally good, beside a test that takes groups for independent
and adjusts for their pairs (Bonferroni). The third has runs of three seeds, whose WER varies by 0.5
points with the seed. The fourth has intervals of small groups: with a spread of all groups, and
shrunk towards the mean of all (empirical Bayes).

::

    python benchmarks/intervals.py
    python benchmarks/intervals.py --splits 2000   # more exact; the default is 400
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from math import hypot
from typing import Final

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from danish_asr.scoring.gaps import estimate_gap
from danish_asr.scoring.intervals import ALPHA, spreads, t_quantile, words_and_errors
from danish_asr.scoring.paired import AlignedRun, paired_rates
from danish_asr.scoring.pooled import logs_and_errors, of_speakers
from danish_asr.scoring.scored_rows import FloatArray, Group, GroupSums, IntArray
from danish_asr.scoring.settings import Settings

SPEAKERS: Final = (8, 12, 20, 35, 100)
WER, BETWEEN_SPEAKERS, BETWEEN_RUNS = 0.2, 0.5, 0.2
SEEDS, BETWEEN_SEEDS = 3, 0.005
DIALECTS: Final = np.linspace(0.1, 0.24, 8).tolist()
NOISE: Final = (0.15, 0.16, 0.17, 0.2)
GROUPS: Final[dict[str, tuple[Sequence[int], Sequence[float]]]] = {
    "8 dialects, 8 speakers each": ([8] * 8, DIALECTS),
    "8 dialects, 12 speakers each": ([12] * 8, DIALECTS),
    "8 dialects, 35 speakers in all": ([5, 5, 5, 4, 4, 4, 4, 4], DIALECTS),
    "4 conditions, the same 20 speakers": ([20], NOISE),
}

Draw = Callable[[int, np.random.Generator], tuple[IntArray, IntArray, IntArray]]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=400, help="simulated splits per line")
    splits = parser.parse_args().splits
    headings = ["words per speaker", "speakers", "interval holds the rate"]
    headings += ["so does a word-wise one", "warned of", "p < 0.05, equal runs"]
    cases = [(kind, speakers) for kind in KINDS for speakers in SPEAKERS]
    lines = [
        [kind, str(speakers), *shares(measure(KINDS[kind], speakers, splits))]
        for kind, speakers in track(cases, transient=True)
    ]
    show(f"Intervals and runs: {splits} splits per line, shares in %", headings, lines)
    headings = ["groups", "gap found", "by pairs alone", "equal groups", "equal, by pairs alone"]
    lines = [
        [name, *shares(gaps_found(*groups, splits))]
        for name, groups in track(GROUPS.items(), transient=True)
    ]
    show(f"Gaps: {splits} splits per line, shares in %", headings, lines)
    headings = ["speakers", "p < 0.05", "p < 0.05, of speakers only"]
    lines = [[str(n), *shares(seeds_differ(n, splits))] for n in track((12, 35), transient=True)]
    show(f"Equal runs of {SEEDS} seeds: {splits} splits per line", headings, lines)
    headings = ["rates of 8 groups, 35 speakers", "spread of all", "shrunk", "shrunk, last group"]
    lines = [
        [name, *shares(small_groups(rates, splits))]
        for name, rates in (("10 to 24 %", DIALECTS), ("12 %, the last 24 %", [0.12] * 7 + [0.24]))
    ]
    show(f"Intervals of small groups: {splits} splits per line", headings, lines)


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
    """Return how often either interval holds the truth, the warning and the test of runs."""
    generator = np.random.default_rng([speakers, 1])
    words, errors, _ = draw(2_000_000, generator)
    truth = float(errors.sum() / words.sum())
    counts = np.zeros(4)
    for _ in range(splits):
        words, errors, other = resolvable(draw, speakers, generator)
        group = as_group(words, errors)
        rate, _ = spreads(group, Settings())
        low, high = rate.limits()
        difference, _ = spreads(as_group(words, other), Settings(), group)
        counts += [
            low <= truth <= high,
            abs(rate.value - truth) <= by_word(rate.value, words),
            words_and_errors(group) is not None,
            difference.p_value() < ALPHA,
        ]
    return [*(counts / splits)]


def resolvable(
    draw: Draw, speakers: int, generator: np.random.Generator
) -> tuple[IntArray, IntArray, IntArray]:
    """Draw until there are enough effective speakers, as for such a split there is an interval."""
    while True:
        words, errors, other = draw(speakers, generator)
        if not spreads(as_group(words, errors), Settings())[0].not_resolvable:
            return words, errors, other


def gaps_found(sizes: Sequence[int], rates: Sequence[float], splits: int) -> list[float]:
    """Return how often the gap and pairs of independent groups are found, and by chance."""
    found: list[float] = []
    for truth in (rates, [float(np.mean(rates))] * len(rates)):
        generator = np.random.default_rng(len(sizes))
        counts = np.zeros(2)
        for _ in range(splits):
            groups = draw_groups(sizes, truth, generator)
            gap = estimate_gap(groups, Settings())
            counts += [gap is not None and gap.resolved, by_pairs_alone(groups)]
        found += [*(counts / splits)]
    return found


def draw_groups(
    sizes: Sequence[int], rates: Sequence[float], generator: np.random.Generator
) -> list[GroupSums]:
    """Return groups of different speakers; with one size, of the same ones."""
    same = len(sizes) == 1
    factors = [speaker_factors(size, generator) for size in sizes] * (len(rates) if same else 1)
    groups: list[GroupSums] = []
    for number, (factor, rate) in enumerate(zip(factors, rates, strict=True)):
        words = generator.integers(*((100, 200) if same else (200, 600)), len(factor))
        own = factor * np.exp(generator.normal(0, 0.1, len(factor))) if same else factor
        errors = generator.binomial(words, np.minimum(rate * own, 1))
        groups.append(as_group(words, errors, "" if same else f"{number}-"))
    return groups


def speaker_factors(speakers: int, generator: np.random.Generator) -> FloatArray:
    """Return what multiplies the rate of each speaker, 1 on average."""
    logs = generator.normal(-(BETWEEN_SPEAKERS**2) / 2, BETWEEN_SPEAKERS, speakers)
    return np.asarray(np.exp(logs), np.float64)


def by_pairs_alone(groups: Sequence[GroupSums]) -> bool:
    """Whether worst and best differ, each with an interval of its own (MOVER, Bonferroni)."""
    resolved = [spread for g in groups if not (spread := spreads(g, Settings())[0]).not_resolvable]
    if len(resolved) < 2:
        return False
    best, worst = min(resolved), max(resolved)
    alpha = ALPHA / (len(resolved) * (len(resolved) - 1) / 2)
    below = worst.value - worst.limits(alpha).low
    above = best.limits(alpha).high - best.value
    return worst.value - best.value > hypot(below, above)


def seeds_differ(speakers: int, splits: int) -> list[float]:
    """Return how often equal runs of several seeds differ, over seeds or over speakers alone."""
    generator = np.random.default_rng(speakers)
    counts = np.zeros(2)
    group = Group(
        {}, [f"{n}" for n in range(speakers)], np.arange(speakers), np.arange(speakers), ""
    )
    for _ in range(splits):
        words, *_ = even(speakers, generator)
        factors = WER * speaker_factors(speakers, generator)
        runs = [
            AlignedRun(name, [of_seed(words, factors, generator) for _ in range(SEEDS)], None)
            for name in "AB"
        ]
        means = [AlignedRun(run.name, [np.sum(run.seeds, axis=0)], None) for run in runs]
        for number, (a, b) in enumerate((runs, means)):
            p = paired_rates(group, a, b, Settings())["wer"].p
            counts[number] += p is not None and p < ALPHA
    return [*(counts / splits)]


def of_seed(words: IntArray, rates: FloatArray, generator: np.random.Generator) -> IntArray:
    """Return the counts of one seed, which is better or worse for all speakers."""
    rate = np.clip(rates * (1 + generator.normal(0, BETWEEN_SEEDS / WER)), 0, 1)
    sums = as_group(words, generator.binomial(words, rate)).sums
    sums[:, 0] = 1
    return np.asarray(sums, np.int64)


def small_groups(rates: Sequence[float], splits: int) -> list[float]:
    """Return how often intervals of small groups hold their rates."""
    sizes, _ = GROUPS["8 dialects, 35 speakers in all"]
    generator = np.random.default_rng(0)
    held = np.zeros((2, len(rates)))
    reach = t_quantile(1 - ALPHA / 2, sum(sizes) - len(sizes))
    truth = np.log(rates)
    for _ in range(splits):
        values, starts = of_speakers(draw_groups(sizes, rates, generator), Settings())
        estimates = logs_and_errors(values[:, None, :], starts)
        if estimates is not None:
            (logs,), (errors,) = estimates
            shrunk, shrunk_errors = shrink(logs, errors)
            held[0] += np.abs(logs - truth) <= reach * errors
            held[1] += np.abs(shrunk - truth) <= reach * shrunk_errors
    return [held[0].mean() / splits, held[1].mean() / splits, held[1, -1] / splits]


def shrink(logs: FloatArray, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return empirical Bayes estimates and errors (Morris, JASA 78, 1983)."""
    groups, weights = len(logs), 1 / errors**2
    mean = (weights * logs).sum() / weights.sum()
    excess = (weights * (logs - mean) ** 2).sum() - (groups - 1)
    between = max(0.0, excess / (weights.sum() - (weights**2).sum() / weights.sum()))
    weights = 1 / (errors**2 + between)
    mean = (weights * logs).sum() / weights.sum()
    part = errors**2 * weights * (groups - 3) / (groups - 1)
    variance = errors**2 * (1 - part) + part**2 / weights.sum()
    variance += 2 * part**2 * (logs - mean) ** 2 / (groups - 3)
    return part * mean + (1 - part) * logs, np.sqrt(variance)


def as_group(words: IntArray, errors: IntArray, prefix: str = "") -> GroupSums:
    """Return the counts of a run, all errors as substitutions."""
    sums = np.zeros((len(words), 9), np.int64)
    sums[:, 1], sums[:, 2] = words - errors, errors
    speakers = [f"{prefix}{number}" for number in range(len(words))]
    return GroupSums({"group": prefix}, speakers, sums, sums)


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
        generator.binomial(words, np.minimum(rate * np.exp(BETWEEN_RUNS * each), 1))
        for each in generator.normal(-BETWEEN_RUNS / 2, 1, size=(2, len(words)))
    )
    return one, other


def by_word(rate: float, words: IntArray) -> float:
    """Return half of the 95 % interval that takes words for independent observations."""
    return float(1.96 * np.sqrt(rate * (1 - rate) / words.sum()))


if __name__ == "__main__":
    main()
