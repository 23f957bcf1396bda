"""``danish-asr compare``, from two files to a table."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from danish_asr.errors import PredictionsError
from danish_asr.report import compare_files
from danish_asr.scoring.predictions import Prediction, write_predictions
from danish_asr.scoring.settings import Settings
from tests.score_rows import four_rows, random_rows

GOLDEN = Path(__file__).parents[2] / "golden"
QUICK = Settings(resamples=500)


def _write(path: Path, rows: list[Prediction]) -> Path:
    path.parent.mkdir(exist_ok=True)
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
    a = list(random_rows(600))
    b = [replace(row, hypothesis=row.reference) for row in a]
    assert "not resolvable: 1 speaker, 8 needed" in _compare(tmp_path, four_rows(), four_rows())
    assert "B is better" in _compare(tmp_path, a, b)
    assert "A is better" in _compare(tmp_path, b, a)
    document = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    assert document["overall"]["wer"]["difference"]["low"] > 0
    assert document["files"] == {"a": str(tmp_path / "a.jsonl"), "b": str(tmp_path / "b.jsonl")}


def test_runs_that_differ_by_chance_have_no_significant_difference(tmp_path: Path) -> None:
    a = list(random_rows(600))
    other = random_rows(600, seed=1)
    b = [
        replace(row, hypothesis=chance.hypothesis) if number % 100 == 0 else row
        for number, (row, chance) in enumerate(zip(a, other, strict=True))
    ]
    c = [replace(row, hypothesis="") if n % 100 == 50 else row for n, row in enumerate(a)]
    assert "no significant difference" in _compare(tmp_path, b, c)


def test_the_table_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    a = list(random_rows(600))
    random = Random(0)
    words_of = [row.hypothesis.split() for row in a]
    noisy = [[w if random.random() > 0.5 else "brus" for w in words] for words in words_of]
    b = [replace(row, hypothesis=" ".join(w)) for row, w in zip(a, noisy, strict=True)]
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True)
    settings = Settings(resamples=1000)
    files = _write(tmp_path / "a.jsonl", a), _write(tmp_path / "b.jsonl", b)
    compare_files(*files, by=["dialect", "age_group,gender"], settings=settings, console=console)
    shown = console.export_text().replace(f"{tmp_path}/", "")
    table = shown[shown.index("group ") : shown.index("A is better")]
    assert max(map(len, table.splitlines())) <= 80
    if "UPDATE_GOLDEN" in os.environ:
        (GOLDEN / "comparison.txt").write_text(shown, encoding="utf-8")
    assert shown == (GOLDEN / "comparison.txt").read_text(encoding="utf-8")


def test_a_partial_run_is_reported(tmp_path: Path) -> None:
    a, b = (_write(tmp_path / name / "p.jsonl", four_rows()) for name in "ab")
    console = Console(record=True, width=100, file=io.StringIO())
    _evaluation(a, rows=4)
    compare_files(a, b, settings=QUICK, console=console)
    assert "warning" not in console.export_text(clear=False)
    _evaluation(a, rows=5)
    comparison = compare_files(a, b, settings=QUICK, console=console)
    assert console.export_text().count("the predictions of A are partial: 4 of 5 rows") == 1
    assert comparison.to_dict()["rows"]["a"]["partial"]


@pytest.mark.parametrize(("rows", "message"), [(4, "of 4 rows.* of 3;"), (3, "has 4 rows, .* 3")])
def test_runs_that_do_not_fit_their_splits_are_refused(
    tmp_path: Path, rows: int, message: str
) -> None:
    a, b = (_write(tmp_path / name / "p.jsonl", four_rows()) for name in "ab")
    _evaluation(a, rows=rows)
    _evaluation(b, rows=3)
    with pytest.raises(PredictionsError, match=message):
        compare_files(a, b, settings=QUICK)


def _evaluation(predictions: Path, *, rows: int) -> None:
    document = {"rows_in_split": {"test": rows}}
    predictions.with_name("evaluation.json").write_text(json.dumps(document), encoding="utf-8")


def test_different_rows_are_refused_by_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(PredictionsError, match=r"a.jsonl:4: id 'd' is not in \S+b.jsonl"):
        _compare(tmp_path, four_rows(), four_rows()[:3])
