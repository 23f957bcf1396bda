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


def test_all_pairs_are_ranked_and_drawn(tmp_path: Path) -> None:
    rows = list(random_rows(400, speakers=20))
    half = [replace(row, hypothesis=row.reference) if n % 2 else row for n, row in enumerate(rows)]
    same = [replace(row, hypothesis=f"{row.hypothesis} ") for row in half]
    files = {"bad_1": rows, "good": half, "same&": same}
    runs = {name: [_write(tmp_path / f"{name}.jsonl", own)] for name, own in files.items()}
    console = Console(record=True, width=200, file=io.StringIO())
    outputs = [tmp_path / f"out.{end}" for end in ("json", "tex", "svg", "pdf", "html", "md")]
    options = ReportOptions(by=["gender"], outputs=outputs, all_pairs=True)
    comparison = compare_files(runs, options, console=console)
    document = json.loads(outputs[0].read_text("utf-8"))
    ranks = [(rank["rank"], rank["run"]) for rank in document["ranking"]]
    assert ranks == [(1, "good"), (1, "same&"), (3, "bad_1")]
    pairs = {(pair.a, pair.b): pair for pair in comparison.pairs}
    assert [pair.resolved for pair in pairs.values()] == [True, True, False]
    alone = comparison.overall.runs[1].paired["wer"].difference
    together = pairs["bad_1", "good"].wer.difference
    assert alone.interval
    assert together.interval
    assert together.interval.low < alone.interval.low < alone.interval.high < together.interval.high
    latex = outputs[1].read_text("utf-8")
    assert latex.count(r"\begin{tabular}") == latex.count(r"\bottomrule") == 3
    assert r"bad\_1" in latex
    assert r"same\&" in latex
    assert outputs[3].read_bytes().startswith(b"%PDF")
    assert "good − bad_1" in outputs[2].read_text("utf-8")
    for text in (console.export_text(), *(path.read_text("utf-8") for path in outputs[4:])):
        assert re.search("(?i)better than", text)
    before = [path.read_bytes() for path in outputs]
    compare_files(runs, options, console=console)
    assert [path.read_bytes() for path in outputs] == before


@pytest.mark.parametrize(("seeds", "over_seeds"), [((2, 2), True), ((1, 2), False)])
def test_two_runs_with_several_seeds_are_compared_over_the_seeds_too(
    tmp_path: Path, seeds: tuple[int, int], over_seeds: bool
) -> None:
    files = {name: [tmp_path / f"{name}{n}.jsonl" for n in range(3)] for name in "AB"}
    rows = list(random_rows(400, speakers=20))
    for run, name in enumerate("AB"):
        for seed, file in enumerate(files[name]):  # each seed is better than the one before
            share = 3 * seed + run
            better = [
                replace(row, hypothesis=row.reference) if n % 10 < share else row
                for n, row in enumerate(rows)
            ]
            _write(file, better)
    runs = {name: files[name][:count] for name, count in zip("AB", seeds, strict=True)}
    comparison = compare_files(runs, console=Console(quiet=True))
    paired = comparison.overall.runs[1].paired["wer"]
    assert paired.over_seeds is over_seeds
    assert paired.p is not None
    assert (paired.p > 0.05) is over_seeds
    assert paired.needs
    assert (paired.needs.speakers_needed is None) is over_seeds
    if over_seeds:
        console, table = Console(record=True, width=300, file=io.StringIO()), tmp_path / "t.tex"
        options = ReportOptions(all_pairs=True, outputs=[table])
        compare_files(runs, options, console=console)
        assert "train more seeds" in console.export_text()
        assert "more seeds" in table.read_text("utf-8")


def test_latex_and_forest_plot_name_the_grouping_of_a_group(tmp_path: Path) -> None:
    files = [_write(tmp_path / f"{name}.jsonl", four_rows()) for name in "ab"]
    outputs = [tmp_path / "out.tex", tmp_path / "out.svg"]
    _compare_files(*files, by=["dialect", "gender,age_group"], outputs=outputs)
    for path in outputs:
        text = path.read_text("utf-8")
        assert "dialect: unknown" in text
        assert "gender and age group: unknown · unknown" in text
        assert "dialect: all" not in text


def test_a_difference_that_is_not_shown_says_how_many_speakers_it_needs(tmp_path: Path) -> None:
    rows = list(random_rows(400, speakers=20))
    other = [
        replace(row, hypothesis=f"{row.hypothesis} {'ja' * (n % 37 == 0)}")
        if n % 2
        else replace(row, hypothesis=row.reference if n % 50 == 0 else row.hypothesis)
        for n, row in enumerate(rows)
    ]
    a, b = _write(tmp_path / "a.jsonl", rows), _write(tmp_path / "b.jsonl", other)
    console = Console(record=True, width=300, file=io.StringIO())
    needs = _compare_files(a, b, console=console).overall.runs[1].paired["wer"].needs
    assert needs
    assert needs.speakers_needed
    assert needs.speakers_needed > 20
    assert f"record about {needs.speakers_needed:,} speakers" in console.export_text()


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
    assert document["rows"][str(b)]["predictions_sha256"][:16] in page
    assert "MAPSSWE" not in page
    assert "for these speakers only -" in page
    compare_files(parse_runs([f"old={a}", f"new={b}"]), ReportOptions(outputs=outputs[2:3]))
    text = (tmp_path / "out.md").read_text(encoding="utf-8")
    assert re.search(r"for these speakers only -.*\(MAPSSWE: p .*, \d+ segments\)", text)
