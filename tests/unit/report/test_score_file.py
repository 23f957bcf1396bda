"""``danish-asr score``, from file to table and files."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from danish_asr.errors import ConfigError, DanishAsrError, PredictionsError
from danish_asr.metrics import Denominator
from danish_asr.report import score_file
from danish_asr.schema import partition_dir
from danish_asr.scoring.predictions import write_predictions
from danish_asr.scoring.settings import Settings
from tests.score_rows import four_rows, heard_rows, prediction

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
    assert scores["overall"]["words"] == {
        "hits": 6,
        "substitutions": 1,
        "deletions": 4,
        "insertions": 1,
    }
    assert set(scores["groupings"]) >= {"dialect", "age_group", "gender", "duration"}
    for grouping in scores["groupings"].values():
        assert sum(group["rows"] for group in grouping["groups"]) == 4
        assert sum(group["words"]["deletions"] for group in grouping["groups"]) == 4


def test_table_json_csv_and_markdown_are_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, heard_rows(600))
    console = _console()
    names = ["scores.json", "scores.csv", "scores.md"]
    by_json, by_csv, by_markdown = (tmp_path / name for name in names)
    score_file(
        path,
        by=["dialect", "age_group,gender"],
        json_path=by_json,
        csv_path=by_csv,
        markdown_path=by_markdown,
        console=console,
    )
    shown = console.export_text().replace(f"{tmp_path}/", "")
    (tmp_path / "scores.txt").write_text(shown, encoding="utf-8")
    for name in [*names, "scores.txt"]:
        text = (tmp_path / name).read_text(encoding="utf-8")
        if "UPDATE_GOLDEN" in os.environ:
            (GOLDEN / name).write_text(text, encoding="utf-8")
        assert text == (GOLDEN / name).read_text(encoding="utf-8"), name


def test_csv_and_json_tell_the_same(predictions: Path) -> None:
    path = predictions.with_name("scores.csv")
    scores = score_file(predictions, csv_path=path, console=_console())
    lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert [line["group"] for line in lines] == list(scores.to_pandas()["group"])
    assert float(lines[0]["wer"]) == scores.to_dict()["overall"]["wer"]["value"]


@pytest.mark.parametrize(
    ("dialect", "cell"),
    [
        ('=HYPERLINK("http://x")', '\'=HYPERLINK("http://x")'),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-1+cmd|x", "'-1+cmd|x"),
        ("+45 dansk", "'+45 dansk"),
        ("-1.5", "-1.5"),
        ("vest=jysk", "vest=jysk"),
    ],
)
def test_no_name_in_the_csv_is_a_formula(tmp_path: Path, dialect: str, cell: str) -> None:
    predictions, path = tmp_path / "predictions.jsonl", tmp_path / "scores.csv"
    write_predictions(predictions, [prediction("a", "ja", "nej", dialect=dialect)])
    scores = score_file(predictions, by=["dialect"], csv_path=path, console=_console())
    lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert lines[1]["group"] == cell
    assert scores.lines()[1]["group"] == dialect


def test_the_csv_tells_of_each_rate_why_it_has_no_interval(tmp_path: Path) -> None:
    predictions, path = tmp_path / "predictions.jsonl", tmp_path / "scores.csv"
    rows = [
        prediction(str(n), f"ja {'o' * n}", "ja", speaker_id=f"speaker {n}") for n in range(1, 10)
    ]
    write_predictions(predictions, rows)
    score_file(predictions, csv_path=path, console=_console())
    line = next(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert line["wer_not_resolvable"] == "every speaker has the same value"
    assert (line["cer_not_resolvable"], line["cer_low"] < line["cer_high"]) == ("", True)


def test_a_pipe_is_refused_before_it_is_read(predictions: Path) -> None:
    reads, writes = os.pipe()
    os.write(writes, predictions.read_bytes())
    os.close(writes)
    page = predictions.with_name("report.html")
    with pytest.raises(PredictionsError, match=r"is read twice; write what it gives to a file"):
        score_file(Path(f"/dev/fd/{reads}"), html_path=page, console=_console())
    assert os.read(reads, 1 << 20) == predictions.read_bytes()
    os.close(reads)


def test_a_partial_file_is_scored_with_a_warning(predictions: Path) -> None:
    _evaluation(predictions, {"rows_in_split": {"test": 5}})
    console = _console()
    assert score_file(predictions, console=console).rows.is_partial
    shown = console.export_text()
    assert "warning: the predictions are partial: 4 of 5 rows" in shown
    assert "4 rows scored of 5 in the split" in shown


def test_a_whole_file_is_scored_without_a_warning(predictions: Path) -> None:
    _evaluation(predictions, {"rows_in_split": {"test": 3, "dev": 1}})
    console = _console()
    assert not score_file(predictions, console=console).rows.is_partial
    assert "warning" not in console.export_text()


def test_the_page_says_what_was_scored(predictions: Path) -> None:
    about = {"dataset": "coral <v3>", "model": "omni", "checkpoint": "step_9", "tokenizer": "t"}
    _evaluation(predictions, {"rows_in_split": {"test": 4}, **about})
    page = predictions.with_name("report.html")
    score_file(predictions, html_path=page, console=_console())
    text = page.read_text(encoding="utf-8")
    assert "Dataset: <strong>coral &lt;v3&gt;</strong> · Model: <strong>omni</strong>" in text
    assert "Checkpoint: <strong>step_9</strong>" in text


def test_more_rows_than_the_split_has_are_refused(predictions: Path) -> None:
    _evaluation(predictions, {"rows_in_split": {"test": 3}})
    with pytest.raises(PredictionsError, match="has 4 rows, but the split has 3"):
        score_file(predictions, console=_console())


@pytest.mark.parametrize(
    "evaluation",
    [
        {},
        [],
        {"rows_in_split": 4},
        {"rows_in_split": {"t": []}},
        {"rows_in_split": {"t": -1}},
        {"rows_in_split": {"t": float("inf")}},
        {"rows_in_split": {"t": 4}, "model": "half a \ud83d"},
    ],
)
def test_an_unreadable_evaluation_file_is_refused(predictions: Path, evaluation: Any) -> None:
    _evaluation(predictions, evaluation)
    with pytest.raises(PredictionsError, match=r'evaluation.json: expected .*"rows_in_split"'):
        score_file(predictions, console=_console())


def _evaluation(predictions: Path, document: Any) -> None:
    predictions.with_name("evaluation.json").write_text(json.dumps(document), encoding="utf-8")


def test_an_unknown_column_is_refused_with_the_known_ones(predictions: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown column 'dialekt'; available: corpus, split, .* duration"
    ):
        score_file(predictions, by=["dialekt"], console=_console())


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


def test_a_terminal_is_not_told_to_do_anything_by_a_label(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, [prediction("a", "ja", "ja", dialect="\x1b[2Jø\n\u202e")])
    console = Console(record=True, width=120, file=(shown := io.StringIO()))
    block = tmp_path / "block.md"
    score_file(path, by=["dialect"], console=console, markdown_path=block)
    for text in (shown.getvalue(), block.read_text(encoding="utf-8").replace("\\\\", "\\")):
        assert "\x1b" not in text
        assert "x1b" in text
        assert "ø\\n\\u202e" in text


@pytest.mark.parametrize("option", ["run_dir", "dataset"])
def test_nothing_is_written_where_a_part_of_the_page_is_missing(
    predictions: Path, option: str
) -> None:
    scores, page = predictions.with_name("scores.json"), predictions.with_name("report.html")
    empty: dict[str, Any] = {option: predictions.parent}
    predictions.write_text("not read before that is told", encoding="utf-8")
    with pytest.raises(DanishAsrError, match="expected the"):
        score_file(predictions, json_path=scores, html_path=page, console=_console(), **empty)
    assert not scores.exists()


@pytest.mark.parametrize(
    "name", ["evaluation.json", "run/metrics/train.jsonl", "data/manifest.json"]
)
def test_what_is_read_is_not_written_over(tmp_path: Path, predictions: Path, name: str) -> None:
    read = tmp_path / name
    read.parent.mkdir(parents=True, exist_ok=True)
    read.write_text("{}", encoding="utf-8")
    for option in ("json_path", "csv_path", "html_path", "markdown_path"):
        outputs: dict[str, Any] = {option: read}
        with pytest.raises(ConfigError, match="choose another output"):
            score_file(predictions, run_dir=tmp_path / "run", dataset=tmp_path / "data", **outputs)
    assert read.read_text(encoding="utf-8") == "{}"


def test_a_dataset_that_lacks_the_utterances_is_told(tmp_path: Path, predictions: Path) -> None:
    shard = partition_dir(tmp_path, "coral", "test") / "part-00000.parquet"
    shard.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": ["c"], "audio_bytes": [b"fLaC"]}), shard)
    console = _console()
    page = tmp_path / "report.html"
    score_file(predictions, dataset=tmp_path, html_path=page, console=console)
    assert "audio of 1 of the 3 worst utterances is there" in " ".join(
        console.export_text().split()
    )
    assert page.read_text(encoding="utf-8").count("<audio") == 1


@pytest.mark.parametrize(
    ("denominator", "units"),
    [
        ("standard", "all words (WER) or characters (CER)."),
        ("coral", "all words (WER) or characters (CER) of the reference and inserted ones."),
    ],
)
def test_a_model_card_says_what_its_rates_are_divided_by(
    tmp_path: Path, predictions: Path, denominator: Denominator, units: str
) -> None:
    block = tmp_path / "scores.md"
    settings = Settings(denominator=denominator)
    score_file(predictions, settings=settings, markdown_path=block, console=_console())
    assert f"all errors over {units}" in block.read_text(encoding="utf-8")


def test_every_table_of_the_page_is_named_by_a_heading(tmp_path: Path, predictions: Path) -> None:
    page = tmp_path / "report.html"
    score_file(predictions, html_path=page, console=_console())
    html = page.read_text(encoding="utf-8")
    names = re.findall(r'<table [^>]*aria-labelledby="([^"]+)"', html)
    assert len(names) == html.count("<table") > 5
    assert all(re.search(rf'<h[23] id="{name}">', html) for name in names)


def test_what_a_filter_leaves_out_is_told(predictions: Path) -> None:
    rows = [*four_rows(), prediction("e", "ja", "ja", duration=0.5)]
    write_predictions(predictions, rows)
    console = _console()
    score_file(predictions, settings=Settings(row_filter="coral"), console=console)
    assert "4 rows scored (1 left out: 0.5 s or shorter)" in console.export_text()
