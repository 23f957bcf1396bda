"""What is printed where there is no terminal, and what may be written where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from danish_asr.errors import ConfigError
from danish_asr.predictions import Prediction, write_predictions
from danish_asr.report.terminal import check_outputs


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


def test_nothing_is_written_over_what_is_read_or_twice(tmp_path: Path) -> None:
    predictions = write_rows(tmp_path / "predictions.jsonl", "en to tre fire")
    other = tmp_path / "scores.json"
    check_outputs([predictions], [other, None, tmp_path / "scores.csv"])
    for outputs in ([tmp_path / "." / "predictions.jsonl"], [other, other]):
        with pytest.raises(ConfigError, match="is read or written already"):
            check_outputs([predictions], outputs)
