"""``danish-asr compare``, from two files to a table."""

import csv
import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rich.console import Console

from danish_asr.base.errors import PredictionsError
from danish_asr.report import ReportOptions, compare_files, parse_runs
from danish_asr.scoring.comparison import Comparison
from danish_asr.scoring.predictions import Prediction, write_predictions
from tests.score_rows import four_rows, random_rows, write_evaluation

GOLDEN = Path(__file__).parents[2] / "golden"


def _compare_files(*paths: Path, console: Console | None = None, **options: Any) -> Comparison:
    runs = parse_runs([str(path) for path in paths])
    return compare_files(runs, ReportOptions(**options), console=console)


def _write(path: Path, rows: list[Prediction]) -> Path:
    path.parent.mkdir(exist_ok=True)
    write_predictions(path, rows)
    return path


def test_the_table_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    a = list(random_rows(600))
    random = Random(0)
    words_of = [row.hypothesis.split() for row in a]
    noisy = [[w if random.random() > 0.5 else "brus" for w in words] for words in words_of]
    b = [replace(row, hypothesis=" ".join(w)) for row, w in zip(a, noisy, strict=True)]
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True)
    files = _write(tmp_path / "a.jsonl", a), _write(tmp_path / "b.jsonl", b)
    _compare_files(*files, by=["dialect", "age_group,gender"], console=console)
    shown = console.export_text().replace(f"{tmp_path}/", "")
    table = shown[shown.index("group ") : shown.index("A is better")]
    assert max(map(len, table.splitlines())) <= 80
    if "UPDATE_GOLDEN" in os.environ:
        (GOLDEN / "comparison.txt").write_text(shown, encoding="utf-8")
    assert shown == (GOLDEN / "comparison.txt").read_text(encoding="utf-8")


def test_a_partial_run_is_reported(tmp_path: Path) -> None:
    a, b = (_write(tmp_path / name / "p.jsonl", four_rows()) for name in "ab")
    console = Console(record=True, width=200, file=io.StringIO())
    _evaluation(a, rows=4)
    _compare_files(a, b, console=console)
    assert "is partial" not in console.export_text(clear=False)
    _evaluation(a, rows=5)
    comparison = _compare_files(a, b, console=console)
    assert console.export_text().count(f"{a} is partial: 4 of 5 rows") == 1
    assert comparison.to_dict()["rows"][str(a)]["partial"]


def test_runs_of_splits_of_other_sizes_are_refused(tmp_path: Path) -> None:
    a, b = (_write(tmp_path / name / "p.jsonl", four_rows()) for name in "ab")
    _evaluation(a, rows=4)
    _evaluation(b, rows=5)
    with pytest.raises(PredictionsError, match=r"splits: .* of 4 rows, .* of 5 rows"):
        _compare_files(a, b)


def _evaluation(predictions: Path, *, rows: int) -> None:
    write_evaluation(predictions, rows_in_split={"test": rows})


def test_runs_with_seeds_give_every_kind_of_output(tmp_path: Path) -> None:
    rows = list(random_rows(200, speakers=10))
    better = [
        replace(row, hypothesis=row.reference) if n % 2 else row for n, row in enumerate(rows)
    ]
    a, b = _write(tmp_path / "a.jsonl", rows), _write(tmp_path / "b.jsonl", better)
    c = _write(tmp_path / "c.jsonl", better)
    hostile = "@<b>|"
    runs = parse_runs([str(a), f"{hostile}={b},{c}"])
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True)
    outputs = [tmp_path / f"out.{end}" for end in ("json", "csv", "md", "html")]
    compare_files(runs, ReportOptions(by=["dialect"], outputs=outputs), console=console)
    shown = console.export_text()
    assert f"{hostile}: better than A (p " in shown
    assert "±0.00" in shown
    document = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert document["runs"] == {"A": [str(a)], hostile: [str(b), str(c)]}
    lines = list(csv.DictReader((tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()))
    assert [line["run"] for line in lines[:2]] == ["A", "'@<b>|"]
    assert lines[1]["files"] == f"{b}, {c}"
    assert "| all | @\\<b\\>\\| | " in (tmp_path / "out.md").read_text(encoding="utf-8")
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "@&lt;b&gt;|" in page
    assert hostile not in page
    assert "MAPSSWE" not in page
    assert "for these speakers only -" in page
    compare_files(parse_runs([f"old={a}", f"new={b}"]), ReportOptions(outputs=outputs[2:3]))
    text = (tmp_path / "out.md").read_text(encoding="utf-8")
    assert re.search(r"for these speakers only -.*\(MAPSSWE: p .*, \d+ segments\)", text)
