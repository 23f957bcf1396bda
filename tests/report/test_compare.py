"""``danish-asr compare``, from files to a table, files and a figure."""

import csv
import io
import json
import os
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rich.console import Console

from danish_asr import __version__, compare
from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.base.files import sha256_of
from danish_asr.base.tables import Row
from danish_asr.report.compare import compare_files, parse_runs
from danish_asr.report.request import Request
from danish_asr.scoring.compare import Comparison
from tests.score_rows import (
    changed,
    evaluated,
    four_rows,
    random_rows,
    write_evaluation,
    write_rows,
)

GOLDEN = Path(__file__).parents[1] / "golden"


def _shown(runs: list[str], width: int = 200, **options: Any) -> tuple[Comparison, str]:
    terminal = {"force_terminal": True} if width < 100 else {}
    console = Console(record=True, width=width, file=io.StringIO(), **terminal)  # type: ignore[arg-type]
    outputs = options.pop("outputs", ())
    request = Request(**options)
    comparison = compare_files(parse_runs(runs), request, outputs=outputs, console=console)
    return comparison, console.export_text()


def _write(path: Path, rows: list[Row]) -> Path:
    path.parent.mkdir(exist_ok=True)
    write_rows(path, rows)
    return path


def test_the_table_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    a = list(random_rows(600))
    random = Random(0)
    words_of = [row["hypothesis"].split() for row in a]
    noisy = [[w if random.random() > 0.5 else "brus" for w in words] for words in words_of]
    b = [changed(row, hypothesis=" ".join(w)) for row, w in zip(a, noisy, strict=True)]
    files = [str(_write(tmp_path / "a.jsonl", a)), str(_write(tmp_path / "b.jsonl", b))]
    _, shown = _shown(files, width=80, by=["dialect", "age_group,gender"])
    shown = shown.replace(f"{tmp_path}/", "")
    table = shown[shown.index("group ") : shown.index("not resolvable:")]
    assert max(map(len, table.splitlines())) <= 80
    if "UPDATE_GOLDEN" in os.environ:
        (GOLDEN / "comparison.txt").write_text(shown, encoding="utf-8")
    assert shown == (GOLDEN / "comparison.txt").read_text(encoding="utf-8")


def test_python_names_runs_as_the_command_does_and_both_know_their_evaluations(
    tmp_path: Path,
) -> None:
    better = [changed(row, hypothesis=row["reference"]) for row in four_rows()]
    a, b = _write(tmp_path / "a" / "p.jsonl", four_rows()), _write(tmp_path / "b.jsonl", better)
    write_evaluation(a, rows_in_split={"test": 5}, where="age > 9")
    by_command, shown = _shown([str(a), f"new={b}"], by=[])
    assert shown.count(f"{a}: the predictions are partial: 4 of 5 rows") == 1
    assert "4 rows paired by id of 5 in the split test, where age > 9" in shown
    assert not re.search("^p:.*Holm|^±:", shown, re.MULTILINE)  # of one difference, of one seed
    assert compare({"A": a, "new": [b]}, by=None).to_dict() == by_command.to_dict()
    by_rows = compare(four_rows(), iter(better), str(b), by=[])
    assert by_rows.table["run"].tolist() == ["A", "B", "C"]
    own = compare(a, b, by=None, row_filter="rye", denominator="coral", profile="plain")
    settings = own.settings
    assert (settings.row_filter, settings.denominator, settings.profile) == (
        "rye",
        "coral",
        "plain",
    )
    with pytest.raises(PredictionsError, match="rows differ"):
        compare(a, better[1:])


def test_the_evaluation_of_a_run_that_is_compared_is_named(tmp_path: Path) -> None:
    own, other = (evaluated(tmp_path / name, "best/test") for name in ("a", "b"))
    _, shown = _shown([str(tmp_path / "a"), str(tmp_path / "b")], by=[])
    for file in (own, other):
        assert f"{file} (test" in shown


