"""Coverage of intervals and error rate of tests over speakers, for simulated speakers.

Speakers differ: their WER varies log-normally (sigma 0.5) around 20 %. ``even`` speakers say 200 to
600 words each; ``uneven`` ones about 300, log-normally (sigma 1); of ``talkative`` ones, those who
say more also have more errors (correlation 0.3 of the logarithms). A run is better or worse on each
speaker by a further 20 %, so that two equally good runs differ by speaker. The truth is known, so
the benchmark counts how often an interval contains it, and how often a test finds a difference that
does not exist: between two runs, and between the worst and the best of eight equal groups.

::

    python benchmarks/intervals.py
    python benchmarks/intervals.py --splits 10000   # more exact; the default is 1,000
"""

import argparse
from collections.abc import Callable
from typing import Final

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from danish_asr.scoring.gaps import estimate_gap
from danish_asr.scoring.intervals import spreads
from danish_asr.scoring.scored_rows import FloatArray, GroupSums, IntArray
from danish_asr.scoring.settings import Settings

SPEAKERS: Final = (8, 12, 20, 35, 100)
WER, BETWEEN_SPEAKERS, BETWEEN_RUNS, CORRELATION = 0.2, 0.5, 0.2, 0.3
GROUPS: Final = 8

Draw = Callable[[int, np.random.Generator], tuple[IntArray, IntArray, IntArray]]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=1_000, help="simulated splits per line")
    splits = parser.parse_args().splits
    table = Table(title=f"{splits} simulated splits per line, shares in %")
    for name in (
        "words per speaker",
        "speakers",
        "interval holds the rate",
        "so does a word-wise one",
        "p < 0.05, equal runs",
        f"gap > 0, {GROUPS} equal groups",
    ):
        table.add_column(name, justify="right")
    cases = [(kind, speakers) for kind in KINDS for speakers in SPEAKERS]
    for kind, speakers in track(cases, transient=True):
        shares = measure(KINDS[kind], speakers, splits)
        table.add_row(kind, f"{speakers}", *(f"{100 * share:.1f}" for share in shares))
    Console(width=110).print(table)


def measure(draw: Draw, speakers: int, splits: int) -> tuple[float, float, float, float]:
    """Return how often either interval holds the truth, and how often either test errs."""
    generator = np.random.default_rng([speakers, 1])
    words, errors, _ = draw(2_000_000, generator)
    truth = float(errors.sum() / words.sum())
    held = held_by_word = found = gaps = 0
    for _ in range(splits):
        words, errors, other = resolvable(draw, speakers, generator)
        rate, _ = spreads(as_group(words, errors), Settings())
        low, high = rate.limits()
        held += low <= truth <= high
        held_by_word += abs(rate.value - truth) <= by_word(rate.value, words)
        difference, _ = spreads(as_group(words, other), Settings(), as_group(words, errors))
        found += difference.p_value() < 0.05
        groups = [as_group(*resolvable(draw, speakers, generator)[:2]) for _ in range(GROUPS)]
        gap = estimate_gap(groups, Settings())
        gaps += (
            gap is not None
            and gap.difference.interval is not None
            and (gap.difference.interval.low > 0)
        )
    return held / splits, held_by_word / splits, found / splits, gaps / splits


def resolvable(
    draw: Draw, speakers: int, generator: np.random.Generator
) -> tuple[IntArray, IntArray, IntArray]:
    """Draw until no speaker dominates, as for such a split there is no interval."""
    while True:
        words, errors, other = draw(speakers, generator)
        if words.max() <= words.sum() / 2:
            return words, errors, other


def as_group(words: IntArray, errors: IntArray) -> GroupSums:
    """Return the counts of a run, all errors as substitutions."""
    sums = np.zeros((len(words), 9), np.int64)
    sums[:, 1], sums[:, 2] = words - errors, errors
    return GroupSums({}, tuple(map(str, range(len(words)))), sums, sums)


def even(speakers: int, generator: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
    """Speakers with 200 to 600 words."""
    words = generator.integers(200, 600, speakers)
    return words, *errors(words, generator.normal(size=speakers), generator)


def uneven(speakers: int, generator: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
    """Speakers some of whom say ten times as much as others."""
    words = np.maximum(300 * np.exp(generator.normal(size=speakers)), 20).astype(np.int64)
    return words, *errors(words, generator.normal(size=speakers), generator)


def talkative(speakers: int, generator: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
    """Uneven speakers, of whom those who say more have more errors."""
    amount, other = generator.normal(size=(2, speakers))
    words = np.maximum(300 * np.exp(amount), 20).astype(np.int64)
    difficulty = CORRELATION * amount + np.sqrt(1 - CORRELATION**2) * other
    return words, *errors(words, difficulty, generator)


KINDS: Final[dict[str, Draw]] = {"even": even, "uneven": uneven, "talkative": talkative}


def errors(
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
