"""Comparison of runs over the same rows, with seeds, and the matched-pairs test of segments."""

import json
from dataclasses import replace
from statistics import mean, stdev

import pytest

from danish_asr.base.errors import PredictionsError
from danish_asr.metrics import error_places
from danish_asr.scoring.comparison import ComparedGroup, compare_predictions, compare_runs
from danish_asr.scoring.paired import PairedRate, holm, matched_pairs, segment_sums
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scores import score_predictions
from danish_asr.scoring.settings import Settings
from tests.score_rows import four_rows, prediction, random_rows


def _better(rows: list[Prediction]) -> list[Prediction]:
    """The same run with a part of each speaker's rows recognised without errors."""
    return [
        replace(row, hypothesis=row.reference) if number // 40 % 4 == 0 else row
        for number, row in enumerate(rows)
    ]


def _wer(group: ComparedGroup) -> PairedRate:
    assert group.runs[1].wer_paired
    return group.runs[1].wer_paired


def test_the_difference_is_that_of_the_two_scores() -> None:
    a = list(random_rows(600))
    b = _better(a)
    comparison = compare_predictions(a, b, by=["dialect"])
    first, second = (score_predictions(rows, by=["dialect"]) for rows in (a, b))
    one, other = comparison.overall.runs
    assert one.wer == first.overall.wer.value
    assert other.rates["cer"] == second.overall.cer.value
    assert other.words == second.overall.words
    for group, of_a, of_b in zip(
        comparison.groupings["dialect"],
        first.groupings["dialect"].groups,
        second.groupings["dialect"].groups,
        strict=True,
    ):
        assert group.group == of_a.group
        assert _wer(group).difference.value == of_b.wer.value - of_a.wer.value


def test_rows_are_paired_by_id_and_not_by_position() -> None:
    a = list(random_rows(200))
    comparison = compare_predictions(a, _better(a)[::-1], by=["dialect"])
    assert comparison == compare_predictions(a, _better(a), by=["dialect"])


def test_equal_runs_and_few_speakers_give_no_p_value() -> None:
    many, few = (list(random_rows(1000, speakers=speakers)) for speakers in (60, 5))
    equal = _wer(compare_predictions(many, many, by=[]).overall)
    assert (equal.difference.not_resolvable, equal.p) == ("every speaker has the same value", None)
    better = _wer(compare_predictions(few, _better(few), by=[]).overall)
    assert (better.difference.not_resolvable, better.p) == ("5 speakers, 8 needed", None)


def test_other_rows_references_and_splits_are_refused() -> None:
    a = four_rows()
    b = [*a[1:], prediction("z", "ja", "ja")]
    expected = r"\(2 of them\).*\n  id 'a' of A is not in B\n  id 'z' of B is not in A$"
    with pytest.raises(PredictionsError, match=expected):
        compare_predictions(a, b)
    b = [replace(row, reference="noget andet") if row.id == "c" else row for row in a]
    with pytest.raises(PredictionsError, match="id 'c' has another reference"):
        compare_predictions(a, b)
    with pytest.raises(PredictionsError, match="splits: a of 9 rows, b of 8 rows"):
        compare_runs({"A": {"a": a}, "B": {"b": a}}, rows_in_split={"a": 9, "b": 8})
    short = [prediction("short", "ja", "ja", duration=0.1)]
    with pytest.raises(PredictionsError, match="no row to compare"):
        compare_predictions(short, short, settings=Settings(row_filter="coral"))
    runs = {"base": {"a.jsonl": a}, "new": {"b.jsonl": a, "c.jsonl": a[:-1]}}
    with pytest.raises(PredictionsError, match=r"id 'd' of a.jsonl is not in c.jsonl"):
        compare_runs(runs)


def test_holm_of_worked_examples() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.02, 0.02]) == pytest.approx([0.9, 0.06, 0.06])
    assert holm([]) == []


def _rows(seed: int, *, better: bool = False) -> list[Prediction]:
    """The same references in every run, with errors by the seed."""
    references = [row.reference for row in random_rows(400, speakers=20)]
    others = random_rows(400, speakers=20, seed=seed)
    return [
        replace(row, reference=reference, hypothesis=reference if better and n % 3 else hypothesis)
        for n, (row, reference) in enumerate(zip(others, references, strict=True))
        for hypothesis in [f"{reference} {row.hypothesis.split(' ')[0]}" if n % 4 else reference]
    ]


