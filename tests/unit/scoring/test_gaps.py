"""The gap between groups, what it would take to show it, and intervals of small groups."""

from collections.abc import Sequence

import numpy as np
import pytest

from danish_asr.metrics import Counts
from danish_asr.scoring.gaps import Gap, estimate_gap
from danish_asr.scoring.pooled import pooled_intervals
from danish_asr.scoring.scored_rows import GroupSums, IntArray
from danish_asr.scoring.settings import Settings

SETTINGS = Settings()
EIGHT = np.linspace(0.1, 0.24, 8).tolist()  # rates of dialects
FEW = [5, 5, 5, 4, 4, 4, 4, 4]  # speakers of each, 35 in all


def make_group(name: str, words: IntArray, errors: IntArray, speakers: Sequence[str]) -> GroupSums:
    """Speakers with word substitutions only."""
    sums = np.zeros((len(words), 9), np.int64)
    sums[:, 1], sums[:, 2] = words - errors, errors
    return GroupSums({"dialect": name}, speakers, sums, sums)


def dialects(sizes: Sequence[int], rates: Sequence[float], seed: int) -> list[GroupSums]:
    """Groups of different speakers, whose rates vary log-normally (sigma 0.5)."""
    generator = np.random.default_rng(seed)
    groups: list[GroupSums] = []
    for number, (size, rate) in enumerate(zip(sizes, rates, strict=True)):
        words = generator.integers(200, 600, size)
        own = np.minimum(rate * np.exp(generator.normal(-0.125, 0.5, size)), 1)
        speakers = [f"{number}-{speaker}" for speaker in range(size)]
        groups.append(make_group(f"{number}", words, generator.binomial(words, own), speakers))
    return groups


def conditions(rates: Sequence[float], seed: int) -> list[GroupSums]:
    """Groups of the same twenty speakers."""
    generator = np.random.default_rng(seed)
    speaker_factors = np.exp(generator.normal(-0.125, 0.5, 20))
    groups: list[GroupSums] = []
    for number, rate in enumerate(rates):
        words = generator.integers(100, 200, 20)
        own = rate * speaker_factors * np.exp(generator.normal(0, 0.1, 20))
        errors = generator.binomial(words, np.minimum(own, 1))
        groups.append(make_group(f"{number}", words, errors, [f"s{n}" for n in range(20)]))
    return groups


def gap_of(groups: list[GroupSums]) -> Gap:
    """Return the gap, whose interval, ratio, p and pairs say the same."""
    gap = estimate_gap(groups, SETTINGS)
    assert gap
    assert gap.difference.interval
    assert gap.resolved == (gap.difference.interval.low > 0)
    assert gap.difference.interval.low <= gap.difference.value <= gap.difference.interval.high
    if gap.ratio.interval:
        assert gap.resolved == (gap.ratio.interval.low > 1)
    assert gap.resolved == bool(gap.pairs)
    return gap


@pytest.mark.parametrize(
    ("sizes", "least"), [([8] * 8, 0.5), ([12] * 8, 0.7), (FEW, 0.2)], ids=["8", "12", "35 in all"]
)
def test_a_gap_between_dialects_is_found_and_equal_ones_differ_rarely(
    sizes: list[int], least: float
) -> None:
    found = [gap_of(dialects(sizes, EIGHT, seed)).resolved for seed in range(40)]
    assert np.mean(found) >= least
    by_chance = [gap_of(dialects(sizes, [0.17] * 8, seed)).resolved for seed in range(100)]
    assert np.mean(by_chance) <= 0.11


def test_groups_of_the_same_speakers_are_paired() -> None:
    gaps = [gap_of(conditions([0.15, 0.16, 0.17, 0.2], seed)) for seed in range(40)]
    assert all(gap.paired for gap in gaps)
    assert np.mean([gap.resolved for gap in gaps]) > 0.8
    equal = [gap_of(conditions([0.16] * 4, seed)).resolved for seed in range(100)]
    assert np.mean(equal) <= 0.08


