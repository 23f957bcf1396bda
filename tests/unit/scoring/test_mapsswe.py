"""The matched-pairs test of segments, and the view over utterances of a comparison."""

from random import Random

import pytest

from danish_asr.scoring.comparison import compare_predictions
from danish_asr.scoring.mapsswe import error_places, matched_pairs, segment_sums
from danish_asr.scoring.settings import Settings
from tests.score_rows import prediction, random_rows


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


def test_equal_runs_differ_in_about_five_of_a_hundred_tests() -> None:
    random = Random(1)
    found = 0
    for _ in range(1000):
        differences = [random.choice([-2, -1, -1, 0, 1, 1, 2]) for _ in range(60)]
        p = matched_pairs(60, sum(differences), sum(z * z for z in differences)).p
        found += p is not None and p < 0.05
    assert 35 <= found <= 67


def test_few_speakers_have_a_view_over_their_utterances_only() -> None:
    a = list(random_rows(600, speakers=5))
    b = [prediction(r.id, r.reference, r.reference, speaker_id=r.speaker_id) for r in a]
    settings = Settings(profile="raw")
    first, second = compare_predictions(a, b, by=[], settings=settings).overall.runs
    assert second.wer_paired
    assert second.wer_paired.p is None
    difference = second.wer_paired.difference
    assert difference.interval is None
    assert difference.utterances
    assert difference.utterances.low < difference.value < difference.utterances.high < 0
    test = second.mapsswe
    assert test
    assert test.p is not None
    assert test.p < 1e-6
    assert test.mean_difference * test.segments == -first.words.errors
