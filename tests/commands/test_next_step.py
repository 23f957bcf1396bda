"""Each command on data ends with the command that comes next, which parses."""

import csv
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from danish_asr.cli.app import app
from tests.builders import tone
from tests.score_rows import four_rows, write_rows


def next_words(*command: str) -> list[str]:
    """Run a command and return the words of the next one, which its program accepts."""
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    (line,) = re.findall(r"(?m)^Next: danish-asr (.*?)    # ", result.output)
    name, *rest = shlex.split(line)
    commands: dict[str, object] = get_command(app).commands  # type: ignore[attr-defined]
    commands[name].make_context(name, [*rest])  # type: ignore[attr-defined]
    return [name, *rest]


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Path("my table.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "sentence", "speaker", "split"])
        for number, split in enumerate(("train", "dev", "test")):
            Path(f"{number}.wav").write_bytes(tone(1.0, hertz=200.0 + number))
            rows.writerow([f"{number}.wav", f"tekst {split}", f"s{number}", split])


@pytest.mark.usefixtures("recordings")
def test_convert_verify_and_explore_lead_to_a_training() -> None:
    root = "data/my own"
    convert = ("convert", "my table.csv", "--name", "mine", "--out", root, "--workers", "1")
    assert next_words(*convert) == ["verify", root]
    following = next_words("verify", root, "--workers", "1")
    assert following == ["train", "outputs/first", "--dataset", root]


def test_score_leads_to_a_comparison(tmp_path: Path) -> None:
    file = tmp_path / "predictions.jsonl"
    write_rows(file, four_rows())
    assert next_words("score", str(file)) == ["compare", str(file), "OTHER"]
