"""What is printed, in a terminal and where there is none."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from danish_asr.report.terminal import print_table
from danish_asr.scoring.predictions import Prediction, write_predictions


def write_rows(file: Path, heard: str) -> Path:
    write_predictions(
        file,
        (
            Prediction(
                id=f"{speaker}-{number}",
                corpus="c",
                split="test",
                reference="en to tre fire",
                hypothesis=heard if (speaker + number) % 3 else "en to",
                duration=1.0,
                speaker_id=f"s{speaker}",
                dialect="Sønderjysk",
            )
            for speaker in range(12)
            for number in range(4)
        ),
    )
    return file


@pytest.mark.parametrize("command", ["score", "compare"])
def test_a_pipe_gets_every_number_whole(tmp_path: Path, command: str) -> None:
    a = write_rows(tmp_path / "a.jsonl", "en to tre fire")
    files = [a] if command == "score" else [a, write_rows(tmp_path / "b.jsonl", "fem to seks")]
    told = subprocess.run(
        [sys.executable, "-m", "danish_asr", command, *files, "--by", "dialect"],
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    lines = [line for line in told.stdout.splitlines() if "Sønderjysk" in line]
    cells = lines[0].replace("│", " ").split()
    assert "speakers" in told.stdout
    assert "…" not in told.stdout
    assert cells.count("12") == 1
    assert cells.count("48") == 1


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_numbers_are_whole_at_any_width(width: int, *, is_terminal: bool) -> None:
    table = Table()
    table.add_column("group", overflow="fold")
    table.add_column("number", no_wrap=True)
    table.add_row("djurslandsk (nord-, syddjurs m. nord- og sydsamsø, anholt)", "1234567890" * 4)
    console = Console(record=True, file=io.StringIO(), width=width, force_terminal=is_terminal)
    print_table(table, console)
    shown = console.export_text()
    assert "1234567890" * 4 in shown
    assert console.width == width
    is_folded = "djurslandsk (nord-, syddjurs" not in shown
    assert is_folded == (is_terminal and width < 80)
