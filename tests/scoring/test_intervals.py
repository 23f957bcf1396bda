"""Intervals over speakers, pooled ones of small groups, and the gap between groups."""

from typing import get_args

import numpy as np
import pytest

from danish_asr.metrics import Counts, Denominator, ErrorCounts
from danish_asr.scoring.gap import estimate_gap
from danish_asr.scoring.intervals import (
    Interval,
    estimate_rates,
    logs_and_errors,
    of_speakers,
    pooled_differences,
    pooled_intervals,
    rates,
    spreads,
    t_quantile,
    takes_part,
    words_of,
)
from tests.score_groups import dialects, group

FEW_HAVE_MOST = "words as of {} equal speakers, 4 needed: few have most of them"


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
        ([100] * 4 + [0] * 4, [0.1, 0.2] * 4, None),  # as of 4 equal speakers
        ([100] * 9, [0.0] * 9, "every speaker has the same value"),
        ([100] * 9, [0.3] * 9, "every speaker has the same value"),
        ([11] * 9, [0.1, 0.2, 0.3] * 3, "99 words, 100 needed"),
        ([10] * 10, [0.1, 0.2] * 5, None),
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


def test_the_reason_counts_the_speakers_that_have_a_name() -> None:
    for names, said in ((["a", None], "1 speaker and"), (["a", "b", None], "2 speakers and")):
        size = len(names)
        wer, _ = estimate_rates(group([100] * size, range(size), names), "standard")
        assert (wer.not_resolvable or "").startswith(f"{said} rows without one")


def test_a_small_group_has_a_pooled_interval_unless_its_speakers_are_alike() -> None:
    none, alike, *others = dialects([4, 4, 4, 4, 9], [0.2] * 5, 0).values()
    none[["word_hits", "word_substitutions"]] = [100, 0]
    alike[["word_hits", "word_substitutions"]] = [80, 20]
    intervals = pooled_intervals([none, alike, *others], "standard")
    assert [interval is not None for interval in intervals] == [False, False, True, True, False]
    few = dialects([3, 2], [0.2, 0.3], 0)
    assert pooled_intervals([*few.values()], "standard") == [None, None]


@pytest.mark.parametrize(
    ("shares", "takes"), [([34, 33, 33], True), ([33] * 3, False), ([50] * 2, False)]
)
def test_a_group_is_pooled_from_three_named_speakers_and_a_hundred_words_on(
    shares: list[int], takes: bool
) -> None:
    own = group(shares, [1] * len(shares))
    assert takes_part(own) is takes
    own.index = own.index.where(np.arange(len(own)) > 0, None)
    assert not takes_part(own)


def test_a_pooled_interval_has_the_relative_deviations_of_all_speakers() -> None:
    errors = [np.array(own) for own in ([10, 20, 30], [20, 40, 60], [30, 60, 60], [40, 20, 30, 50])]
    words = [np.array([150, 200, 250, 100])[: len(own)] + n for n, own in enumerate(errors)]
    groups = [
        group(of_words, own, [f"{place}{n}" for n in range(len(own))])
        for place, (of_words, own) in enumerate(zip(words, errors, strict=True))
    ]
    rates_of = [own.sum() / of.sum() for own, of in zip(errors, words, strict=True)]
    parts = [*zip(errors, words, rates_of, strict=True)]
    squares = sum(((own / rate - of) ** 2).sum() for own, of, rate in parts)
    # 13 speakers, 4 groups; what counting errors explains is not of the speakers
    counting = [of.sum() / rate for _, of, rate in parts]
    squared = [(of**2).sum() for of in words]
    variance = (squares * 13 / 9 - sum(counting)) / sum(squared)
    intervals = pooled_intervals(groups, "standard")
    for place, (own, of, rate) in enumerate(parts):
        reach = 2.262157 * np.sqrt(variance * squared[place] + counting[place]) / of.sum()
        alone, _ = spreads(groups[place], "standard")
        alone_reach = t_quantile(0.975, len(own) - 1) * alone.deviation / rate
        factor = np.exp(max(reach, alone_reach))
        assert intervals[place] == pytest.approx(Interval(rate / factor, rate * factor))


