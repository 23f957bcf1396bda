from math import exp, inf

import pytest

from danish_asr.base.errors import PredictionsError
from danish_asr.scoring.contradictions import NO_SPEECH, OTHER_TEXT, TOO_LONG, judge
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.settings import Settings
from tests.score_groups import row
from tests.score_rows import prediction

TEXT = "det er koldt i dag"


def usual(count: int = 20, *, spread: float = 0.02) -> list[Prediction]:
    """Rows that a model recognises, with losses from 0 to twice the spread."""
    losses = (2 * spread * (number % 10) / 9 for number in range(count))
    return [row(f"usual {n}", TEXT, TEXT, loss, exp(-loss)) for n, loss in enumerate(losses)]


def kinds(*rows: Prediction) -> dict[str, str]:
    judgement = judge([*usual(), *rows], "run", Settings())
    return {one["id"]: one["kind"] for one in judgement.contradictions}


@pytest.mark.parametrize(
    ("kind", "reference", "hypothesis", "loss", "confidence"),
    [
        (OTHER_TEXT, TEXT, "hun bor ved vandet", 8.0, 0.98),
        (OTHER_TEXT, "det xq koldt k pqg", TEXT, 6.0, 0.99),
        (TOO_LONG, TEXT, "det er", None, 0.95),
        (NO_SPEECH, TEXT, "", 3.0, 1e-30),
        (NO_SPEECH, TEXT, "d", 8.0, 0.9),
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


def test_a_difficult_voice_and_a_short_text_with_one_error_are_not_contradicted() -> None:
    unsure = row("unsure", TEXT, "den er kål i da", 1.9, exp(-0.8))
    short = row("short", "ja", "jo", 3.0)
    assert kinds(unsure, short) == {}


@pytest.mark.parametrize("spread", [0.001, 0.3])
@pytest.mark.parametrize("wrong", [0, 1, 15])
def test_wrong_texts_are_listed_however_many_there_are_below_a_half(
    spread: float, wrong: int
) -> None:
    rows = usual(20, spread=spread)
    rows += [row(f"wrong {n}", "hun bor ved vandet", TEXT, 8.0) for n in range(wrong)]
    listed = judge(rows, "run", Settings()).contradictions
    assert {one["id"] for one in listed} == {f"wrong {n}" for n in range(wrong)}


def test_texts_that_need_more_frames_come_first_also_where_most_do() -> None:
    cut = [row(f"cut {n}", TEXT, "det er koldt i", None) for n in range(12)]
    listed = judge([*usual(8), *cut], "run", Settings()).contradictions
    assert [one["gap"] for one in listed] == [inf] * len(cut)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(str(n), TEXT, "e", 4.0, 0.1) for n in range(20)], "run: the model is too weak"),
        ([prediction("a", TEXT, TEXT)], "'a' has no confidence: .*evaluate a model"),
    ],
)
def test_a_weak_model_and_predictions_without_measures_are_refused(
    rows: list[Prediction], message: str
) -> None:
    with pytest.raises(PredictionsError, match=message):
        judge(rows, "run", Settings())
