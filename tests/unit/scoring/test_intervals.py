"""Intervals by resampling speakers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from danish_asr.scoring.intervals import (
    MIN_SPEAKERS,
    expanded_tail,
    interval,
    p_value,
    resample_sums,
    t_quantile,
    why_not_resolvable,
)
from danish_asr.scoring.scored_rows import FloatArray, GroupSums, IntArray


def _speakers(count: int, seed: int) -> tuple[IntArray, IntArray]:
    """Errors and words of speakers whose WER varies log-normally around 20 %."""
    generator = np.random.default_rng(seed)
    words = generator.integers(200, 600, count)
    rate = np.clip(0.2 * np.exp(generator.normal(0, 0.5, count) - 0.125), 0.01, 0.9)
    return generator.binomial(words, rate), words


def _samples(sums: IntArray, resamples: int, seed: int = 0) -> FloatArray:
    generator = np.random.default_rng(seed)
    drawn = resample_sums(sums, resamples, generator)
    return np.asarray(drawn[:, 0] / drawn[:, 1])


def test_speaker_intervals_cover_the_truth_where_word_intervals_do_not() -> None:
    """A word-wise 95 % interval covers the truth in a quarter of cases, this one in 93 %."""
    many = _speakers(200_000, seed=1)
    truth = many[0].sum() / many[1].sum()
    by_speaker = by_word = 0
    for seed in range(200):
        errors, words = _speakers(20, seed=1000 + seed)
        bounds = interval(_samples(np.stack([errors, words], axis=1), 400, seed), 20)
        by_speaker += bounds.low <= truth <= bounds.high
        rate, total = errors.sum() / words.sum(), words.sum()
        by_word += abs(rate - truth) <= 1.96 * np.sqrt(rate * (1 - rate) / total)
    assert 0.88 * 200 <= by_speaker <= 200
    assert by_word < 0.5 * 200


def test_equally_good_runs_differ_significantly_as_rarely_as_the_level_says() -> None:
    found = 0
    for seed in range(400):
        generator = np.random.default_rng(seed)
        words = generator.integers(200, 600, 20)
        rates = 0.2 * np.exp(generator.normal(0, 0.5, 20))
        runs = [
            generator.binomial(words, np.clip(rates * np.exp(generator.normal(0, 0.2, 20)), 0, 1))
            for _ in "ab"
        ]
        samples = _samples(np.stack([runs[1] - runs[0], words], axis=1), 400, seed)
        found += p_value(samples, 20) < 0.05
    assert 0.02 * 400 <= found <= 0.08 * 400


def test_resampling_in_chunks_draws_as_many_speakers_as_there_are() -> None:
    drawn = resample_sums(np.ones((3000, 1), np.int64), 1500, np.random.default_rng(0))
    assert drawn.tolist() == [[3000.0]] * 1500


def test_t_quantiles_are_those_of_the_tables() -> None:
    points = [t_quantile(0.975, freedom) for freedom in (7, 19, 34)] + [t_quantile(0.995, 10)]
    assert points == pytest.approx([2.3646, 2.0930, 2.0322, 3.1693], abs=2e-3)


@pytest.mark.parametrize(
    ("words", "rates", "reason"),
    [
        ([10], [0.1], "1 speaker, 8 needed"),
        ([10] * 7, [0.1, 0.2] * 3 + [0.3], "7 speakers, 8 needed"),
        ([100] + [10] * 9, [0.1, 0.2] * 5, "one speaker has 53 % of the words"),
        ([10] * 9, [0.0] * 9, "every speaker has the same value"),
        ([10] * MIN_SPEAKERS, [0.1, 0.2] * 4, None),
        ([0] * 9, [0.0, 1.0, 0.0] * 3, None),
    ],
)
def test_the_reason_for_no_interval(
    words: list[int], rates: list[float], reason: str | None
) -> None:
    group = _group(words)
    assert why_not_resolvable(group, np.array(rates)) == reason
    unknown = replace(group, speakers=(None,))
    assert why_not_resolvable(unknown, np.array(rates)) == "the speakers are unknown"


def _group(words: list[int]) -> GroupSums:
    """Speakers whose words are all hits."""
    sums = np.zeros((len(words), 9), np.int64)
    sums[:, 1] = words
    return GroupSums({}, tuple(f"speaker {number}" for number in range(len(words))), sums)


def test_p_is_the_level_whose_interval_touches_zero() -> None:
    differences = np.random.default_rng(0).normal(-0.02, 0.01, 5000)
    p = p_value(differences, 20)
    tail = expanded_tail(p, 20)
    assert np.quantile(differences, 1 - tail) == pytest.approx(0, abs=1e-3)
    assert 0.02 < p < 0.12


def test_p_of_no_difference_is_one_and_of_a_clear_one_is_small_but_never_zero() -> None:
    centred = np.random.default_rng(0).normal(0, 0.01, 5000)
    assert p_value(centred - np.median(centred), 20) > 0.9
    assert 0 < p_value(np.full(10_000, -0.1), 20) < 0.005
