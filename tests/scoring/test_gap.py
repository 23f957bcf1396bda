from typing import Any

import numpy as np
import pandas as pd
import pytest

from danish_asr.scoring.gap import NotCompared, PairTest, _interval, estimate_gap
from danish_asr.scoring.intervals import logs_and_errors, of_speakers
from tests.score_groups import dialects, group


def gap_of(groups: dict[str, pd.DataFrame]) -> PairTest:
    """Return the test, whose interval and p say the same."""
    gap = estimate_gap(groups.items(), "standard")
    assert gap
    assert gap.pair
    pair = gap.pair
    assert pair.resolved == (pair.interval.low > 0)
    assert pair.interval.low <= pair.difference <= pair.interval.high
    interval = {"low": pair.interval.low, "high": pair.interval.high}
    assert gap.to_dict()["pair"]["interval"] == interval
    assert gap.worst_wer >= pair.difference
    return pair


@pytest.fixture
def largest(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the largest statistics of the permutations."""

    def use(*values: float, times: tuple[int, ...] = (1999,)) -> None:
        ascending = np.repeat(values, times)
        monkeypatch.setattr("danish_asr.scoring.gap._largest_of_permuted", lambda *_: ascending)

    return use


def test_groups_with_the_same_rate_as_the_worst_are_counted() -> None:
    same = {name: group([10, 20], [5, 10], [f"{name}1", f"{name}2"]) for name in "abc"}
    lower = {"d": group([10, 20], [1, 2], ["d1", "d2"]), "e": group([1, 1], [0, 0], ["e1", "e2"])}
    for groups, others in ((same | lower, 2), (lower, 0), ({"a": same["a"]} | lower, 0)):
        gap = estimate_gap(groups.items(), "standard")
        assert gap
        assert gap.as_bad == others
        assert gap.not_compared == []


def test_a_gap_is_found_where_groups_differ_and_not_where_they_are_equal() -> None:
    different = gap_of(dialects([12] * 4, [0.1, 0.1, 0.1, 0.4], seed=0))
    assert different.resolved
    assert different.p == 1 / 2000  # no permutation is as extreme as what was observed
    equal = gap_of(dialects([12] * 4, [0.17] * 4, seed=0))
    assert equal.p == 0.2925  # the same each time


@pytest.mark.parametrize(("numbers", "draws"), [(16 * 700, [700, 700, 599]), (1, [1] * 1999)])
def test_permutations_take_no_more_memory_than_they_may_and_change_no_gap(
    monkeypatch: pytest.MonkeyPatch, numbers: int, draws: list[int]
) -> None:
    groups = dialects([9, 3, 4], [0.1, 0.2, 0.3], 0)
    whole, taken = gap_of(groups), list[int]()

    def counted(values: Any, starts: Any) -> Any:
        taken.append(values.shape[1])
        return logs_and_errors(values, starts)

    monkeypatch.setattr("danish_asr.scoring.gap._NUMBERS", numbers)
    monkeypatch.setattr("danish_asr.scoring.gap.logs_and_errors", counted)
    assert gap_of(groups) == whole
    assert taken == [1, *draws]


@pytest.mark.parametrize(
    ("as_extreme", "statistic", "worst"),
    [
        (99, 3.0, "1"),  # than the extreme groups, whose p is 0.05
        (98, 3.0, "2"),
        (99, 1e3, "2"),  # than any pair: no p is below 0.05
    ],
)
def test_where_the_extreme_group_is_small_the_pair_that_differs_is_named(
    largest: Any, as_extreme: int, statistic: float, worst: str
) -> None:
    groups = dialects([60, 60, 3], [0.12, 0.17, 0.19], seed=4)
    assert (gap_of(groups).worst, gap_of(groups).best) == ("1", "0")
    largest(0.0, statistic, times=(1999 - as_extreme, as_extreme))
    assert (gap_of(groups).worst, gap_of(groups).best) == (worst, "0")


@pytest.mark.parametrize("extreme", [98, 99])
def test_the_interval_and_the_p_value_say_the_same_at_five_per_cent(
    largest: Any, extreme: int
) -> None:
    largest(0.0, 1e3, times=(1999 - extreme, extreme))
    assert gap_of(dialects([12] * 2, [0.1, 0.3], 0)).p == (extreme + 1) / 2000


def test_the_interval_of_a_gap_is_that_of_two_rates_with_the_pooled_error(largest: Any) -> None:
    best, worst = np.array([10, 20, 30] * 3), np.array([40, 60, 80] * 4)
    groups = {
        name: group([200] * len(own), own, [f"{name}{n}" for n in range(len(own))])
        for name, own in (("best", best), ("worst", worst))
    }
    squares = sum(((own / own.mean() - 1) ** 2).sum() for own in (best, worst))
    # Relative: 21 speakers in 2 groups; of the spread the part that counting does not explain.
    counting = [200 / (own.mean() / 200) / 200**2 for own in (worst, best)]
    spread = squares / 19 * 21 - np.dot(counting, [12, 9])
    errors = np.sqrt((spread / 21 + counting) / np.array([12, 9]))
    largest(4.0)
    limits = _interval(np.array([0.3, 0.1]), np.log([0.3, 0.1]), errors, 4.0)
    assert gap_of(groups).interval == pytest.approx(limits)


@pytest.mark.parametrize(
    ("rates", "errors", "critical", "low"),
    [
        ([3, 1], [0.1, 0.1], 1, None),  # that of the difference
        ([10, 1], [0.5, 0.1], 2, np.exp(-0.2) * (10 * np.exp(-2 * 0.26**0.5) - 1)),
        ([1.1, 1], [0.1, 0.1], 2, None),  # which may be below zero
        ([2.5, 1], [0, 1], 1, 0),  # the ratio is not resolved, and the difference is
        ([2, 1], [0, 1], np.log(2), 0),  # the ratio is just not resolved
    ],
)
def test_limits_of_a_difference_are_above_zero_exactly_if_those_of_the_ratio_are_above_one(
    rates: list[float], errors: list[float], critical: float, low: float | None
) -> None:
    found = _interval(np.array(rates), np.log(rates), np.array(errors), critical)
    difference, reach = rates[0] - rates[1], critical * np.hypot(*np.multiply(rates, errors))
    lowest = difference - reach if low is None else low
    assert [*found] == pytest.approx([lowest, difference + reach])


def test_half_an_error_in_a_small_group_is_no_higher_rate_than_a_real_one(largest: Any) -> None:
    few, some, many = (np.full(3, 0), np.full(8, 1), np.arange(100, 180, 10))
    numbers = ("a", 40, few), ("b", 1_000, some), ("c", 1_000, many), ("d", 90_000, few)
    groups = {
        name: group([words] * len(own), own, [f"{name}{n}" for n in range(len(own))])
        for name, words, own in numbers
    }
    values, starts = of_speakers([*groups.values()], "standard")
    (logs,), (errors,) = logs_and_errors(values[:, None, :], starts)
    assert logs[0] > logs[1]
    largest(2.0)
    gap = gap_of(groups)
    assert (gap.worst, gap.best) == ("c", "a")
    reach = 2 * np.hypot(np.exp(logs[2]) * errors[2], np.exp(logs[1]) * errors[0])
    assert gap.interval.high == pytest.approx(gap.difference + reach)


def test_small_equal_groups_can_be_compared_also_where_a_draw_leaves_no_spread() -> None:
    groups = {
        name: group([50] * 4, [1, 1, 2, 2], [f"{name}{n}" for n in range(4)]) for name in ("a", "b")
    }
    equal = gap_of(groups)
    assert (equal.difference, equal.p) == (0, 1)
    for name, errors in (("a", [1, 1, 1, 2]), ("b", [1, 2, 2, 2])):
        groups[name] = group([50] * 4, errors, [f"{name}{n}" for n in range(4)])
    # Of 70 divisions 34 differ as much.
    assert gap_of(groups).p == pytest.approx(34 / 70, abs=0.02)


@pytest.mark.parametrize(("count", "compared"), [(1, False), (2, True), (100, True), (101, False)])
def test_one_group_and_more_than_a_hundred_are_not_compared(
    largest: Any, count: int, compared: bool
) -> None:
    largest(1.0)
    gap = estimate_gap(dialects([8] * count, [0.2] * count, 0).items(), "standard")
    assert gap
    assert (gap.pair is not None, gap.compared) == (compared, count if compared else 0)
    beginning = {1: "1 group ", 101: "101 groups"}.get(count, "None")
    assert str(gap.why_none).startswith(beginning)
    alone = estimate_gap(dialects([1] * count, [0.2] * count, 0).items(), "standard")
    assert alone
    assert str(alone.why_none).startswith("0 groups")


def test_a_small_group_that_is_far_worse_is_found_whatever_its_words() -> None:
    """Below 100 words a group took no part, and "no groups differ" stood beside 86 %."""
    groups = dialects([12, 12], [0.025] * 2, 0)
    groups["small"] = group([15] * 6, [13, 12, 14, 13, 12, 14], [f"small-{n}" for n in range(6)])
    pair = gap_of(groups)
    assert (pair.worst, pair.resolved) == ("small", True)


def test_each_group_is_compared_or_named_with_what_it_lacks_and_the_worst_one_always() -> None:
    groups = dialects([8, 9, 1, 8], [0.1, 0.2, 0.8, 0.3], 0)
    groups["3"].index = pd.Index([None] * 8, dtype=object)
    groups["silent"] = group([0] * 4, [0] * 4)
    gap = estimate_gap(groups.items(), "standard")
    assert gap
    assert (gap.worst, gap.compared, gap.pair and gap.pair.worst) == ("2", 2, "1")
    assert gap.not_compared[0] == NotCompared("2", "1 speaker, 2 needed")
    assert [own.group for own in gap.not_compared] == ["2", "3", "silent"]
    assert all("needed" in own.reason for own in gap.not_compared)
    assert ["unknown" in own.reason for own in gap.not_compared] == [False, True, False]
    assert estimate_gap([("silent", groups["silent"])], "standard") is None


@pytest.mark.parametrize("wrong", [0, 1, 7, 8])
def test_fewer_than_eight_speakers_with_errors_say_nothing_about_groups(wrong: int) -> None:
    groups = {}
    for name in ("a", "b", "c"):
        errors = np.zeros(15, np.int64)
        errors[:wrong] = 1 if name == "a" else 0
        groups[name] = group(np.arange(90, 105), errors, [f"{name}{n}" for n in range(15)])
    gap = estimate_gap(groups.items(), "standard")
    assert gap
    assert (gap.pair is not None) is (wrong == 8)
    number = "1 speaker " if wrong == 1 else f"{wrong} speakers"
    assert wrong == 8 or number in str(gap.why_none)


def test_groups_of_the_same_speakers_are_not_compared() -> None:
    groups = dialects([8, 8, 8], [0.1, 0.2, 0.3], 0)
    gap_of(groups)
    groups["2"].index = groups["0"].index
    gap = estimate_gap(groups.items(), "standard")
    assert gap
    assert gap.pair is None
    assert gap.why_none
    assert gap.to_dict()["pair"] is None
