"""``danish-asr score`` and ``danish-asr compare`` as their user meets them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from danish_asr.scoring.predictions import write_predictions
from tests.score_rows import four_rows


def _run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = "from danish_asr.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_predictions(tmp_path / "a.jsonl", four_rows())
    write_predictions(tmp_path / "b.jsonl", four_rows()[::-1])
    write_predictions(tmp_path / "c.jsonl", four_rows()[1:])
    (tmp_path / "empty.jsonl").touch()
    return tmp_path


def test_score_prints_a_table_and_leaves_json_and_page_beside_the_predictions(folder: Path) -> None:
    done = _run("score", "a.jsonl", "--by", "dialect,gender", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "4 rows scored" in done.stdout
    assert "Fynsk · unknown" in done.stdout
    assert (folder / "scores.json").is_file()
    assert (folder / "report.html").is_file()


def test_compare_prints_a_table(folder: Path) -> None:
    done = _run("compare", "a.jsonl", "b.jsonl", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "4 rows paired by id" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("score none.jsonl", "none.jsonl: No such file"),
        ("score empty.jsonl", "empty.jsonl: the file is empty"),
        ("score .", "Is a directory; expected the predictions.jsonl"),
        ("compare . a.jsonl", "Is a directory; expected the predictions.jsonl"),
        ("score a.jsonl --profile corl", "expected one of raw, coral, rye; found 'corl'"),
        ("score a.jsonl --by dialekt", "unknown column 'dialekt'"),
        ("score a.jsonl --filter official", "expected one of all, coral"),
        ("score a.jsonl --denominator both", "expected one of standard, coral"),
        ("compare a.jsonl c.jsonl", "a.jsonl:1: id 'a' is not in c.jsonl"),
    ],
)
def test_bad_input_is_told_without_a_traceback(folder: Path, arguments: str, message: str) -> None:
    done = _run(*arguments.split(), folder=folder)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "scores.json").exists()
