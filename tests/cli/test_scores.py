"""The commands on results, as far as they hand on what was asked."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from danish_asr.cli.app import app
from danish_asr.scoring.predictions import write_predictions
from tests.score_rows import four_rows, prediction


@pytest.mark.parametrize(("command", "files"), [("score", 1), ("compare", 2)])
def test_rows_are_scored_as_the_command_line_says(tmp_path: Path, command: str, files: int) -> None:
    rows = [*four_rows(), prediction("long", "ja", "ja", duration=11.0)]
    write_predictions(file := tmp_path / "p.jsonl", rows)
    asked = {"profile": "rye", "row_filter": "coral", "denominator": "coral"}
    options = ["--profile", "rye", "--filter", "coral", "--denominator", "coral", "--by", "gender"]
    arguments = [command, *[str(file)] * files, *options, "--out", str(tmp_path / "s.json")]
    CliRunner().invoke(app, arguments, catch_exceptions=False)
    document = json.loads((tmp_path / "s.json").read_text("utf-8"))
    assert {*asked.items()} <= {*document["settings"].items()}
    rows_used = document["rows"] if command == "score" else document["rows"][str(file)]
    assert rows_used["scored"] == 4
    assert "dialect" not in {line["grouping"] for line in document["groups"]}
