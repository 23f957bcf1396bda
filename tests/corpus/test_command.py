import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from danish_asr.base.errors import ConfigError
from danish_asr.cli import main
from danish_asr.cli.app import app
from danish_asr.corpus.command import check_faults, verify_command
from tests.builders import coral_row, write_parquet
from tests.spoiled import (
    CARD,
    LEDGER,
    SECOND,
)

runner = CliRunner()


def invoke(*arguments: object) -> str:
    result = runner.invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return " ".join(result.stdout.split())


def test_the_kinds_of_sources_are_listed() -> None:
    output = invoke("convert", "--list")
    for kind in ("parquet", "table", "pairs", "synthetic"):
        assert re.search(rf"│ {kind} +│", output)


def test_a_conversion_prints_rows_and_drops(tmp_path: Path) -> None:
    rows = [coral_row(number, text=None if number == 3 else "ja") for number in range(10)]
    write_parquet(tmp_path / "in" / "train.parquet", [*rows, coral_row(10, dialect="færøsk")])
    out = tmp_path / "ds"
    output = invoke("convert", tmp_path / "in", "--out", out, "--name", "x", "--max-drop", 0.1)
    assert f"{tmp_path / 'in'}: read as parquet" in output
    assert "x: 10 rows, 0.00 hours; 1 of 11 source rows are in the ledger" in output
    assert "in the ledger: empty text (1 rows)" in output
    assert "dialect: færøsk is read as no known dialect, kept as it is (1 rows)" in output


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        ("x --name y/ --split val", ["--name: .*y/", "--split: .*val"]),
        ("x --name y --split-by-speaker 0/10/10", ["--split-by-speaker: .*80/10/10.* 0/10/10"]),
        ("x --name y --split-by-speaker 80/10/11", ["--split-by-speaker: .*100.* 80/10/11"]),
        ("x --name y --column text", ["--column: OURS=THEIRS, .* found text="]),
        ("x --name y --column ord=x --split huge", ["--column: .*ord=x", "--split: .*huge"]),
        ("x --name y --max-drop 50", ["--max-drop: .*50"]),
        ("x --name y --language norsk", ["--language: .*nob_Latn.*norsk"]),
        *((f"x --name {name}", ["--name: "]) for name in ("../y", "a:b", "-", "å", "y" * 101)),
    ],
)
def test_all_faults_of_a_command_line_are_listed(options: str, faults: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        runner.invoke(app, ["convert", *options.split()], catch_exceptions=False)
    assert len(error.value.faults) == len(faults)
    for fault in faults:
        assert re.search(fault, str(error.value))


def test_all_faults_are_in_one_list_with_status_1(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [SECOND, LEDGER, "suspects.parquet", CARD]
    for name in files:
        (root / name).write_bytes(b"\xff\x00")
    with pytest.raises(SystemExit) as stop:
        main(lambda: check_faults(root, verify_command(root, workers=1, allow_shared=())))
    assert stop.value.code == 1
    output = capsys.readouterr().err
    assert f"{root}: faults: {len(files)}" in output
    assert [name for name in files if f"  - {name}: " not in output] == []
