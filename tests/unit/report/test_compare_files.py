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

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.report import ReportOptions, compare_files, parse_runs
from danish_asr.scoring.comparison import Comparison
from danish_asr.scoring.predictions import Prediction, read_references, write_predictions
from tests.builders import build_dataset
from tests.score_rows import four_rows, random_rows

GOLDEN = Path(__file__).parents[2] / "golden"


def _compare_files(*paths: Path, console: Console | None = None, **options: Any) -> Comparison:
    runs = parse_runs([str(path) for path in paths])
    return compare_files(runs, ReportOptions(**options), console=console)


def _write(path: Path, rows: list[Prediction]) -> Path:
    path.parent.mkdir(exist_ok=True)
    write_predictions(path, rows)
    return path


def _compare(folder: Path, a: list[Prediction], b: list[Prediction]) -> str:
    console = Console(record=True, width=100, file=io.StringIO())
    _compare_files(
        _write(folder / "a.jsonl", a),
        _write(folder / "b.jsonl", b),
        by=["dialect"],
        outputs=[folder / "comparison.json"],
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
    assert document["overall"]["runs"][1]["wer_paired"]["difference"]["low"] > 0
    assert document["runs"] == {"A": [str(tmp_path / "a.jsonl")], "B": [str(tmp_path / "b.jsonl")]}


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
    assert "warning" not in console.export_text(clear=False)
    _evaluation(a, rows=5)
    comparison = _compare_files(a, b, console=console)
    assert console.export_text().count(f"{a} is partial: 4 of 5 rows") == 1
    assert comparison.to_dict()["rows"][str(a)]["partial"]


@pytest.mark.parametrize(
    ("rows", "message"), [(4, "splits: .* of 4 rows, .* of 3 rows"), (3, "has 4 rows, .* 3")]
)
def test_runs_that_do_not_fit_their_splits_are_refused(
    tmp_path: Path, rows: int, message: str
) -> None:
    a, b = (_write(tmp_path / name / "p.jsonl", four_rows()) for name in "ab")
    _evaluation(a, rows=rows)
    _evaluation(b, rows=3)
    with pytest.raises(PredictionsError, match=message):
        _compare_files(a, b)


def _evaluation(predictions: Path, *, rows: int) -> None:
    document = {"rows_in_split": {"test": rows}}
    predictions.with_name("evaluation.json").write_text(json.dumps(document), encoding="utf-8")


def test_two_models_in_one_evaluation_folder_and_two_splits_are_reported(tmp_path: Path) -> None:
    files = [_write(tmp_path / place / "p.jsonl", four_rows()) for place in ("test", "test/beam")]
    for file, run in zip(files, ("run", "run/averages/best_2"), strict=True):
        about = {"run": f"{run}/checkpoints", "step": 900}
        file.with_name("evaluation.json").write_text(json.dumps(about), encoding="utf-8")
    console = Console(record=True, width=200, file=io.StringIO())
    _compare_files(*files, console=console)
    assert "beam/p.jsonl of averages/best_2, step 900" in console.export_text()
    other = [replace(row, split="dev") for row in four_rows()]
    _compare_files(files[0], _write(tmp_path / "dev.jsonl", other), console=console)
    assert "p.jsonl is of split test, " in console.export_text()


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


def test_faults_of_the_runs_are_reported_at_once(tmp_path: Path) -> None:
    a = _write(tmp_path / "a=1.jsonl", four_rows())
    with pytest.raises(ConfigError) as error:
        parse_runs([f"x={a}", f"x={a}", "y="])
    for fault in ("two runs have the name 'x'", "is given twice", "run 'y': expected NAME=FILE"):
        assert fault in str(error.value)
    with pytest.raises(ConfigError, match="expected two or more runs"):
        parse_runs([str(a)])
    (tmp_path / "b.jsonl").symlink_to(a)
    with pytest.raises(ConfigError, match=r"a=1.jsonl is given twice"):
        parse_runs([str(a), str(tmp_path / "b.jsonl")])


def test_references_of_a_dataset_are_for_files_without(tmp_path: Path) -> None:
    build_dataset(tmp_path / "data")
    ids = list(read_references(tmp_path / "data"))
    for name in "ab":
        lines = "".join(f"{key},{name}\n" for key in ids)
        (tmp_path / f"{name}.csv").write_text(f"id,pred\n{lines}", encoding="utf-8")
    console = Console(record=True, width=100, file=io.StringIO())
    files = (tmp_path / f"{name}.csv" for name in "ab")
    _compare_files(*files, dataset=tmp_path / "data", console=console)
    assert "12 rows paired by id of 12 in the split" in console.export_text()
