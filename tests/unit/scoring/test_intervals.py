"""Intervals over speakers, pooled ones of small groups, and the gap between groups."""

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest

from danish_asr.metrics import Counts, Denominator, ErrorCounts
from danish_asr.scoring.gap import Gap, estimate_gap
from danish_asr.scoring.intervals import (
    COUNTS,
    Interval,
    estimate_rates,
    pooled_intervals,
    rates,
    spreads,
)

FEW_HAVE_MOST = "words as of {} equal speakers, 4 needed: few have most of them"


def group(words: Any, errors: Any, speakers: Sequence[str | None] | None = None) -> pd.DataFrame:
    """Speakers with word substitutions only."""
    words = np.asarray(words)
    index = pd.Index([*(speakers or [f"s{n}" for n in range(len(words))])], dtype=object)
    sums = pd.DataFrame(0, index, [*COUNTS])
    sums["word_hits"], sums["word_substitutions"] = words - errors, errors
    return sums


def dialects(sizes: Sequence[int], means: Sequence[float], seed: int) -> dict[str, pd.DataFrame]:
    """Groups of different speakers, whose rates vary log-normally (sigma 0.5)."""
    generator = np.random.default_rng(seed)
    groups = {}
    for number, (size, mean) in enumerate(zip(sizes, means, strict=True)):
        words = generator.integers(200, 600, size)
        own = np.minimum(mean * np.exp(generator.normal(-0.125, 0.5, size)), 1)
        names = [f"{number}-{speaker}" for speaker in range(size)]
        groups[f"{number}"] = group(words, generator.binomial(words, own), names)
    return groups


def gap_of(groups: dict[str, pd.DataFrame]) -> Gap:
    """Return the gap, whose interval and p say the same."""
    gap = estimate_gap(groups.items(), "standard")
    assert gap
    assert gap.resolved == (gap.interval.low > 0)
    assert gap.interval.low <= gap.difference <= gap.interval.high
    return gap


@pytest.mark.parametrize("denominator", get_args(Denominator))
def test_rates_of_sums_are_the_rates_of_counts(denominator: Denominator) -> None:
    numbers = np.array([[3, 1, 1, 1, 9, 2, 0, 3], [0, 0, 0, 4, 0, 0, 0, 7]])
    wer, cer = rates(numbers, denominator)
    counts = ErrorCounts.from_tuple([2, *numbers[0].tolist()])
    assert (wer[0], cer[0]) == (counts.wer(denominator), counts.cer(denominator))
    assert np.isnan([wer[1], cer[1]]).all()  # insertions without a reference


def test_an_interval_of_equal_speakers_is_that_of_the_t_distribution() -> None:
    errors = np.array([10, 20, 30, 40] * 3)
    spread, _ = spreads(group([200] * 12, errors), "standard")
    deviation = errors.std(ddof=1) / np.sqrt(12) / 200
    assert (spread.value, spread.deviation) == pytest.approx((0.125, deviation))
    assert spread.freedom == pytest.approx(11)
    factor = np.exp(2.200985 * deviation / 0.125)
    assert spread.limits() == pytest.approx(Interval(0.125 / factor, 0.125 * factor))


def test_the_p_value_of_a_difference_agrees_with_its_interval() -> None:
    words, errors = np.full(12, 300), np.array([30, 50, 70, 90] * 3)
    for fewer in (1, 5, 30):
        other = errors - fewer + np.arange(12) % 5
        spread, _ = spreads(group(words, other), "standard", group(words, errors))
        assert spread.value == pytest.approx((other.sum() - errors.sum()) / words.sum())
        low, high = spread.around()
        assert (spread.p_value() < 0.05) == (not low <= 0 <= high)


@pytest.mark.parametrize(
    ("words", "shares", "reason"),
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
    words: list[int], shares: list[float], reason: str | None
) -> None:
    errors = (np.array(words) * shares).round().astype(int)
    wer, _ = estimate_rates(group(words, errors), "standard")
    assert wer.not_resolvable == reason
    assert (wer.interval is None) == (reason is not None)
    unknown, _ = estimate_rates(group(words[:1], errors[:1], [None]), "standard")
    assert unknown.not_resolvable == "the speakers are unknown"


def test_a_small_group_has_a_pooled_interval_unless_its_speakers_are_alike() -> None:
    none, alike, *others = dialects([4, 4, 4, 4, 9], [0.2] * 5, 0).values()
    none[["word_hits", "word_substitutions"]] = [100, 0]
    alike[["word_hits", "word_substitutions"]] = [80, 20]
    intervals = pooled_intervals([none, alike, *others], "standard")
    assert [interval is not None for interval in intervals] == [False, False, True, True, False]
    few = dialects([3, 2], [0.2, 0.3], 0)
    assert pooled_intervals([*few.values()], "standard") == [None, None]


def test_a_pooled_interval_has_the_relative_deviations_of_all_speakers() -> None:
    errors = [np.array(own) for own in ([10, 20, 30], [20, 40, 60], [30, 60, 60], [40, 20, 30, 50])]
    groups = [
        group([200] * len(own), own, [f"{place}{n}" for n in range(len(own))])
        for place, own in enumerate(errors)
    ]
    squares = sum(((own / own.mean() - 1) ** 2).sum() for own in errors)
    deviation = np.sqrt(squares / 9)  # 13 speakers, 4 groups
    for own, interval in zip(errors, pooled_intervals(groups, "standard"), strict=True):
        factor = np.exp(2.262157 * deviation / np.sqrt(len(own)))
        rate = own.mean() / 200
        assert interval == pytest.approx(Interval(rate / factor, rate * factor))


