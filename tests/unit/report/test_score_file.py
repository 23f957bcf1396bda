"""``score_file``: from a predictions file to the table and the reports."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from danish_asr.errors import ConfigError, DanishAsrError, PredictionsError
from danish_asr.report import score_file
from danish_asr.scoring.predictions import write_predictions
from danish_asr.scoring.settings import Settings
from tests.score_rows import four_rows, prediction, random_rows

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, four_rows())
    return path


def _console() -> Console:
    return Console(record=True, width=120, file=io.StringIO())


def test_scores_json_counts_every_row_once_in_every_grouping(predictions: Path) -> None:
    path = predictions.with_name("scores.json")
    score_file(predictions, json_path=path, console=_console())
    scores = json.loads(path.read_text(encoding="utf-8"))
    assert scores["rows"]["scored"] == 4
    errors = {"hits": 6, "substitutions": 1, "deletions": 4, "insertions": 1}
    assert scores["overall"]["words"] == errors
    assert set(scores["groupings"]) >= {"dialect", "age_group", "gender", "duration"}
    for grouping in scores["groupings"].values():
        assert sum(group["rows"] for group in grouping["groups"]) == 4
        assert sum(group["words"]["deletions"] for group in grouping["groups"]) == 4


def test_table_json_csv_and_markdown_are_unchanged(tmp_path: Path) -> None:
    # Two dialects and rows of six words, so that the files stay small.
    rows = [
        prediction(row.id, row.reference, row.hypothesis, speaker_id=row.speaker_id,
                   dialect=row.dialect, gender=row.gender, duration=9.5)
        for row in random_rows(1500)
        if row.gender and row.dialect in {"Fynsk", "Østjysk"} and len(row.reference.split()) == 6
    ]  # fmt: skip
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, rows)
    console = _console()
    names = ["scores.json", "scores.csv", "scores.md"]
    by_json, by_csv, by_markdown = (tmp_path / name for name in names)
    score_file(
        path,
        by=["dialect", "corpus,gender"],
        json_path=by_json,
        csv_path=by_csv,
        markdown_path=by_markdown,
        console=console,
    )
    shown = console.export_text().replace(f"{tmp_path}/", "")
    (tmp_path / "scores.txt").write_text(shown, encoding="utf-8")
    for name in [*names, "scores.txt"]:
        text = (tmp_path / name).read_text(encoding="utf-8")
        text = re.sub(r"\n {6,}", " ", text)  # a line per group of the JSON
        if "UPDATE_GOLDEN" in os.environ:
            (GOLDEN / name).write_text(text, encoding="utf-8")
        assert text == (GOLDEN / name).read_text(encoding="utf-8"), name


@pytest.mark.parametrize(
    ("dialect", "cell"), [("@SUM(A1)", "'@SUM(A1)"), ("-1+cmd|x", "'-1+cmd|x"), ("-1.5", "-1.5")]
)
def test_no_name_in_the_csv_is_a_formula(tmp_path: Path, dialect: str, cell: str) -> None:
    predictions, path = tmp_path / "predictions.jsonl", tmp_path / "scores.csv"
    write_predictions(predictions, [prediction("a", "ja", "nej", dialect=dialect)])
    score_file(predictions, by=["dialect"], csv_path=path, console=_console())
    lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert lines[1]["group"] == cell


def _evaluation(predictions: Path, document: Any) -> None:
    predictions.with_name("evaluation.json").write_text(json.dumps(document), encoding="utf-8")


def test_a_partial_file_is_scored_with_a_warning_everywhere(predictions: Path) -> None:
    _evaluation(predictions, {"rows_in_split": {"test": 9}, "model": "m1"})
    console = _console()
    page, block = predictions.with_name("report.html"), predictions.with_name("block.md")
    scores = score_file(predictions, console=console, html_path=page, markdown_path=block)
    assert scores.rows.partial
    for text in (console.export_text(), page.read_text("utf-8"), block.read_text("utf-8")):
        assert "4 of 9 rows" in text
    assert "Model: <strong>m1</strong>" in page.read_text("utf-8")


def test_a_file_with_more_rows_than_its_split_is_refused(predictions: Path) -> None:
    _evaluation(predictions, {"rows_in_split": {"test": 3}})
    with pytest.raises(PredictionsError, match="has 4 rows, but the split has 3"):
        score_file(predictions, console=_console())


def test_markup_in_a_label_is_shown_as_text_everywhere(tmp_path: Path) -> None:
    label = "<script>alert(1)</script>[red]|*"
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, [prediction("a", "ja", "ja", dialect=label)])
    console = _console()
    page, block = tmp_path / "report.html", tmp_path / "block.md"
    score_file(path, console=console, html_path=page, markdown_path=block)
    assert label in console.export_text()
    assert "<script>alert" not in page.read_text(encoding="utf-8")
    assert "\\<script\\>alert(1)\\</script\\>\\[red\\]\\|\\*" in block.read_text(encoding="utf-8")


def test_control_characters_of_a_label_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, [prediction("a", "ja", "ja", dialect="\x1b[2Jø\n\u202e")])
    console = Console(record=True, width=120, file=(shown := io.StringIO()))
    score_file(path, by=["dialect"], console=console)
    assert "\x1b" not in shown.getvalue()
    assert "ø\\n\\u202e" in shown.getvalue()


@pytest.mark.parametrize("option", ["run_dir", "dataset"])
def test_nothing_is_written_if_a_part_of_the_page_is_missing(
    predictions: Path, option: str
) -> None:
    scores, page = predictions.with_name("scores.json"), predictions.with_name("report.html")
    empty: dict[str, Any] = {option: predictions.parent}
    with pytest.raises(DanishAsrError, match="expected the"):
        score_file(predictions, json_path=scores, html_path=page, console=_console(), **empty)
    assert not scores.exists()


def test_an_output_does_not_replace_an_input_or_another_output(
    tmp_path: Path, predictions: Path
) -> None:
    _evaluation(predictions, {"rows_in_split": {"test": 4}})
    (tmp_path / "run").mkdir()
    with pytest.raises(ConfigError) as caught:
        score_file(
            predictions,
            json_path=tmp_path / "run" / ".." / "evaluation.json",
            markdown_path=tmp_path / "report.html",
            html_path=tmp_path / "run" / ".." / "report.html",
        )
    assert len(caught.value.faults) == 2
    assert not (tmp_path / "report.html").exists()


def test_rows_that_a_filter_leaves_out_are_counted(predictions: Path) -> None:
    write_predictions(predictions, [*four_rows(), prediction("e", "ja", "ja", duration=0.5)])
    console = _console()
    block = predictions.with_name("block.md")
    settings = Settings(row_filter="coral", denominator="coral")
    score_file(predictions, settings=settings, markdown_path=block, console=console)
    assert "4 rows scored (1 left out: 0.5 s or shorter)" in console.export_text()
    assert "characters (CER) of the reference and inserted ones." in block.read_text("utf-8")
