"""The commands on datasets, around the work that they ask for."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from danish_asr.cli.app import app


@pytest.fixture
def verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """What a dataset with these faults and splits lets the command do, and what it says."""
    monkeypatch.chdir(tmp_path)

    def verify(line: str, *, damage: tuple[str, ...] = (), splits: str = "") -> list[Any]:
        hours = {(split, "dialect"): 1.0 for split in splits.split()}
        result = SimpleNamespace(damage=damage, hours=hours)
        calls: list[Any] = []
        for path, returned in {
            "corpus.command.verify_command": result,
            "corpus.command.check_faults": None,
            "report.dataset_page.check_page": None,
            "report.dataset_page.write_dataset_page": None,
        }.items():

            def work(*_: Any, name: str = path, returned: Any = returned, **__: Any) -> Any:
                calls.append(name.rpartition(".")[2])
                return returned

            monkeypatch.setattr(f"danish_asr.{path}", work)
        run = CliRunner().invoke(app, ["verify", "ds", *line.split()], catch_exceptions=False)
        return [run.exit_code, *calls, run.output]

    return verify


def test_a_page_is_checked_before_the_work_and_written_of_a_dataset_without_damage(
    verified: Callable[..., list[Any]],
) -> None:
    names = ["check_page", "verify_command", "write_dataset_page", "check_faults"]
    assert verified("--page x.html")[:-1] == [0, *names]
    assert verified("--page x.html", damage=("x",))[:-1] == [0, *names[:2], names[3]]
    assert verified("")[:-1] == [0, names[1], names[3]]
    status, said = verified("--no-audio")
    assert (status, "--page" in said) == (2, True)


@pytest.mark.parametrize(
    ("splits", "first", "following"),
    [
        ("dev test train", False, "train outputs/first --dataset ds "),
        ("dev train", True, "train OUTDIR --dataset ds "),
        ("train test", False, "combine ds OTHER --name NAME --out DIR "),
    ],
)
def test_a_verified_dataset_is_trained_on_if_it_has_train_and_dev(
    verified: Callable[..., list[Any]], splits: str, first: bool, following: str
) -> None:
    if first:
        Path("outputs", "first").mkdir(parents=True)
    assert f"Next: danish-asr {following}" in verified("", splits=splits)[-1]


def test_a_source_and_its_columns_reach_the_conversion_and_the_kinds_are_listed(
    monkeypatch: pytest.MonkeyPatch, printed: Callable[[str], str]
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        "danish_asr.corpus.command.convert_command", lambda *arguments: asked.append(arguments)
    )
    assert "table" in printed("convert --list")
    said = printed("convert in --name x --column text=a=b --column id=c --tier t --workers 3")
    ((source, out, options),) = asked
    assert (source, out) == ("in", Path("data/parquet"))
    assert options.columns == {"text": "a=b", "id": "c"}
    assert (options.tiers, options.workers, options.corpus) == (("t",), 3, None)
    assert "Next: danish-asr verify data/parquet " in said