def test_a_group_that_spreads_more_than_the_others_has_the_wider_interval_of_its_own() -> None:
    groups = [*dialects([5] * 4, [0.2] * 4, 0).values()]
    groups[0][["word_hits", "word_substitutions"]] = [
        [397, 3],
        [390, 10],
        [396, 4],
        [80, 320],
        [99, 1],
    ]
    interval = pooled_intervals(groups, "standard")[0]
    own, _ = spreads(groups[0], "standard")
    assert interval
    assert interval.high == pytest.approx(own._replace(freedom=4).limits().high)


@pytest.mark.parametrize("denominator", get_args(Denominator))
def test_differences_of_small_groups_have_a_pooled_spread_and_their_own(
    denominator: Denominator,
) -> None:
    bases = [*dialects([5, 4, 9], [0.2] * 3, 0).values()]
    others = [own.copy() for own in bases]
    for number, own in enumerate(others):
        fewer = np.arange(len(own)) + number
        own["word_substitutions"] -= fewer
        own["word_hits"] += fewer
    found = pooled_differences([*zip(bases, others, strict=True)], denominator)
    assert [len(wer) for wer, _ in found] == [2, 2, 0]
    assert [len(cer) for _, cer in found] == [0, 0, 0]  # without characters
    shared, alone = found[0][0]
    spread, _ = spreads(others[0], denominator, bases[0])
    assert alone == spread._replace(freedom=4)
    assert shared.freedom == 15
    squares, weights = 0.0, 0.0
    for base, other in zip(bases, others, strict=True):
        words = words_of(base)
        fewer = np.array(base["word_substitutions"]) - np.array(other["word_substitutions"])
        scale = (base["word_substitutions"].sum() + other["word_substitutions"].sum()) / 2
        squares += (((fewer - fewer.sum() / words.sum() * words) / scale * words.sum()) ** 2).sum()
        weights += (words**2).sum()
    words, errors = (
        words_of(bases[0]),
        [own["word_substitutions"].sum() for own in (bases[0], others[0])],
    )
    expected = (
        np.sqrt(squares / weights * 18 / 15 * (words**2).sum()) * np.mean(errors) / words.sum() ** 2
    )
    assert shared.deviation == pytest.approx(expected)


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
def test_one_of_twenty_speakers_in_three_groups_does_not_switch_off_what_is_pooled(
    shared: int, pooled: bool
) -> None:
    """Memberships were compared with speakers, so that one speaker in three groups was enough."""
    groups = [*dialects([8, 7, 7], [0.2] * 3, 0).values()]
    for number in range(shared):
        for other in groups[1:3]:
            other.index = other.index.where(np.arange(len(other)) != number, f"0-{number}")
    found = [interval is not None for interval in pooled_intervals(groups, "standard")]
    assert found == [False, pooled, pooled]
    labelled = [(str(place), own) for place, own in enumerate(groups)]
    gap = estimate_gap(labelled, "standard")
    assert gap
    assert (gap.pair is not None) is pooled


def test_insertions_count_in_the_denominator_of_coral() -> None:
    groups = dialects([8, 8], [0.1, 0.3], 0)
    for own in groups.values():
        own["word_insertions"] = 20
    gap = estimate_gap(groups.items(), "coral")
    assert gap
    assert gap.pair
    totals = [Counts(*own.sum().tolist()[:4]) for own in groups.values()]
    best, worst = sorted(total.rate("coral") for total in totals)
    assert gap.pair.difference == pytest.approx(worst - best)
    assert gap.worst_wer == pytest.approx(worst)


def test_no_error_counts_as_half_of_one_in_a_logarithm() -> None:
    groups = [group([100] * 3, [0] * 3), group([100] * 3, [1, 2, 3])]
    values, starts = of_speakers(groups, "standard")
    logs, errors = logs_and_errors(values[:, None, :], starts)
    assert np.exp(logs) == pytest.approx(np.array([[0.5, 6]]) / 300)
    order = np.array([[0, 1, 2, 3, 4, 5], [0, 3, 1, 2, 4, 5]])  # each draw is of its own
    both = logs_and_errors(values[:, order], starts)
    assert [part[0].tolist() for part in both] == [logs[0].tolist(), errors[0].tolist()]
