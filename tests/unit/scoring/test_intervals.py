"""Intervals and tests over speakers."""

from math import tan
from typing import Any

import numpy as np
import pytest

from danish_asr.scoring.intervals import (
    Interval,
    estimate_rates,
    resample_sums,
    spreads,
    t_above,
    t_quantile,
    words_and_errors,
)
from danish_asr.scoring.scored_rows import GroupSums, IntArray
from danish_asr.scoring.settings import Settings

SETTINGS = Settings()
FEW_HAVE_MOST = "words as of {} equal speakers, 4 needed: few have most of them"


def group(words: Any, errors: Any, name: str = "x") -> GroupSums:
    """Speakers with word substitutions only."""
    words = np.asarray(words)
    sums = np.zeros((len(words), 9), np.int64)
    sums[:, 1], sums[:, 2] = words - errors, errors
    speakers = tuple(f"speaker {number}" for number in range(len(words)))
    return GroupSums({"dialect": name}, speakers, sums, sums)


def draw(speakers: int, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Words, and the errors of speakers whose WER varies log-normally around 20 %."""
    words = generator.integers(200, 600, speakers)
    rate = 0.2 * np.exp(generator.normal(-0.125, 0.5, speakers))
    return words, generator.binomial(words, np.minimum(rate, 1))


def test_speaker_intervals_cover_the_truth_where_word_intervals_do_not() -> None:
    words, errors = draw(200_000, np.random.default_rng(1))
    truth = errors.sum() / words.sum()
    by_speaker = by_word = 0
    for seed in range(200):
        words, errors = draw(20, np.random.default_rng(1000 + seed))
        wer, _ = estimate_rates(group(words, errors), SETTINGS)
        assert wer.interval
        by_speaker += wer.interval.low <= truth <= wer.interval.high
        rate, total = wer.value, words.sum()
        by_word += abs(rate - truth) <= 1.96 * np.sqrt(rate * (1 - rate) / total)
    assert 0.9 * 200 <= by_speaker <= 200
    assert by_word < 0.5 * 200


def test_equally_good_runs_differ_significantly_as_rarely_as_the_level_says() -> None:
    significant = 0
    for seed in range(400):
        generator = np.random.default_rng(seed)
        words, rates = generator.integers(200, 600, 20), 0.2 * np.exp(generator.normal(0, 0.5, 20))
        a, b = (
            generator.binomial(words, np.clip(rates * np.exp(generator.normal(0, 0.2, 20)), 0, 1))
            for _ in "ab"
        )
        spread, _ = spreads(group(words, b), SETTINGS, group(words, a))
        p, (low, high) = spread.p_value(), spread.around()
        assert (p < 0.05) == (not low <= 0 <= high)
        significant += p < 0.05
    assert 0.02 * 400 <= significant <= 0.08 * 400


@pytest.mark.parametrize(("correlation", "warned"), [(0.9, True), (0.0, False), (-0.9, False)])
def test_speakers_with_more_words_and_more_errors_are_noticed(
    correlation: float, warned: bool
) -> None:
    generator = np.random.default_rng(0)
    amount, other = generator.normal(size=(2, 35))
    words = (300 * np.exp(amount)).astype(int) + 20
    difficulty = correlation * amount + np.sqrt(1 - correlation**2) * other
    errors = generator.binomial(words, np.minimum(0.2 * np.exp(0.5 * difficulty), 1))
    found = words_and_errors(group(words, errors))
    assert (found is not None) == warned
    assert found is None or found > 0.5


def test_an_interval_of_equal_speakers_is_that_of_the_t_distribution() -> None:
    errors = np.array([10, 20, 30, 40] * 3)
    spread, _ = spreads(group([200] * 12, errors), SETTINGS)
    deviation = errors.std(ddof=1) / np.sqrt(12) / 200
    assert (spread.value, spread.deviation) == pytest.approx((0.125, deviation))
    assert spread.freedom == pytest.approx(11)
    factor = np.exp(2.200985 * deviation / 0.125)
    assert spread.limits() == pytest.approx(Interval(0.125 / factor, 0.125 * factor))


def test_utterance_intervals_are_narrower_and_computed_on_request() -> None:
    words, errors = draw(20, np.random.default_rng(0))
    wer, _ = estimate_rates(group(words, errors), Settings(resamples=200))
    assert wer.interval
    assert wer.utterances
    assert wer.utterances.low < wer.value < wer.utterances.high
    assert estimate_rates(group(words, errors), SETTINGS)[0].utterances is None
    drawn = resample_sums(np.ones((3000, 1), np.int64), 1500, np.random.default_rng(0))
    assert drawn.tolist() == [[3000.0]] * 1500


def test_t_quantiles_are_those_of_the_tables_and_of_the_cauchy_distribution() -> None:
    points = [t_quantile(0.975, freedom) for freedom in (2.0, 7.0, 19.0)]
    points += [t_quantile(0.9995, 10.0)]
    assert points == pytest.approx([4.302653, 2.364624, 2.093024, 4.586894], abs=1e-4)
    assert t_quantile(0.9, 1.0) == pytest.approx(tan(0.4 * np.pi))
    assert t_above(t_quantile(0.9, 3.3), 3.3) == pytest.approx(0.1)
    assert t_above(25, 19.0) == pytest.approx(2.5e-16, rel=0.2)


@pytest.mark.parametrize(
    ("words", "rates", "reason"),
    [
        ([1000], [0.1], "1 speaker, 8 needed"),
        ([100] * 7, [0.1, 0.2] * 3 + [0.3], "7 speakers, 8 needed"),
        ([1000] + [100] * 9, [0.1, 0.2] * 5, FEW_HAVE_MOST.format("3.3")),
        ([400] * 2 + [1] * 6, [0.1, 0.2] * 4, FEW_HAVE_MOST.format("2.0")),
        ([400] * 3 + [50] * 6, [0.1, 0.2, 0.3] * 3, None),
        ([100] * 9, [0.0] * 9, "every speaker has the same value"),
        ([100] * 9, [0.3] * 9, "every speaker has the same value"),
        ([10] * 9, [0.1, 0.2, 0.3] * 3, "90 words, 100 needed"),
        ([100] * 8, [0.1, 0.2] * 4, None),
        ([0] * 9, [0.0] * 9, "0 words, 100 needed"),
    ],
)
def test_the_reason_for_no_interval(
    words: list[int], rates: list[float], reason: str | None
) -> None:
    speakers = group(words, np.array(words) * rates)
    assert spreads(speakers, SETTINGS)[0].not_resolvable == reason
    unknown = GroupSums({}, (None,), speakers.sums[:1], speakers.sums[:1])
    assert spreads(unknown, SETTINGS)[0].not_resolvable == "the speakers are unknown"
