"""Coverage of intervals and error rate of p-values over speakers, for simulated speakers.

Speakers differ: their WER varies log-normally (sigma 0.5) around 20 %, each says 200 to 600 words.
A run is better or worse on each of them by a further 20 % (log-normal), so that two equally good
runs differ by speaker. The true rate is known, so the benchmark counts how often an interval
contains it, and how often a test finds a difference that does not exist.

::

    python benchmarks/intervals.py
    python benchmarks/intervals.py --splits 200     # quicker and less exact; the default is 1,500
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from danish_asr.scoring.intervals import interval, p_value, resample_sums
from danish_asr.scoring.scored_rows import FloatArray, IntArray

SPEAKERS = (3, 4, 8, 10, 12, 20, 35, 100)
RESAMPLES = 1_000
WER, BETWEEN_SPEAKERS, BETWEEN_RUNS = 0.2, 0.5, 0.2


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=1_500, help="simulated splits per line")
    splits = parser.parse_args().splits
    table = Table(title=f"{splits} simulated splits per line, shares in %")
    for name in (
        "speakers",
        "interval holds the rate",
        "so does a word-wise one",
        "p < 0.05 for no difference",
    ):
        table.add_column(name, justify="right")
    for speakers in SPEAKERS:
        table.add_row(f"{speakers}", *(f"{100 * share:.1f}" for share in measure(speakers, splits)))
    Console(width=110).print(table)


def measure(speakers: int, splits: int) -> tuple[float, float, float]:
    """Return how often either interval holds the truth, and how often the test errs."""
    generator = np.random.default_rng([speakers, 1])
    truth = true_rate()
    held = held_by_word = found = 0
    for _ in range(splits):
        words, errors, errors_of_other = draw(speakers, generator)
        sums = np.stack([words, errors, errors_of_other], axis=1)
        drawn = resample_sums(sums, RESAMPLES, generator)
        bounds = interval(drawn[:, 1] / drawn[:, 0], speakers)
        held += bounds.low <= truth <= bounds.high
        held_by_word += abs(errors.sum() / words.sum() - truth) <= by_word(errors, words)
        found += p_value((drawn[:, 2] - drawn[:, 1]) / drawn[:, 0], speakers) < 0.05
    return held / splits, held_by_word / splits, found / splits


def draw(speakers: int, generator: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
    """Return words, and word errors of two runs that are equally good, per speaker."""
    words = generator.integers(200, 600, speakers)
    rate = WER * log_normal(BETWEEN_SPEAKERS, speakers, generator)
    errors, other = (
        generator.binomial(
            words, np.minimum(rate * log_normal(BETWEEN_RUNS, speakers, generator), 1)
        )
        for _ in range(2)
    )
    return words, errors, other


def log_normal(sigma: float, count: int, generator: np.random.Generator) -> FloatArray:
    """Return factors with a mean of 1."""
    return np.asarray(np.exp(generator.normal(-(sigma**2) / 2, sigma, count)))


def true_rate() -> float:
    """Return the rate of two million speakers."""
    words, errors, _ = draw(2_000_000, np.random.default_rng(0))
    return float(errors.sum() / words.sum())


def by_word(errors: IntArray, words: IntArray) -> float:
    """Return half of the 95 % interval that takes words for independent observations."""
    rate = errors.sum() / words.sum()
    return float(1.96 * np.sqrt(rate * (1 - rate) / words.sum()))


if __name__ == "__main__":
    main()