def test_a_run_has_the_name_that_it_is_given_or_a_letter(tmp_path: Path) -> None:
    (existing := tmp_path / "x=y.jsonl").touch()
    runs = parse_runs(["a.jsonl", " new = b, c,", str(existing)])
    assert runs == {"A": [Path("a.jsonl")], "new": [Path("b"), Path("c")], "C": [existing]}
    for wrong in (["x=a", "x=b"], ["x=,", "b"], ["B=a", "b"], ["a"], []):
        with pytest.raises(ConfigError):
            parse_runs(wrong)


def test_a_run_is_better_or_worse_only_if_the_p_value_is_small(tmp_path: Path) -> None:
    rows = list(random_rows(300))
    right = [changed(row, hypothesis=row["reference"]) for row in rows]
    wrong = [changed(row, hypothesis=f"brus {row['hypothesis']}") for row in rows]
    # In "alike" twenty speakers have one error more, and as many have none.
    alike = [*wrong[:20], *rows[20:30], *right[30:50], *rows[50:]]
    others = {"better": right, "worse": wrong, "alike": alike, "same": rows}
    files = [f"{name}={_write(tmp_path / name, own)}" for name, own in others.items()]
    base = str(_write(tmp_path / "base", rows))
    _, shown = _shown([base, *files], by=[])
    said = re.findall(r"^\w+: .* A\b.*", shown, re.MULTILINE)
    assert [line.split(" (p")[0] for line in said] == [
        "better: better than A",
        "worse: worse than A",
        "alike: no significant difference from A",
        "same: the difference from A is not resolvable: every speaker has the same value",
    ]
    assert "adjusted (Holm)" in _shown([base, *files[:2]], by=[])[1]


def test_runs_with_seeds_give_every_kind_of_output(tmp_path: Path) -> None:
    rows = list(random_rows(200, speakers=10))
    better = [
        changed(row, hypothesis=row["reference"]) if n % 2 else row for n, row in enumerate(rows)
    ]
    seeds = {"a": rows, "b": better, "c": better[:-100] + rows[-100:]}
    a, b, c = (_write(tmp_path / f"{name}.jsonl", own) for name, own in seeds.items())
    hostile = "@<b>|&_"
    runs = [str(a), f"{hostile}={b},{c}"]
    outputs = [tmp_path / f"out.{end}" for end in ("json", "csv", "tex", "svg", "pdf")]
    comparison, shown = _shown(runs, by=["dialect", "gender,age_group"], outputs=outputs)
    assert f"{hostile}: better than A (p " in shown
    assert f" ±{100 * comparison.table['wer_deviation'][1]:.2f} " in shown
    assert comparison.table["wer_deviation"][1] > 0.02
    assert all(re.search(note, shown, re.MULTILINE) for note in ("p CER", "^p: .*Holm", "^±:"))
    before = [path.read_bytes() for path in outputs]
    _shown(runs, by=["dialect", "gender,age_group"], outputs=outputs)
    assert [path.read_bytes() for path in outputs] == before
    own = sha256_of(a)
    assert json.loads(before[0])["files"][0]["predictions_sha256"] == own
    assert all(
        own.encode() in content and __version__.encode() in content for content in before[:4]
    )
    assert "t-test" in json.loads(before[0])["test"]
    assert json.loads(before[0])["runs"] == {"A": [str(a)], hostile: [str(b), str(c)]}
    lines = list(csv.DictReader(before[1].decode().splitlines()))
    assert [line["run"] for line in lines[:2]] == ["A", hostile]
    assert lines[1]["files"] == f"{b}, {c}"
    latex, svg, pdf = before[2].decode(), before[3].decode(), before[4]
    assert all(text in latex for text in ("$-$", r"$\pm$"))
    assert not re.search(r"& -\d", latex)
    assert all(text in latex for text in (r"\toprule", r"@$<$b$>$$|$\&\_"))
    body = [line for line in latex.splitlines() if not line.startswith("%")]
    assert not re.search(r"(?<!\$)[<>|]", "".join(body))  # other characters in usual fonts
    for text in (latex.replace(r"\_", "_"), svg):
        assert "dialect: Fynsk" in text
        assert "gender and age group: unknown · " in text
        assert "dialect: all" not in text
    assert pdf.startswith(b"%PDF")
