from math import exp

import pytest

from danish_asr.base.errors import PredictionsError
from danish_asr.base.tables import Row
from danish_asr.scoring.contradictions import NO_SPEECH, OTHER_TEXT, TOO_LONG, Judgement, judge
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.settings import Settings
from tests.score_groups import row
from tests.score_rows import prediction

TEXT = "det er koldt i dag"


def usual(count: int = 20, *, gap: float = 0.02) -> list[Row]:
    """Rows that a model recognises, with gaps from 0 to ``gap``."""
    gaps = (gap * number / (count - 1) for number in range(count))
    return [row(f"usual {n}", TEXT, TEXT, own, 1.0) for n, own in enumerate(gaps)]


def _judge(rows: list[Row]) -> Judgement:
    return judge(read_predictions(rows), "run", Settings())


def kinds(*rows: Row) -> dict[str, str]:
    judgement = _judge([*usual(), *rows])
    return {one["id"]: one["kind"] for one in judgement.contradictions}


@pytest.mark.parametrize(
    ("kind", "reference", "hypothesis", "loss", "confidence"),
    [
        (OTHER_TEXT, TEXT, "hun bor ved vandet", 8.0, 0.98),
        (OTHER_TEXT, "det xq koldt k pqg", TEXT, 6.0, 0.99),
        (TOO_LONG, TEXT, "det er", None, 0.95),
        (NO_SPEECH, TEXT, "", 3.0, 0.0),
        (NO_SPEECH, TEXT, "det", 8.0, 0.9),
        (OTHER_TEXT, TEXT[:10], "de", 8.0, 0.9),
        (NO_SPEECH, "", TEXT, 90.0, 0.99),
    ],
)
def test_each_kind_of_contradicted_row_has_a_name(
    kind: str, reference: str, hypothesis: str, loss: float | None, confidence: float
) -> None:
    assert kinds(row("a", reference, hypothesis, loss, confidence)) == {"a": kind}


def test_a_text_without_targets_is_no_text_and_silence_does_not_contradict_it() -> None:
    heard = row("heard", "?!", TEXT, None, 0.95, seconds=None)
    silent = row("silent", "?!", "", None, 0.95, seconds=None)
    assert kinds(heard, silent) == {"heard": NO_SPEECH}


SHORT = (("ja", 3.4), ("ja", 3.5), ("i", 6.9), ("i", 7.0))


def test_a_difficult_voice_and_a_short_text_with_one_error_are_not_contradicted() -> None:
    unsure = row("unsure", TEXT, "den er kål i da", 1.9, exp(-0.8))
    short = [row(f"{text} {loss}", text, "jo", loss) for text, loss in SHORT]
    assert {*kinds(unsure, *short)} == {"ja 3.5", "i 7.0"}  # e^(2 * 3.5) is above 1000


@pytest.mark.parametrize(("of_others", "least"), [(0.0, 1.5), (1.0, 2.97)])
def test_a_gap_stands_out_among_those_of_the_other_rows(of_others: float, least: float) -> None:
    for gap in (least - 0.1, least + 0.1):
        rows = [*usual(21, gap=of_others), row("a", TEXT, "hun bor ved vandet", gap, 1.0)]
        listed = _judge(rows).contradictions
        assert [one["id"] for one in listed] == ["a"] * (gap > least)


@pytest.mark.parametrize("wrong", [0, 1, 15])
def test_wrong_texts_are_listed_however_many_there_are_below_a_half(wrong: int) -> None:
    rows = [*usual(), *(row(f"wrong {n}", TEXT[::-1], TEXT, 8.0) for n in range(wrong))]
    judgement = _judge(rows)
    assert judgement.judged == 20 + wrong
    assert {one["id"] for one in judgement.contradictions} == {f"wrong {n}" for n in range(wrong)}


def test_texts_that_need_more_frames_come_first_then_the_largest_gaps() -> None:
    cut = [row(f"cut {n}", TEXT, "det er koldt i", None) for n in range(12)]
    assert [*kinds(*cut[::-1])] == sorted(f"cut {n}" for n in range(12))
    wrong = [row(f"wrong {loss}", TEXT, "hun bor ved vandet", loss) for loss in (6.0, 8.0)]
    assert [*kinds(*wrong, cut[0])] == ["cut 0", "wrong 8.0", "wrong 6.0"]
    # Also where most rows are such.
    assert len(_judge([*usual(8), *cut]).contradictions) == len(cut)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(str(n), TEXT, "e", 4.0, 0.1) for n in range(20)], "run: the model is too weak"),
        ([prediction("a", TEXT, TEXT)], "'a' has no confidence, .*evaluate a model"),
        (
            [*usual(), prediction("a", TEXT, TEXT, confidence="high")],
            "'a' has no confidence",
        ),
        (
            [*usual(), prediction("a", TEXT, TEXT, confidence=1, loss=[1])],
            "'a' has .* a text",
        ),
    ],
)
def test_a_weak_model_and_predictions_without_measures_are_refused(
    rows: list[Row], message: str
) -> None:
    with pytest.raises(PredictionsError, match=message):
        _judge(rows)


def test_a_model_with_half_of_the_characters_wrong_can_judge() -> None:
    rows = [row(str(n), "abcd", "ab", 4.0, 0.1) for n in range(9)]
    assert _judge(rows).judged == 9
