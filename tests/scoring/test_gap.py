import numpy as np
import pandas as pd
import pytest

from danish_asr.scoring.gap import Gap, estimate_gap
from tests.score_groups import dialects, group


def gap_of(groups: dict[str, pd.DataFrame]) -> Gap:
    """Return the gap, whose interval and p say the same."""
    gap = estimate_gap(groups.items(), "standard")
    assert gap
    assert gap.resolved == (gap.interval.low > 0)
    assert gap.interval.low <= gap.difference <= gap.interval.high
    return gap


def test_a_gap_is_found_where_groups_differ_and_not_where_they_are_equal() -> None:
    different = gap_of(dialects([12] * 4, [0.1, 0.1, 0.1, 0.4], seed=0))
    assert different.resolved
    assert different.p == 1 / 2000  # no permutation is as extreme as what was observed
    assert not gap_of(dialects([12] * 4, [0.17] * 4, seed=0)).resolved


def test_the_memory_that_permutations_may_take_changes_no_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = dialects([9, 3, 4], [0.1, 0.2, 0.3], 0)
    whole = gap_of(groups)
    monkeypatch.setattr("danish_asr.scoring.gap._NUMBERS", 16 * 700)
    assert gap_of(groups) == whole


@pytest.mark.parametrize(("as_extreme", "worst"), [(None, "1"), (99, "1"), (98, "2")])
def test_where_the_extreme_group_is_small_the_pair_that_differs_is_named(
    monkeypatch: pytest.MonkeyPatch, as_extreme: int | None, worst: str
) -> None:
    if as_extreme is not None:  # than the extreme groups; at 99 their p is 0.05
        largest = np.repeat([0.0, 3.0], [1999 - as_extreme, as_extreme])
        monkeypatch.setattr("danish_asr.scoring.gap._largest_of_permuted", lambda *_: largest)
    gap = gap_of(dialects([60, 60, 3], [0.12, 0.17, 0.19], seed=4))
    assert (gap.worst, gap.best) == (worst, "0")


@pytest.mark.parametrize("extreme", [98, 99])
def test_the_interval_and_the_p_value_say_the_same_at_five_per_cent(
    monkeypatch: pytest.MonkeyPatch, extreme: int
) -> None:
    largest = np.repeat([0.0, 1e3], [1999 - extreme, extreme])
    monkeypatch.setattr("danish_asr.scoring.gap._largest_of_permuted", lambda *_: largest)
    assert gap_of(dialects([12] * 2, [0.1, 0.3], 0)).p == (extreme + 1) / 2000


@pytest.mark.parametrize("critical", [2.0, 4.0, 40.0])
def test_the_interval_of_a_gap_is_that_of_two_rates_with_the_pooled_error(
    monkeypatch: pytest.MonkeyPatch, critical: float
) -> None:
    monkeypatch.setattr(
        "danish_asr.scoring.gap._largest_of_permuted", lambda *_: np.full(1999, critical)
    )
    best, worst = np.array([10, 20, 30] * 3), np.array([40, 60, 80] * 4)
    groups = {
        name: group([200] * len(own), own, [f"{name}{n}" for n in range(len(own))])
        for name, own in (("best", best), ("worst", worst))
    }
    gap = gap_of(groups)
    squares = sum(((own / own.mean() - 1) ** 2).sum() for own in (best, worst))
    errors = np.sqrt(squares / 19 / np.array([9, 12]))  # relative; 21 speakers, 2 groups
    assert gap.difference == pytest.approx(0.2)
    reach = critical * np.hypot(0.1 * errors[0], 0.3 * errors[1])
    assert gap.interval.high == pytest.approx(0.2 + reach)
    ratio = 3 * np.exp(-critical * np.hypot(*errors))
    low = max(0.2 - reach, 0.1 * np.exp(-critical * errors[0]) * (ratio - 1))
    assert gap.interval.low == pytest.approx(low if ratio > 1 else min(0.2 - reach, 0))


def test_small_equal_groups_can_be_compared_unless_the_speakers_of_each_are_alike() -> None:
    """All permutations were dropped where one of them left no spread, and numpy raised."""
    groups = {
        name: group([50] * 4, [1, 1, 2, 2], [f"{name}{n}" for n in range(4)]) for name in ("a", "b")
    }
    equal = gap_of(groups)
    assert (equal.difference, equal.p) == (0, 1)
    for name, errors in (("a", [1, 1, 1, 2]), ("b", [1, 2, 2, 2])):
        groups[name] = group([50] * 4, errors, [f"{name}{n}" for n in range(4)])
    # Of 70 divisions 32 differ as much, and 2 without a spread more.
    assert gap_of(groups).p == pytest.approx(34 / 70, abs=0.02)
    for wrong, own in enumerate(groups.values(), 1):
        own[["word_hits", "word_substitutions"]] = [50, wrong]
    assert estimate_gap(groups.items(), "standard") is None


@pytest.mark.parametrize(("count", "compared"), [(1, False), (2, True), (100, True), (101, False)])
def test_one_group_and_more_than_a_hundred_are_not_compared(
    monkeypatch: pytest.MonkeyPatch, count: int, compared: bool
) -> None:
    monkeypatch.setattr("danish_asr.scoring.gap._largest_of_permuted", lambda *_: np.ones(1999))
    gap = estimate_gap(dialects([8] * count, [0.2] * count, 0).items(), "standard")
    assert (gap is not None) is compared
    assert not gap or gap.groups == count


def test_groups_of_two_speakers_or_99_words_are_not_compared() -> None:
    groups = dialects([8, 9, 2, 8], [0.1, 0.2, 0.8, 0.3], 0)
    groups["3"] = group([12] * 7 + [15], np.full(8, 6), [*groups["3"].index])
    assert gap_of(groups).groups == 2


@pytest.mark.parametrize("words", [120, 1000])
def test_a_group_without_errors_is_the_best_with_its_own_rate(words: int) -> None:
    groups = {}
    for name, length, errors in (("a", words, 0), ("b", 1000, 1), ("c", 1000, 200)):
        wrong = np.minimum(np.arange(1, 9) * errors, 1000)
        groups[name] = group(np.full(8, length), wrong, [f"{name}{n}" for n in range(8)])
    gap = gap_of(groups)
    assert (gap.worst, gap.best, gap.groups) == ("c", "a", 3)


@pytest.mark.parametrize("wrong", [0, 1, 7, 8])
def test_fewer_than_eight_speakers_with_errors_say_nothing_about_groups(wrong: int) -> None:
    groups = {}
    for name in ("a", "b", "c"):
        errors = np.zeros(15, np.int64)
        errors[:wrong] = 1 if name == "a" else 0
        groups[name] = group(np.arange(90, 105), errors, [f"{name}{n}" for n in range(15)])
    assert (estimate_gap(groups.items(), "standard") is not None) is (wrong == 8)
