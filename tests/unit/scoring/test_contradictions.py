"""Which rows a model contradicts, and how."""

from math import exp

import pytest

from danish_asr.base.errors import PredictionsError
from danish_asr.scoring.contradictions import (
    GARBLED,
    NO_SPEECH,
    NO_TEXT,
    OTHER_TEXT,
    TOO_LONG,
    TOO_SHORT,
    UNCLEAR,
    contradicted_by_all,
    judge,
)
from danish_asr.scoring.predictions import Prediction
from tests.score_rows import prediction

TEXT = "det er koldt i dag"


def row(
    name: str, reference: str, hypothesis: str, loss: float | None, confidence: float = 0.99
) -> Prediction:
    return prediction(name, reference, hypothesis, loss=loss, confidence=confidence)


def usual(count: int = 20, *, spread: float = 0.02) -> list[Prediction]:
    """Rows that a model recognises, with losses from 0 to twice the spread."""
    losses = (2 * spread * (number % 10) / 9 for number in range(count))
    return [row(f"usual {n}", TEXT, TEXT, loss, exp(-loss)) for n, loss in enumerate(losses)]


def kinds(*rows: Prediction) -> dict[str, str]:
    found = judge([*usual(), *rows], "run").contradictions
    return {name: contradiction.kind for name, contradiction in found.items()}


@pytest.mark.parametrize(
    ("kind", "reference", "hypothesis", "loss", "confidence"),
    [
        (OTHER_TEXT, TEXT, "hun bor ved vandet", 8.0, 0.98),
        (TOO_LONG, TEXT, "det er ko", 9.0, 0.95),
        (TOO_LONG, TEXT, "det", None, 0.95),
        (TOO_SHORT, "det er", TEXT, 12.0, 0.99),
        (GARBLED, "det xq koldt k pqg", TEXT, 6.0, 0.99),
        (UNCLEAR, TEXT, "s ss ø", 8.0, 0.6),
        (NO_SPEECH, TEXT, "", 3.0, 1e-30),
        (NO_SPEECH, TEXT, "d", 8.0, 0.9),
        (NO_TEXT, "", TEXT, 90.0, 0.99),
    ],
)
def test_each_kind_of_fault_has_a_name(
    kind: str, reference: str, hypothesis: str, loss: float | None, confidence: float
) -> None:
    assert kinds(row("a", reference, hypothesis, loss, confidence)) == {"a": kind}


def test_a_difficult_voice_and_a_short_text_with_one_error_are_not_contradicted() -> None:
    unsure = row("unsure", TEXT, "den er kål i da", 1.9, exp(-0.8))
    short = row("short", "ja", "jo", 3.0)
    assert kinds(unsure, short) == {}


@pytest.mark.parametrize("spread", [0.001, 0.3])
@pytest.mark.parametrize("wrong", [0, 1, 15])
def test_wrong_texts_are_found_however_many_there_are_below_a_half(
    spread: float, wrong: int
) -> None:
    rows = usual(20, spread=spread)
    rows += [row(f"wrong {n}", "hun bor ved vandet", TEXT, 8.0) for n in range(wrong)]
    assert {*judge(rows, "run").contradictions} == {f"wrong {n}" for n in range(wrong)}


def test_texts_that_need_more_frames_are_listed_also_where_most_do() -> None:
    cut = [row(f"cut {n}", TEXT, "det er koldt i", None) for n in range(12)]
    assert {*judge([*usual(8), *cut], "run").contradictions} == {found.id for found in cut}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(str(n), TEXT, "e", 4.0, 0.1) for n in range(20)], "run: the model is too weak"),
        ([row("a", TEXT, TEXT, None), row("b", TEXT, TEXT, None)], "run: no row has a loss"),
        ([prediction("a", TEXT, TEXT)], "'a' has no confidence: .*evaluate the model again"),
    ],
)
def test_a_weak_model_and_predictions_without_measures_are_refused(
    rows: list[Prediction], message: str
) -> None:
    with pytest.raises(PredictionsError, match=message):
        judge(rows, "run")


def test_of_two_models_that_judge_a_row_both_have_to_contradict_it() -> None:
    one = judge([*usual(), row("a", TEXT, "nej", 9.0), row("b", TEXT, "nej", 9.0)], "one")
    other = judge([*usual(), row("a", TEXT, "nej", 7.0), row("b", TEXT, TEXT, 0.1)], "other")
    third = judge([*usual(), row("c", TEXT, "nej", 8.0)], "third")
    found = contradicted_by_all([one, other, third])
    assert [contradiction.row.id for contradiction in found] == ["c", "a"]
    assert found[1].gap == pytest.approx(7.0, abs=0.1)
