import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from danish_asr.base.errors import ConfigError
from danish_asr.cli.app import app
from danish_asr.corpus.shards import read_inventory
from tests.builders import coral_row, tone, write_parquet

runner = CliRunner()


def invoke(*arguments: object) -> str:
    result = runner.invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return " ".join(result.stdout.split())


def test_the_kinds_of_sources_are_listed() -> None:
    output = invoke("convert", "--list")
    for kind in ("coral", "hf-parquet", "manifest", "synthetic"):
        assert re.search(rf"│ {kind} +│", output)


def test_a_conversion_prints_rows_and_drops(tmp_path: Path) -> None:
    rows = [coral_row(number, text=None if number == 3 else "ja") for number in range(10)]
    write_parquet(tmp_path / "in" / "train.parquet", [*rows, coral_row(10, dialect="færøsk")])
    out = tmp_path / "ds"
    output = invoke("convert", tmp_path / "in", "--out", out, "--name", "x", "--max-drop", 0.1)
    assert f"{tmp_path / 'in'}: read as coral, because it has train.parquet: CoRal v1" in output
    assert "x: 10 rows, 6.7 seconds; 1 of 11 source rows are in the ledger" in output
    assert "│ empty text │ Bornholmsk │ 1 │" in output
    assert "unknown dialect name, kept as is: færøsk (1 rows)" in output


@pytest.mark.parametrize(
    ("text", "workers", "said"), [("ja", 1, False), ("ja", 2, True), ("", 2, False)]
)
def test_workers_without_work_are_announced(
    tmp_path: Path, text: str, workers: int, said: bool
) -> None:
    rows = [coral_row(number, text=text) for number in range(3)]
    write_parquet(tmp_path / "in" / "train.parquet", rows)
    options = ["--out", tmp_path / "ds", "--name", "x", "--workers", workers, "--max-drop", 1]
    output = invoke("convert", tmp_path / "in", *options)
    assert ("1 shards are work for as many processes, not for --workers 2" in output) == said
    assert ("shards are work" in output) == said


def test_a_conversion_prints_ignored_columns_and_ages_that_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(tone(0.5))
    table = tmp_path / "train.csv"
    table.write_text("path,text,Age,note\na.wav,ja,niogtyve,x\na.wav,ja,29,y\n")
    output = invoke("convert", table, "--out", tmp_path / "ds", "--name", "x")
    assert f"{table}: read path, text, Age; ignored note (--column" in output
    assert "age left empty, not a number of years: niogtyve (1 rows)" in output
    assert pq.read_table(tmp_path / "ds/version=0")["age"].to_pylist() == [None, 29]


def test_a_conversion_prints_what_the_countries_were_read_as(tmp_path: Path) -> None:
    births = ["DK", "Danmark", "Danmark", "se", "?"]
    rows = [coral_row(number, country_birth=birth) for number, birth in enumerate(births)]
    write_parquet(tmp_path / "in" / "train.parquet", rows)
    source, out = f"hf-parquet:{tmp_path / 'in'}", tmp_path / "ds"
    output = invoke("convert", source, "--corpus", "radio", "--out", out, "--name", "x")
    first = "country of birth: ? -> unknown (1 rows) country of birth: Danmark -> DK (2 rows)"
    assert first in output
    assert read_inventory(out).countries == {
        "Danmark -> DK": 2,
        "? -> unknown": 1,
        "se -> SE": 1,
    }
    dialects = pq.read_table(out / "version=0")["dialect"].to_pylist()
    assert [name == "Non-native" for name in dialects] == [False, False, False, True, False]


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        ("", ["SOURCE: required", "--name: required"]),
        ("x --name y/ --max-drop 2", ["--name: .*y/", "--max-drop: .*2"]),
        ("x --name y --split-by-speaker 0/10/10", ["--split-by-speaker: .*80/10/10.* 0/10/10"]),
        ("x --name y --split-by-speaker 80/10/11", ["--split-by-speaker: .*100.* 80/10/11"]),
        ("x --name y --address auto", ["--address: .*--engine ray"]),
        ("x --name y --language norsk", ["--language: .*nob_Latn.*norsk"]),
        ("x --name y --max-seconds 0", ["--max-seconds: .*0"]),
        ("x --name y --max-seconds nan --max-drop nan", ["--max-drop: .*nan", "--max-sec.*nan"]),
        *((f"x --name {name}", ["--name: "]) for name in ("../y", "a:b", "-", "å", "y" * 101)),
    ],
)
def test_all_faults_of_a_command_line_are_listed(options: str, faults: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        runner.invoke(app, ["convert", *options.split()], catch_exceptions=False)
    assert len(error.value.faults) == len(faults)
    for fault in faults:
        assert re.search(fault, str(error.value))