@pytest.mark.parametrize(
    ("sizes", "pooled"), [([3, 3, 3, 3], True), ([3, 3, 4], False), ([5, 5], True)]
)
def test_pooling_needs_eight_more_speakers_than_groups(sizes: list[int], pooled: bool) -> None:
    groups = [*dialects(sizes, [0.2] * len(sizes), 0).values()]
    assert any(pooled_intervals(groups, "standard")) is pooled
    for own in groups:
        own["word_substitutions"] = own["word_hits"] = 100  # all speakers are alike
    assert not any(pooled_intervals(groups, "standard"))


@pytest.mark.parametrize(("shared", "pooled"), [(1, True), (2, False)])
def test_one_of_thirty_speakers_in_three_groups_does_not_switch_off_what_is_pooled(
    shared: int, pooled: bool
) -> None:
    """Memberships were compared with speakers, so that one speaker in three groups was enough."""
    groups = [*dialects([8, 6, 6, 6, 6], [0.2] * 5, 0).values()]
    for number in range(shared):
        for other in groups[1:3]:
            other.index = other.index.where(np.arange(len(other)) != number, f"0-{number}")
    assert any(pooled_intervals(groups, "standard")) is pooled
    labelled = [(str(place), own) for place, own in enumerate(groups)]
    assert (estimate_gap(labelled, "standard") is not None) is pooled


def test_a_gap_is_found_where_groups_differ_and_not_where_they_are_equal() -> None:
    different = gap_of(dialects([12] * 4, [0.1, 0.1, 0.1, 0.4], seed=0))
    assert different.resolved
    assert different.p == 1 / 2000  # no permutation is as extreme as what was observed
    assert not gap_of(dialects([12] * 4, [0.17] * 4, seed=0)).resolved


def test_where_the_extreme_group_is_small_the_pair_that_differs_is_named() -> None:
    gap = gap_of(dialects([60, 60, 3], [0.12, 0.17, 0.19], seed=4))
    assert (gap.worst, gap.best) == ("1", "0")


@pytest.mark.parametrize("extreme", [98, 99])
def test_the_interval_and_the_p_value_say_the_same_at_five_per_cent(
    monkeypatch: pytest.MonkeyPatch, extreme: int
) -> None:
    largest = np.repeat([0.0, 1e3], [1999 - extreme, extreme])
    monkeypatch.setattr("danish_asr.scoring.gap._largest_of_permuted", lambda *_: largest)
    assert gap_of(dialects([12] * 2, [0.1, 0.3], 0)).p == (extreme + 1) / 2000


def test_small_equal_groups_can_be_compared_unless_the_speakers_of_each_are_alike() -> None:
    """All permutations were dropped where one of them left no spread, and numpy raised."""
    groups = {
        name: group([50] * 4, [1, 1, 2, 2], [f"{name}{n}" for n in range(4)]) for name in ("a", "b")
    }
    equal = gap_of(groups)
    assert (equal.difference, equal.resolved) == (0, False)
    for wrong, own in enumerate(groups.values(), 1):
        own[["word_hits", "word_substitutions"]] = [50, wrong]
    assert estimate_gap(groups.items(), "standard") is None


@pytest.mark.parametrize("count", [1, 101])
def test_one_group_and_a_hundred_are_not_compared(count: int) -> None:
    assert estimate_gap(dialects([8] * count, [0.2] * count, 0).items(), "standard") is None


@pytest.mark.parametrize("words", [120, 1000])
def test_a_group_without_errors_is_the_best_with_its_own_rate(words: int) -> None:
    groups = {}
    for name, length, errors in (("a", words, 0), ("b", 1000, 1), ("c", 1000, 200)):
        wrong = np.minimum(np.arange(1, 9) * errors, 1000)
        groups[name] = group(np.full(8, length), wrong, [f"{name}{n}" for n in range(8)])
    gap = gap_of(groups)
    assert (gap.worst, gap.best, gap.groups) == ("c", "a", 3)


@pytest.mark.parametrize("wrong", [0, 1, 7])
def test_few_speakers_with_errors_say_nothing_about_groups(wrong: int) -> None:
    groups = {}
    for name in ("a", "b", "c"):
        errors = np.zeros(15, np.int64)
        errors[:wrong] = 1 if name == "a" else 0
        groups[name] = group(np.arange(90, 105), errors, [f"{name}{n}" for n in range(15)])
    assert estimate_gap(groups.items(), "standard") is None


def test_insertions_count_in_the_denominator_of_coral() -> None:
    groups = dialects([8, 8], [0.1, 0.3], 0)
    for own in groups.values():
        own["word_insertions"] = 20
    gap = estimate_gap(groups.items(), "coral")
    assert gap
    totals = [Counts(*own.sum().tolist()[:4]) for own in groups.values()]
    best, worst = sorted(total.rate("coral") for total in totals)
    assert gap.difference == pytest.approx(worst - best)
