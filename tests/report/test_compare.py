"""``danish-asr compare``, from files to a table, files and a figure."""

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

from danish_asr import compare
from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.report.compare import compare_files, parse_runs
from danish_asr.scoring.compare import Comparison
from danish_asr.scoring.predictions import Prediction, write_predictions
from tests.score_rows import four_rows, random_rows, write_evaluation

GOLDEN = Path(__file__).parents[1] / "golden"


def _shown(runs: list[str], width: int = 200, **options: Any) -> tuple[Comparison, str]:
    terminal = {"force_terminal": True} if width < 100 else {}
    console = Console(record=True, width=width, file=io.StringIO(), **terminal)  # type: ignore[arg-type]
    comparison = compare_files(parse_runs(runs), console=console, **options)
    return comparison, console.export_text()


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
    files = [str(_write(tmp_path / "a.jsonl", a)), str(_write(tmp_path / "b.jsonl", b))]
    _, shown = _shown(files, width=80, by=["dialect", "age_group,gender"])
    shown = shown.replace(f"{tmp_path}/", "")
    table = shown[shown.index("group ") : shown.index("not resolvable:")]
    assert max(map(len, table.splitlines())) <= 80
    if "UPDATE_GOLDEN" in os.environ:
        (GOLDEN / "comparison.txt").write_text(shown, encoding="utf-8")
    assert shown == (GOLDEN / "comparison.txt").read_text(encoding="utf-8")


def test_partial_runs_are_reported_and_splits_of_other_sizes_refused(tmp_path: Path) -> None:
    a, b = (_write(tmp_path / name / "p.jsonl", four_rows()) for name in "ab")
    write_evaluation(a, rows_in_split={"test": 5})
    comparison, shown = _shown([str(a), str(b)])
    assert shown.count(f"{a}: the predictions are partial: 4 of 5 rows") == 1
    assert comparison.rows[str(a)].partial
    write_evaluation(b, rows_in_split={"test": 4})
    with pytest.raises(PredictionsError, match=r"splits: .* of 5 rows, .* of 4 rows"):
        compare(a, b)


def test_python_names_runs_as_the_command_does(tmp_path: Path) -> None:
    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    better = [replace(row, hypothesis=row.reference) for row in four_rows()]
    _write(a, four_rows())
    _write(b, better)
    by_command, shown = _shown([str(a), f"new={b}"], by=[])
    assert not re.search("^p-values|^±:", shown, re.MULTILINE)  # of one difference, of one seed
    assert compare({"A": a, "new": [b]}, by=None).to_dict() == by_command.to_dict()
    by_rows = compare(four_rows(), iter(better), str(b), by=[])
    assert by_rows.table["run"].tolist() == ["A", "B", "C"]
    with pytest.raises(PredictionsError, match="rows differ"):
        compare(a, better[1:])


def test_a_run_has_the_name_that_it_is_given_or_a_letter(tmp_path: Path) -> None:
    (existing := tmp_path / "x=y.jsonl").touch()
    runs = parse_runs(["a.jsonl", " new = b, c,", str(existing)])
    assert runs == {"A": [Path("a.jsonl")], "new": [Path("b"), Path("c")], "C": [existing]}
    for wrong in (["x=a", "x=b"], ["x=,", "b"], ["B=a", "b"], ["a"], []):
        with pytest.raises(ConfigError):
            parse_runs(wrong)


def test_a_run_is_better_or_worse_only_if_the_p_value_is_small(tmp_path: Path) -> None:
    rows = list(random_rows(300))
    others = {
        "better": [replace(row, hypothesis=row.reference) for row in rows],
        "worse": [replace(row, hypothesis=f"brus {row.hypothesis}") for row in rows],
        "alike": [
            replace(row, hypothesis=f"brus {row.hypothesis}") if n < 20 else row
            for n, row in enumerate(rows)
        ],
        "same": rows,
    }
    # In "alike" as many speakers have one error fewer.
    others["alike"][30:50] = others["better"][30:50]
    files = [f"{name}={_write(tmp_path / name, own)}" for name, own in others.items()]
    base = _write(tmp_path / "base", rows)
    _, shown = _shown([str(base), *files], by=[])
    said = re.findall(r"^\w+: .* A\b.*", shown, re.MULTILINE)
    assert [line.split(" (p")[0] for line in said] == [
        "better: better than A",
        "worse: worse than A",
        "alike: no significant difference from A",
        "same: the difference from A is not resolvable: every speaker has the same value",
    ]


def test_runs_with_seeds_give_every_kind_of_output(tmp_path: Path) -> None:
    rows = list(random_rows(200, speakers=10))
    better = [
        replace(row, hypothesis=row.reference) if n % 2 else row for n, row in enumerate(rows)
    ]
    a, b, c = (
        _write(tmp_path / f"{name}.jsonl", rows if name == "a" else better) for name in "abc"
    )
    hostile = "@<b>|&_"
    runs = [str(a), f"{hostile}={b},{c}"]
    outputs = [tmp_path / f"out.{end}" for end in ("json", "csv", "tex", "svg", "pdf")]
    _, shown = _shown(runs, by=["dialect", "gender,age_group"], outputs=outputs)
    assert f"{hostile}: better than A (p " in shown
    assert "±0.00" in shown
    assert all(re.search(note, shown, re.MULTILINE) for note in ("p CER", "^p-values", "^±:"))
    before = [path.read_bytes() for path in outputs]
    document = json.loads(before[0])
    assert document["runs"] == {"A": [str(a)], hostile: [str(b), str(c)]}
    lines = list(csv.DictReader(before[1].decode().splitlines()))
    assert [line["run"] for line in lines[:2]] == ["A", hostile]
    assert lines[1]["files"] == f"{b}, {c}"
    latex = before[2].decode()
    assert r"\toprule" in latex
    assert r"@<b>|\&\_" in latex
    for text in (latex.replace(r"\_", "_"), before[3].decode()):
        assert "dialect: Fynsk" in text
        assert "gender and age group: unknown · " in text
        assert "dialect: all" not in text
    assert before[4].startswith(b"%PDF")
    _shown(runs, by=["dialect", "gender,age_group"], outputs=outputs)
    assert [path.read_bytes() for path in outputs] == before
