"""``danish-asr score``, from file to table, JSON and page."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from danish_asr.errors import ConfigError, PredictionsError
from danish_asr.predictions import Prediction, write_predictions
from danish_asr.report import score_file


def _rows() -> list[Prediction]:
    return [
        _row("a", "det er koldt", "det er koldt", "Fynsk"),
        _row("b", "det er varmt", "det var varmt", "Fynsk"),
        _row("c", "Øh, det er 21 grader", "", "Bornholmsk"),
        _row("d", "ja", "ja ja", None),
    ]


def _row(row_id: str, reference: str, hypothesis: str, dialect: str | None) -> Prediction:
    return Prediction(
        id=row_id,
        corpus="coral",
        split="test",
        reference=reference,
        hypothesis=hypothesis,
        duration=2.0,
        speaker_id="s1",
        dialect=dialect,
    )


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, _rows())
    return path


def _console() -> Console:
    return Console(record=True, width=120, file=io.StringIO())


def test_scores_json_counts_every_row_once_in_every_grouping(predictions: Path) -> None:
    path = predictions.with_name("scores.json")
    score_file(predictions, json_path=path, console=_console())
    scores = json.loads(path.read_text(encoding="utf-8"))
    assert scores["rows"]["scored"] == 4
    assert scores["overall"]["words"] == {
        "hits": 6,
        "substitutions": 1,
        "deletions": 4,
        "insertions": 1,
    }
    for groups in scores["groups"].values():
        assert sum(group["rows"] for group in groups) == 4
        assert sum(group["words"]["deletions"] for group in groups) == 4


def test_a_partial_file_is_scored_with_a_warning(predictions: Path) -> None:
    _evaluation(predictions, 5)
    console = _console()
    assert score_file(predictions, console=console).is_partial
    shown = console.export_text()
    assert "warning: the predictions are partial: 4 of 5 rows" in shown
    assert "4 rows scored of 5 in the split" in shown


def test_more_rows_than_the_split_has_are_refused(predictions: Path) -> None:
    _evaluation(predictions, 3)
    with pytest.raises(PredictionsError, match="has 4 rows, but the split has 3"):
        score_file(predictions, console=_console())


def test_an_unreadable_evaluation_file_is_refused(predictions: Path) -> None:
    predictions.with_name("evaluation.json").write_text("{}", encoding="utf-8")
    with pytest.raises(PredictionsError, match=r'evaluation.json: expected .*"rows_in_split"'):
        score_file(predictions, console=_console())


def _evaluation(predictions: Path, rows: int) -> None:
    text = json.dumps({"rows_in_split": {"test": rows}, "dataset": "d", "checkpoint": "c"})
    predictions.with_name("evaluation.json").write_text(text, encoding="utf-8")


def test_an_unknown_column_is_refused_with_the_known_ones(predictions: Path) -> None:
    with pytest.raises(ConfigError, match=r"'dialekt' is no column .* they have corpus, split"):
        score_file(predictions, by=["dialekt"], console=_console())


def test_markup_in_a_label_is_shown_as_text(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, [_row("a", "ja", "ja", "<script>alert(1)</script>[red]")])
    console = _console()
    score_file(path, console=console, html_path=tmp_path / "report.html")
    assert "<script>alert(1)</script>[red]" in console.export_text()
    assert "<script>alert" not in (tmp_path / "report.html").read_text(encoding="utf-8")