def test_seeds_are_averaged_and_their_spread_is_shown() -> None:
    seeds = [_rows(1, better=True), _rows(2), _rows(3)]
    compared = compare_runs({"base": {"x": _rows(4)}, "new": dict(zip("abc", seeds, strict=True))})
    alone = [score_predictions(rows).overall for rows in seeds]
    new = compared.overall.runs[1]
    assert new.wer == pytest.approx(mean(score.wer.value for score in alone))
    assert new.deviations["wer"] == pytest.approx(stdev(score.wer.value for score in alone))
    assert new.deviations["cer"] == pytest.approx(stdev(score.cer.value for score in alone))
    base = compared.overall.runs[0]
    assert (base.deviations["wer"], base.wer_paired, new.mapsswe) == (None, None, None)
    assert new.wer_paired
    assert new.wer_paired.difference.value == pytest.approx(new.wer - base.wer)


def test_a_run_of_one_seed_is_compared_as_by_two_files_and_holm_covers_all_runs() -> None:
    base, one, two = _rows(1), _rows(2, better=True), _rows(3)
    compared = compare_runs({"base": {"x": base}, "one": {"y": one}, "two": {"z": two}})
    p_values = []
    for rows, score in zip((one, two), compared.overall.runs[1:], strict=True):
        alone = compare_predictions(base, rows).overall.runs[1]
        assert score.wer_paired
        assert alone.wer_paired
        assert score.wer_paired.difference == alone.wer_paired.difference
        assert score.mapsswe
        assert alone.mapsswe
        assert score.mapsswe.p == alone.mapsswe.p
        p_values.append(alone.wer_paired.p or 0.0)
    adjusted = [score.wer_paired.p_adjusted for score in compared.overall.runs if score.wer_paired]
    assert adjusted == holm(p_values)
    groups = compared.groupings["dialect"]
    tests = [run.wer_paired for group in groups for run in group.runs if run.wer_paired]
    in_groups = [test.p for test in tests if test.p is not None]
    assert [t.p_adjusted for t in tests if t.p_adjusted is not None] == holm(in_groups)
    json.dumps(compared.to_dict())
    assert len(compared.to_pandas()) == 3 * (1 + sum(map(len, compared.groupings.values())))


def _sums(reference: str, a: str, b: str) -> tuple[int, int, int]:
    places = (error_places(reference.split(), text.split()) for text in (a, b))
    return segment_sums(*places)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("a b c d e f", "a b c d e f", (0, 0, 0)),
        ("X b c d e f", "a b c d e f", (1, -1, 1)),
        ("X b c d e f", "a b c Y e f", (2, 0, 2)),  # two correct words between: two segments
        ("X b c d e f", "a b Y d e f", (1, 0, 0)),  # one: a single segment, in which they are equal
        ("a b z c d e f", "a b c d e f", (1, -1, 1)),  # an insertion
        ("a z b y c d e f", "a b c d e f", (1, -2, 4)),  # "b" alone does not end a segment
        ("b c d e f", "a b c d e z y", (2, 1, 5)),
        ("", "a b c d e f", (1, -6, 36)),
    ],
)
def test_two_words_correct_in_both_runs_end_a_segment(
    a: str, b: str, expected: tuple[int, int, int]
) -> None:
    assert _sums("a b c d e f", a, b) == expected


def test_the_statistic_of_a_worked_example() -> None:
    # Z is 1 ten times, -1 five times, 0 else: mean 5/30, variance (15 - 30/36) / 29, W = 1.3061.
    test = matched_pairs(30, 5, 15)
    assert test.mean_difference == pytest.approx(1 / 6)
    assert test.p == pytest.approx(0.19152, abs=1e-5)
    assert matched_pairs(0, 0, 0).p is None
    assert matched_pairs(29, 5, 15).p is None  # too few for the normal approximation
    assert matched_pairs(30, 30, 30).p is None  # all differences are equal
