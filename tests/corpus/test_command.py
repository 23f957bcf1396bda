"""What convert and verify print, and the faults of their options."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import ConfigError, DatasetError
from danish_asr.corpus import command
from danish_asr.corpus.command import (
    check_faults,
    combine_command,
    convert_command,
    print_sources,
    verify_command,
)
from danish_asr.corpus.sources import SOURCES
from danish_asr.corpus.verify import Leak, Verification
from tests.builders import coral_row, write_parquet
from tests.corpora import options


def test_the_kinds_of_sources_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    print_sources()
    assert {"kind", "WHERE", "what", *SOURCES} <= {*capsys.readouterr().out.split()}


def test_commands_print_what_they_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {3: None, 4: "<p>"}
    rows = [coral_row(number, text=texts.get(number, "ja")) for number in range(10)]
    write_parquet(tmp_path / "in" / "train.parquet", [*rows, coral_row(10, dialect="[b]færøsk")])
    out = tmp_path / "ds"
    for end in ("complete", "complete, as before"):
        convert_command(str(tmp_path / "in"), out, options(name="x", max_drop=0.1))
        output = capsys.readouterr().out
        assert f"{tmp_path / 'in'}: read as parquet: " in output
        assert "x: 10 rows, 0.00 hours; 1 of 11 source rows are in the ledger" in output
        assert "in the ledger: empty text (1 rows)" in output
        assert re.search(r"suspect, .*markup.* \(1 rows\)", output)
        assert "dialect: [b]færøsk is read as no known dialect" in output
        assert output.endswith(f"{out}: {end}\n")
    (listed := tmp_path / "list.csv").write_text("id\nrec_train_0\nrec_train_99\n")
    combine_command([out], tmp_path / "all", name="all", without=listed)
    output = capsys.readouterr().out
    assert "--without: 1 of 2 names are of no row: rec_train_99\nall: 9 rows, 0.00 hours;" in output


def test_a_dataset_without_a_row_is_an_error(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in" / "train.parquet", [coral_row(0), coral_row(1, text=None)])
    convert_command(str(tmp_path / "in"), tmp_path / "ds", options(max_drop=1))
    (tmp_path / "all.csv").write_text("id\nrec_train_0\n")
    without, out = tmp_path / "all.csv", tmp_path / "out"
    with pytest.raises(DatasetError, match="out: no row was written"):
        combine_command([tmp_path / "ds"], out, name="x", without=without)
    shutil.rmtree(out)
    with pytest.raises(DatasetError, match="out: no row was written"):
        convert_command(str(tmp_path / "in"), out, options(max_drop=1, without=without))
    with pytest.raises(DatasetError, match="rows dropped: 4"):  # of a function of one's own
        convert_command(f"tests.parts.two_corpora:{tmp_path}", tmp_path / "own", options())


@pytest.mark.parametrize(
    ("values", "faults"),
    [
        ({"name": "y/", "split": "val"}, ["--name: .*y/", "--split: .*val"]),
        ({"split_by_speaker": "0/10/10"}, ["--split-by-speaker: .*80/10/10.* 0/10/10"]),
        ({"split_by_speaker": "80/10/11"}, ["--split-by-speaker: .*100.* 80/10/11"]),
        ({"columns": {"text": ""}}, ["--column: OURS=THEIRS, .* found text="]),
        ({"columns": {"ord": "x"}, "split": "huge"}, ["--column: .*ord=x", "--split: .*huge"]),
        ({"max_drop": 50}, ["--max-drop: .*50"]),
        ({"language": "norsk"}, ["--language: .*nob_Latn.*norsk"]),
        *(({"corpus": name}, ["--corpus: "]) for name in ("../y", "a:b", "-", "å", "y" * 101)),
    ],
)
def test_all_faults_of_the_options_are_listed(values: dict[str, Any], faults: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        options(**values)
    assert len(error.value.faults) == len(faults)
    for fault in faults:
        assert re.search(fault, str(error.value))


def test_a_check_shows_hours_of_dialects_and_splits_and_what_would_accept_a_leak(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leak = Leak("audio", "train", "test", 1, 1, 0.5, ["a"])
    hours = {("train", "Fynsk"): 1.0, ("train", None): 0.5, ("test", "Fynsk"): 0.25}
    kept: dict[str, Any] = {"unchecked": [], "hours": hours, "suspects": 0, "is_combined": False}
    kept["contradictions"] = []
    found = Verification(**kept, damage=["a: is gone"], leaks=[leak], notes=["few", "allowed: x"])
    asked = dict[str, Any]()
    monkeypatch.setattr(command, "verify", lambda _, **own: (asked.update(own), found)[1])
    assert verify_command(Path("x"), workers=9, allow_shared=["audio"]) == found
    assert asked == {"workers": 9, "allow_shared": ["audio"]}
    output = capsys.readouterr().out
    assert output.split()[0] == "Hours"
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines()]
    assert [row for row in cells if row] == [
        ["Fynsk", "1.000", "0.250"],
        ["not given", "0.500", "0.000"],
        ["all", "1.500", "0.250"],
    ]
    assert output.endswith("note: few\nallowed: x\n")
    with pytest.raises(
        DatasetError, match="--allow-shared speakers or sentences or audio"
    ) as error:
        check_faults(Path("x"), found)
    lines = str(error.value).splitlines()
    assert lines[:-1] == ["x: faults: 2", "  - a: is gone", f"  - {leak}"]
    with pytest.raises(DatasetError, match=r"convert the dataset again$"):
        check_faults(Path("x"), Verification(**kept, damage=["a: is gone"], leaks=[], notes=[]))
    whole: dict[str, Any] = {"damage": [], "leaks": [], "notes": []}
    many = Verification(**kept | {"contradictions": ["a"] * 29}, **whole)
    with pytest.raises(DatasetError, match=r"x: faults: 29\n") as error:
        check_faults(Path("x"), many, page=Path("p.html"))
    assert str(error.value).count("\n  - ") == str(error.value).count("\n") - 1 == 21
    check_faults(Path("x"), Verification(**kept, **whole))
    assert capsys.readouterr().out == "x: no faults\n"
    for page, said in ((None, ["suspects.parquet has 1,200 rows"]), (Path("p.html"), [])):
        check_faults(Path("x"), Verification(**kept | {"suspects": 1200}, **whole), page=page)
        *notes, _ = capsys.readouterr().out.splitlines()
        assert [line.partition(" to listen")[0].removeprefix("note: ") for line in notes] == said


def test_what_verify_advises_can_be_done(tmp_path: Path) -> None:
    """A source with splits of its own is divided anew; a combined dataset is combined again."""
    for split, number in (("train", 0), ("test", 1), ("dev", 2)):
        rows = [coral_row(number * 3 + n, split=split, id_speaker=f"s{n}") for n in range(3)]
        write_parquet(tmp_path / "in" / f"{split}.parquet", rows)
    source, page = str(tmp_path / "in"), tmp_path / "page.html"
    columns = {"speaker_id": "id_speaker", "id": "id_recording"}
    convert_command(source, tmp_path / "ds", options(columns=columns))
    combine_command([tmp_path / "ds"], tmp_path / "all", name="all", without=None)
    for root, advice in (
        ("ds", "--split train --split-by-speaker 80/10/10"),
        ("all", "combine the parts again"),
    ):
        (tmp_path / root / "ledger.parquet").unlink()
        result = verify_command(tmp_path / root, workers=1, allow_shared=())
        with pytest.raises(DatasetError, match=f"(?s)page.html: not written.*{advice}"):
            check_faults(tmp_path / root, result, page=page)
    divided = options(columns=columns, split="train", split_by_speaker="80/10/10")
    convert_command(source, tmp_path / "new", divided)
    result = verify_command(tmp_path / "new", workers=1, allow_shared=("sentences",))
    assert result.leaks == []