def test_where_the_extreme_group_is_small_the_pair_that_differs_is_named() -> None:
    gap = gap_of(dialects([60, 60, 3], [0.12, 0.17, 0.19], seed=4))
    assert (gap.worst, gap.best, gap.extreme) == ("1", "0", False)
    assert [(pair.worse, pair.better) for pair in gap.pairs] == [("1", "0")]


def test_a_gap_that_is_not_found_says_how_many_speakers_it_needs() -> None:
    found = gap_of(dialects([10, 10], [0.18, 0.2], seed=3))
    assert not found.resolved
    assert found.needs.smallest_detectable > found.difference.value
    assert found.needs.speakers_needed
    assert found.needs.speakers_needed > 20


@pytest.mark.parametrize("count", [1, 101])
def test_one_group_and_a_hundred_are_not_compared(count: int) -> None:
    assert estimate_gap(dialects([8] * count, [0.2] * count, 0), SETTINGS) is None


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("words", [15, 1000])
def test_a_group_without_errors_is_the_best_with_its_own_rate_and_no_ratio(
    words: int, *, paired: bool
) -> None:
    others = ["a" if paired else "b", "a" if paired else "c"]
    groups: list[GroupSums] = []
    for name, length, errors in (("a", words, 0), (others[0], 1000, 1), (others[1], 1000, 200)):
        speakers = [f"{name}{n}" for n in range(8)]
        wrong = np.minimum(np.arange(1, 9) * errors, 1000)
        groups.append(make_group(f"{errors}", np.full(8, length), wrong, speakers))
    gap = gap_of(groups)
    assert (gap.worst, gap.best, gap.groups, gap.extreme) == ("200", "0", 3, True)
    assert gap.difference.value == gap.wer.value
    assert gap.ratio.to_dict()["value"] is None
    if words < 100:  # in which half an error is a higher rate than that of the others
        assert not [pair for pair in gap.pairs if pair.worse == "1"]


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("wrong", [0, 1, 7])
def test_few_speakers_with_errors_say_nothing_about_groups(wrong: int, *, paired: bool) -> None:
    groups: list[GroupSums] = []
    for name in ("a", "b", "c"):
        errors = np.zeros(15, np.int64)
        errors[:wrong] = 1 if name == "a" else 0
        speakers = [f"{'a' if paired else name}{n}" for n in range(15)]
        groups.append(make_group(name, np.arange(90, 105), errors, speakers))
    assert estimate_gap(groups, SETTINGS) is None


def test_a_small_group_whose_speakers_are_alike_has_no_pooled_interval() -> None:
    none, alike, *others = dialects([4, 4, 4, 4, 9], [0.2] * 5, 0)
    none.sums[:, 1:3] = [100, 0]
    alike.sums[:, 1:3] = [80, 20]
    assert {*pooled_intervals([none, alike, *others], SETTINGS)} == {"2", "3"}


def test_a_pooled_interval_of_a_small_group_holds_its_rate() -> None:
    held: list[bool] = []
    for seed in range(100):
        intervals = pooled_intervals(dialects(FEW, EIGHT[::-1], seed), SETTINGS)
        pairs = zip(EIGHT[::-1], intervals.values(), strict=True)
        held += [low <= rate <= high for rate, (low, high) in pairs]
    assert 0.88 <= np.mean(held) <= 0.98
    assert pooled_intervals(conditions([0.2, 0.3], 0), SETTINGS) == {}
    assert pooled_intervals(dialects([3, 2], [0.2, 0.3], 0), SETTINGS) == {}


def test_insertions_count_in_the_denominator_of_coral() -> None:
    groups = dialects([8, 8], [0.1, 0.3], 0)
    for group in groups:
        group.sums[:, 4] = 20
    gap = estimate_gap(groups, Settings(denominator="coral"))
    assert gap
    totals = [Counts(*map(int, group.sums[:, 1:5].sum(axis=0))) for group in groups]
    best, worst = sorted(total.rate("coral") for total in totals)
    assert gap.difference.value == pytest.approx(worst - best, abs=1e-3)
