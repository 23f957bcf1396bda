"""The commands on datasets, around the work that they ask for."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from danish_asr.cli.app import app


def run(line: str) -> Result:
    return CliRunner().invoke(app, line.split(), catch_exceptions=False)


def test_a_page_is_checked_before_the_work_and_written_of_a_dataset_without_damage(
    called: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["check_page", "verify_command", "write_dataset_page", "check_faults"]
    for line, expected in (("--page x.html", names), ("", names[1::2])):
        run(f"verify ds {line}")
        assert [name for name, *_ in called] == expected
        called.clear()
    damaged = SimpleNamespace(damage=("x",), hours={})
    monkeypatch.setattr("danish_asr.corpus.command.verify_command", lambda *_, **__: damaged)
    run("verify ds --page x.html")
    assert [name for name, *_ in called] == [names[0], names[3]]
    without_page = run("verify ds --no-audio")
    assert (without_page.exit_code, "--page" in without_page.output) == (2, True)


@pytest.mark.parametrize(
    ("splits", "following"),
    [
        ("dev test train", "train outputs/first --dataset ds "),
        ("train test", "combine ds OTHER --name NAME --out DIR "),
    ],
)
@pytest.mark.usefixtures("called")
def test_a_verified_dataset_is_trained_on_if_it_has_train_and_dev(
    monkeypatch: pytest.MonkeyPatch, splits: str, following: str
) -> None:
    result = SimpleNamespace(damage=(), hours={(name, "x"): 1.0 for name in splits.split()})
    monkeypatch.setattr("danish_asr.corpus.command.verify_command", lambda *_, **__: result)
    assert f"Next: danish-asr {following}" in run("verify ds").output
    Path("outputs", "first").mkdir(parents=True)
    assert ("train OUTDIR --dataset" in run("verify ds").output) is following.startswith("train")


def test_columns_of_a_source_reach_the_conversion_and_its_kinds_are_listed(
    called: list[Any],
) -> None:
    assert "table" in run("convert --list").output
    run("convert in --name x --column text=a=b --column id=c --tier t --workers 3")
    ((_, source, out, options),) = called
    assert (source, out) == ("in", Path("data/parquet"))
    assert options.columns == {"text": "a=b", "id": "c"}
    assert (options.tiers, options.workers, options.corpus) == (("t",), 3, None)
    more = "--corpus c --language isl_Latn --channel 2 --split-by-speaker 60/20/20"
    run(f"convert in --name x {more}")
    options = called.pop()[-1]
    assert (options.corpus, options.language, options.channel) == ("c", "isl_Latn", 2)
    assert options.split_by_speaker == "60/20/20"
    twice = run("convert in --name x --column text=a --column text=b")
    assert (twice.exit_code, "--column" in twice.output, len(called)) == (2, True, 1)
