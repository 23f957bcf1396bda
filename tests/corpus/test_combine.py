"""Combined datasets: whole, without copied audio, and the same whatever was there before."""

import errno
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from danish_asr.base.errors import ConfigError, DanishAsrError, DatasetError
from danish_asr.base.files import sha256_of
from danish_asr.corpus.combine import combine
from danish_asr.corpus.inventory import Inventory
from danish_asr.corpus.verify import verify
from tests.builders import tree
from tests.corpora import table_in
from tests.parts import build_part, build_two_corpora
from tests.spoiled import change_manifest, read_rows

TSV = "language_distribution_0.tsv"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the datasets a, b and c, of row groups of two."""
    folder = tmp_path_factory.mktemp("parts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("danish_asr.corpus.task.ROW_GROUP_SIZE", 2)
        for name in ("a", "b", "c"):
            build_part(folder / name)
    return folder


def combined(parts: Path, names: Sequence[str], out: Path, **options: Any) -> Inventory:
    return combine([parts / name for name in names], out, name="all", **options)


def test_a_combined_dataset_has_no_faults_and_links_its_shards(parts: Path, tmp_path: Path) -> None:
    inventory = combined(parts, "ab", tmp_path / "all")
    assert verify(tmp_path / "all").faults == []
    assert inventory.rows == 22
    assert inventory.source == "a, b"
    own = {path.stat().st_ino for path in (parts / "a" / "version=0").rglob("*.parquet")}
    assert own <= {path.lstat().st_ino for path in (tmp_path / "all").rglob("*.parquet")}
    lines = (tmp_path / "all" / TSV).read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["corpus", "a", "b"]


def test_shards_that_cannot_be_linked_are_copied(
    parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    combined(parts, "ab", tmp_path / "all")
    assert verify(tmp_path / "all").faults == []


def test_the_same_command_makes_it_anew_whatever_was_there_before(
    parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what a command left that was stopped."""
    combined(parts, "abc", tmp_path / "all")
    with monkeypatch.context() as patch:
        patch.setattr("danish_asr.corpus.combine.complete", stop)
        with pytest.raises(KeyboardInterrupt):
            combined(parts, "abc", tmp_path / "all")
    combined(parts, "ba", tmp_path / "all")
    combined(parts, "ab", tmp_path / "two")
    assert tree(tmp_path / "all") == tree(tmp_path / "two")


def stop(*_: object, shards: Iterable[object], **__: object) -> None:
    """Take the signal after the shards and before the manifest."""
    list(shards)
    raise KeyboardInterrupt


def test_listed_rows_are_in_the_ledger_and_in_no_shard(parts: Path, tmp_path: Path) -> None:
    listed = tmp_path / "wrong.csv"
    listed.write_text(
        "corpus,id\na,a_train_2\na,a_train_3\na,a_train_5\nb,b_dev_0\nb,b_dev_1\nb,a_test_0\n"
    )
    inventory = combined(parts, "ab", tmp_path / "all", without=listed)
    assert (inventory.rows, inventory.dropped_rows, inventory.source_rows) == (17, 5, 22)
    ledger = table_in(tmp_path / "all", "ledger")
    names = "corpus", "id", "reason", "source", "row"
    assert [tuple(row[name] for name in names) for row in ledger] == [
        *(("a", f"a_train_{n}", "listed in wrong.csv", "a/train.parquet", n) for n in (2, 3, 5)),
        ("b", "b_dev_0", "listed in wrong.csv", "b/dev.parquet", 0),
        ("b", "b_dev_1", "listed in wrong.csv", "b/dev.parquet", 1),
    ]
    for shard in inventory.shards:
        rows = read_rows(tmp_path / "all" / shard.path)
        assert shard.seconds == sum(row["audio_size"] for row in rows) / 16_000
        assert shard.rows == len(rows) > 0
        assert shard.sha256 == sha256_of(tmp_path / "all" / shard.path)
    (line,) = inventory.summary
    assert line.endswith(" 1 of 6 names are of no row: b a_test_0")
    ids = pq.read_table(tmp_path / "all" / "version=0" / "corpus=a" / "split=train")["id"]
    assert ids.to_pylist() == [f"a_train_{number}" for number in (0, 1, 4)]


