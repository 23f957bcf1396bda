from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from danish_asr.cli.app import app
from danish_asr.scoring.predictions import write_predictions
from tests.score_rows import four_rows


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with predictions in ``a.jsonl``."""
    write_predictions(tmp_path / "a.jsonl", four_rows())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def printed() -> Callable[[str], str]:
    """What a command line prints."""

    def run(line: str) -> str:
        return CliRunner().invoke(app, line.split(), catch_exceptions=False).output

    return run
