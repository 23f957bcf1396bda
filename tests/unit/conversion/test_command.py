from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from danish_asr.cli import app
from danish_asr.errors import ConfigError
from tests.builders import build_source, coral_row, tone, tree, write_parquet

runner = CliRunner()


def invoke(*arguments: object) -> str:
    result = runner.invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return " ".join(result.stdout.split())


def test_the_kinds_of_sources_are_listed() -> None:
    told = invoke("convert", "--list")
    for kind in ("coral", "hf-parquet", "manifest", "synthetic"):
        assert re.search(rf"│ {kind} +│", told)


def test_a_conversion_tells_what_it_wrote_and_what_it_left_out(tmp_path: Path) -> None:
    rows = [coral_row(number, text=None if number == 3 else "ja") for number in range(10)]
    write_parquet(tmp_path / "in" / "train.parquet", [*rows, coral_row(10, dialect="færøsk")])
    out = tmp_path / "ds"
    told = invoke("convert", tmp_path / "in", "--out", out, "--name", "x", "--max-drop", 0.1)
    assert "x: 10 rows, 0.00 hours; 1 of 11 source rows are in the ledger" in told
    assert "│ empty text │ Bornholmsk │ 1 │" in told
    assert "unknown dialect name, kept as it is: færøsk (1 rows)" in told


def test_an_array_job_and_a_last_call_make_the_dataset(tmp_path: Path) -> None:
    source = build_source(tmp_path / "in", train=30)
    invoke("convert", source, "--out", tmp_path / "whole", "--name", "x", "--shard-rows", 9)
    common = (source, "--out", tmp_path / "parts", "--shard-rows", 9)
    for index in (1, 2):
        told = invoke("convert", *common, "--shard", f"{index}/2", "--workers", 1)
        assert f"part {index} of 2 is converted" in told
    assert "complete" in invoke("convert", *common, "--name", "x", "--finish")
    assert tree(tmp_path / "parts") == tree(tmp_path / "whole")


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        ("", ["SOURCE: none given", "--name: needed"]),
        ("x --name y --engine spark --max-drop 2", ["--engine: expected one of", "--max-drop: a"]),
        ("x --name y --address auto", ["--address: only --engine ray"]),
        ("x --shard 3/2 --finish --workers 0", ["neither with --finish", "from 1 to N", "least 1"]),
        ("x --name y --max-seconds 0 --shard-rows 0", ["--max-seconds: above", "--shard-rows: at"]),
        ("x --name y --max-seconds nan --max-drop nan", ["--max-drop: a", "above 0; found nan"]),
        ("x --name y --max-seconds inf", ["--max-seconds: above 0; found inf"]),
        ("x --name y --max-seconds -1", ["--max-seconds: above 0; found -1"]),
        ("x --name y --finish --engine ray", ["--finish: converts nothing"]),
        ("x --name ../y", ["--name: up to 100 of .*; found '../y'"]),
        *(
            (f"x --name {name}", ["--name: up to 100 of"])
            for name in ("a/b", "..", "a:b", "-", "å")
        ),
        (f"x --name {'y' * 101}", ["--name: up to 100 of"]),
        ("x --name y --out pyproject.toml", ["--out: a folder, or none yet; found the file pyp"]),
    ],
)
def test_all_faults_of_a_command_line_are_told_at_once(options: str, faults: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        runner.invoke(app, ["convert", *options.split()], catch_exceptions=False)
    assert len(error.value.faults) == len(faults)
    for fault in faults:
        assert re.search(fault, str(error.value))


def test_a_wrong_source_is_told_without_a_traceback(tmp_path: Path) -> None:
    program = "from danish_asr.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", program, "convert", str(tmp_path / "no"), "--name", "x"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert "no such folder" in result.stderr
    assert "Traceback" not in result.stderr


def test_what_is_to_be_known_about_the_source_is_told(tmp_path: Path) -> None:
    table = pa.table({"audio": [tone(0.2)], "text": ["ja"], "køn": ["f"]})
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "train.parquet")
    pq.write_table(table.drop_columns(["køn"]), tmp_path / "in" / "test.parquet")
    source = (f"hf-parquet:{tmp_path / 'in'}", "--corpus", "radio", "--column", "gender=køn")
    told = invoke("convert", *source, "--name", "x", "--out", tmp_path / "ds")
    assert "note: column køn: 1 of 2 files lack it, such as test.parquet" in told
