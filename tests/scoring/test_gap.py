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