def test_the_ledgers_and_suspects_of_the_rows_that_stay_are_kept(tmp_path: Path) -> None:
    rows = {"train": 6, "test": 9}
    build_part(tmp_path / "d", text="nan", rows=rows, max_seconds=0.8, max_drop=1)
    (tmp_path / "wrong.csv").write_text("corpus,id\nd,d_train_1\n")
    inventory = combined(tmp_path, "d", tmp_path / "all", without=tmp_path / "wrong.csv")
    suspects, ledger = (
        [table_in(tmp_path / root, name) for root in ("d", "all")]
        for name in ("suspects", "ledger")
    )
    assert suspects[1] == [row for row in suspects[0] if row["id"] != "d_train_1"] != suspects[0]
    assert inventory.suspects == {"markup or a missing value as text": len(suspects[1])}
    assert inventory.dropped_rows == len(ledger[0]) + 1 > 1
    models = [tmp_path / root / "cards" / f"{root}_char.model" for root in ("d", "all")]
    assert models[0].read_bytes() == models[1].read_bytes()  # of the same characters
    moved = [row | {"source": f"d/{row['source']}"} for row in ledger[0]]
    assert [row for row in ledger[1] if row["id"] != "d_train_1"] == moved


@pytest.mark.parametrize(
    ("names", "listed", "reason"),
    [
        (("a", "a"), "", "have the same name: a, a"),
        (("rowless",), "", "rowless: no part has a row"),
        (("a", "copy"), "", "a and copy share 11 rows, such as a a_"),
        (("a", "norsk"), "", "one language; these have dan_Latn, nob_Latn"),
        (("a", "b"), "corpus,id\na,a_train_1\nc,nobody\n", "--without: .*list.csv.* c, .*nobody"),
    ],
)
def test_what_cannot_be_combined_is_refused(
    parts: Path, tmp_path: Path, names: tuple[str, ...], listed: str, reason: str
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(parts / name)
    if "norsk" in names:
        build_part(tmp_path / "norsk", language="nob_Latn")
    for name in ("copy", "rowless"):
        shutil.copytree(parts / "a", tmp_path / name)
    change_manifest(tmp_path / "copy", lambda manifest: manifest.update(name="copy"))
    change_manifest(tmp_path / "rowless", lambda manifest: manifest.update(shards=[]))
    shutil.rmtree(tmp_path / "rowless" / "version=0")
    (tmp_path / "list.csv").write_text(listed)
    options = {"without": tmp_path / "list.csv"} if listed else {}
    combined(parts, "bc", tmp_path / "all")
    before = {path for path in (tmp_path / "all").rglob("*") if ".convert" not in path.parts}
    with pytest.raises(DanishAsrError, match=reason):
        combined(tmp_path, names, tmp_path / "all", **options)
    assert {
        path for path in (tmp_path / "all").rglob("*") if ".convert" not in path.parts
    } == before


def test_a_directory_that_holds_something_else_is_refused(parts: Path, tmp_path: Path) -> None:
    shutil.copytree(parts / "a", tmp_path / "a")
    with pytest.raises(DatasetError, match="holds the finished dataset 'a'"):
        combined(parts, "bc", tmp_path / "a")
    with pytest.raises(ConfigError, match="--name: a is the name of a part"):
        combine([parts / "a", parts / "b"], tmp_path / "new", name="a")
    combined(parts, "ab", tmp_path / "all")
    with pytest.raises(DatasetError, match="holds the finished dataset 'all'"):
        combine([parts / "c"], tmp_path / "all", name="everything")


def test_a_list_that_the_new_dataset_would_replace_is_refused(parts: Path, tmp_path: Path) -> None:
    out = tmp_path / "all"
    combined(parts, "ab", out)
    listed = out / "cards" / "wrong.csv"
    listed.write_text("corpus,id\na,a_train_1\n")
    with pytest.raises(ConfigError, match=r"wrong\.csv"):
        combined(parts, "ab", out, without=listed)
    assert listed.is_file()
    assert verify(out).faults == []


def test_corpora_of_one_conversion_share_people_also_in_a_combination(tmp_path: Path) -> None:
    build_two_corpora(tmp_path / "two")
    build_part(tmp_path / "c", rows={"test": 3}, people="012")
    combined(tmp_path, ("two", "c"), tmp_path / "all")
    for root in (tmp_path / "two", tmp_path / "all"):
        (leak,) = (leak for leak in verify(root).leaks if leak.what == "speakers")
        assert (leak.one, leak.other, leak.shared) == ("train", "test", 2)  # nobody of c
