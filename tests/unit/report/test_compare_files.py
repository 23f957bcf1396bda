"""``danish-asr compare``, from two files to a table."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from danish_asr.errors import PredictionsError
from danish_asr.predictions import Prediction, write_predictions
from danish_asr.report import compare_files
from danish_asr.scoring.settings import Settings
from tests.score_rows import four_rows, heard_rows

QUICK = Settings(resamples=500)


def _write(path: Path, rows: list[Prediction]) -> Path:
    write_predictions(path, rows)
    return path


def _compare(folder: Path, a: list[Prediction], b: list[Prediction]) -> str:
    console = Console(record=True, width=100, file=io.StringIO())
    compare_files(
        _write(folder / "a.jsonl", a),
        _write(folder / "b.jsonl", b),
        by=["dialect"],
        settings=QUICK,
        json_path=folder / "comparison.json",
        console=console,
    )
    return console.export_text()


def test_the_table_names_the_better_run(tmp_path: Path) -> None:
    a = list(heard_rows(600))
    b = [replace(row, hypothesis=row.reference) for row in a]
    shown = _compare(tmp_path, a, b)
    assert "600 rows paired by id" in shown
    assert "B is better: the interval does not hold zero" in shown
    assert "A is better" in _compare(tmp_path, b, a)
    document = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    assert document["overall"]["wer"]["difference"]["low"] > 0


def test_runs_that_differ_by_chance_are_not_told_apart(tmp_path: Path) -> None:
    a = list(heard_rows(600))
    other = heard_rows(600, seed=1)
    b = [
        replace(row, hypothesis=chance.hypothesis) if number % 100 == 0 else row
        for number, (row, chance) in enumerate(zip(a, other, strict=True))
    ]
    c = [replace(row, hypothesis="") if n % 100 == 50 else row for n, row in enumerate(a)]
    assert "the data do not tell A and B apart" in _compare(tmp_path, b, c)


def test_runs_of_few_speakers_are_not_resolvable(tmp_path: Path) -> None:
    shown = _compare(tmp_path, four_rows(), four_rows())
    assert "the difference is not resolvable: 1 speaker, 8 needed" in shown


def test_different_rows_are_refused_by_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(PredictionsError, match=r"a.jsonl:4: id 'd' is not in \S+b.jsonl"):
        _compare(tmp_path, four_rows(), four_rows()[:3])
