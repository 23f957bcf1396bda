"""Combined datasets: whole, without copied audio, and the same whatever was there before."""

import errno
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from danish_asr.base.errors import EXIT_STOPPED, ConfigError, DanishAsrError, DatasetError
from danish_asr.corpus.combine import combine
from danish_asr.corpus.shards import Inventory
from danish_asr.corpus.verify import verify
from danish_asr.recipe.data.index import DanishAsrDataset
from tests.builders import tree
from tests.corpora import table_in
from tests.parts import build_part, build_two_corpora
from tests.spoiled import change_manifest, faults_of, read_rows

TSV = "language_distribution_0.tsv"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the datasets a, b and c."""
    folder = tmp_path_factory.mktemp("parts")
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
    assert own <= {path.stat().st_ino for path in (tmp_path / "all").rglob("*.parquet")}
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
    parts: Path, tmp_path: Path
) -> None:
    combined(parts, "abc", tmp_path / "all")
    combined(parts, "ba", tmp_path / "all")
    combined(parts, "ab", tmp_path / "two")
    assert tree(tmp_path / "all") == tree(tmp_path / "two")


def test_a_moved_dataset_is_read_without_its_parts(parts: Path, tmp_path: Path) -> None:
    shutil.copytree(parts / "a", tmp_path / "a")
    combined(tmp_path, "a", tmp_path / "all")
    shutil.rmtree(tmp_path / "a")
    moved = (tmp_path / "all").rename(tmp_path / "moved")
    index = DanishAsrDataset(moved).read_index("train")
    assert len(index) == 6
    assert index.audio.read(5)[:4] == b"fLaC"
    assert "cards/all.yaml: " in faults_of(moved)


def test_listed_rows_are_left_out_of_shards_and_are_in_the_ledger(
    parts: Path, tmp_path: Path
) -> None:
    listed = tmp_path / "wrong.csv"
    listed.write_text("corpus,id\na,a_train_1\nb,b_dev_0\nb,b_dev_1\nb,a_test_0\n")
    inventory = combined(parts, "ab", tmp_path / "all", without=listed)
    assert (inventory.rows, inventory.dropped_rows, inventory.source_rows) == (19, 3, 22)
    assert verify(tmp_path / "all").faults == []
    ledger = table_in(tmp_path / "all", "ledger")
    names = "corpus", "id", "reason", "source", "row"
    assert [tuple(row[name] for name in names) for row in ledger] == [
        ("a", "a_train_1", "listed in wrong.csv", "a/train.parquet", 1),
        ("b", "b_dev_0", "listed in wrong.csv", "b/dev.parquet", 0),
        ("b", "b_dev_1", "listed in wrong.csv", "b/dev.parquet", 1),
    ]
    for shard in inventory.shards:
        rows = read_rows(tmp_path / "all" / shard.path)
        assert shard.seconds == sum(row["audio_size"] for row in rows) / 16_000
        assert shard.rows == len(rows) > 0
    ids = pq.read_table(tmp_path / "all" / "version=0" / "corpus=a")["id"].to_pylist()
    assert sorted(ids) == sorted({f"a_{name}" for name in ALL_OF_A.split()} - {"a_train_1"})


ALL_OF_A = "dev_0 dev_1 test_0 test_1 test_2 train_0 train_1 train_2 train_3 train_4 train_5"


def test_the_ledgers_and_suspects_of_the_rows_that_stay_are_kept(tmp_path: Path) -> None:
    build_part(
        tmp_path / "d",
        text="nan",
        rows={"train": 6, "test": 9},
        max_seconds=0.8,
        max_drop=1,
    )
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


def started(parts: Path, names: Sequence[str], out: Path) -> subprocess.Popen[bytes]:
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{listen}; from danish_asr.cli import main; main()"
    roots = [str(parts / name) for name in names]
    arguments = ["combine", *roots, "--out", str(out), "--name", "all"]
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE)


def mark_of(out: Path) -> int:
    try:
        return (out / ".convert" / "key").stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_combination_stopped_at_any_moment_ends_with_the_same_files(
    parts: Path, tmp_path: Path, number: signal.Signals
) -> None:
    moments = random.Random(int(number))
    build_part(
        tmp_path / "many", text="{part} {split}", rows={"train": 60, "test": 3}, shard_rows=1
    )
    shutil.copytree(parts / "a", tmp_path / "a")
    roots, out = [tmp_path / "a", tmp_path / "many"], tmp_path / "all"
    combine(roots[:1], out, name="all")
    for _ in range(3):
        before = mark_of(out)
        process = started(tmp_path, ("a", "many"), out)
        while process.poll() is None and mark_of(out) in {0, before}:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.03))
        process.send_signal(number)
        _, output = process.communicate(timeout=60)
        stopped = {signal.SIGINT: 130, signal.SIGTERM: EXIT_STOPPED}.get(number, -number)
        # Once it is complete, the default is back: a signal then kills the process.
        assert process.returncode in {stopped, 0, -number}
        assert b"Traceback" not in output
    combine(roots, out, name="all")
    combine(roots, tmp_path / "undisturbed", name="all")
    assert tree(out) == tree(tmp_path / "undisturbed")


@pytest.mark.parametrize(
    ("names", "listed", "reason"),
    [
        (("a", "a"), "", "have the same name: a, a"),
        (("a", "none"), "", "none: no such folder"),
        (("a", "empty"), "", "empty: not a finished dataset"),
        (("rowless",), "", "rowless: no part has a row"),
        (("a", "copy"), "", "a and copy share 11 rows, such as a a_"),
        (("a", "norsk"), "", "one language; these have dan_Latn, nob_Latn"),
        (("a", "b"), "corpus,id\na,nobody\n", "--without: .*list.csv"),
        (("a", "b"), "name\na_train_0\n", r"list.csv:2: expected the columns corpus and id"),
    ],
)
def test_what_cannot_be_combined_is_refused(
    parts: Path, tmp_path: Path, names: tuple[str, ...], listed: str, reason: str
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(parts / name)
    (tmp_path / "empty").mkdir()
    if "norsk" in names:
        build_part(tmp_path / "norsk", language="nob_Latn")
    for name in ("copy", "rowless"):
        shutil.copytree(parts / "a", tmp_path / name)
    change_manifest(tmp_path / "copy", lambda manifest: manifest.update(name="copy"))
    change_manifest(tmp_path / "rowless", lambda manifest: manifest.update(shards=[]))
    shutil.rmtree(tmp_path / "rowless" / "version=0")
    (tmp_path / "list.csv").write_text(listed)
    options = {"without": tmp_path / "list.csv"} if listed else {}
    with pytest.raises(DanishAsrError, match=reason):
        combined(tmp_path, names, tmp_path / "all", **options)
    assert not (tmp_path / "all" / "manifest.json").exists()


def test_a_directory_that_holds_something_else_is_refused_and_kept(
    parts: Path, tmp_path: Path
) -> None:
    shutil.copytree(parts / "a", tmp_path / "a")
    with pytest.raises(DatasetError, match="holds the finished dataset 'a'"):
        combined(parts, "bc", tmp_path / "a")
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / "radio.wav").write_text("mine")
    with pytest.raises(DatasetError, match=r"holds radio\.wav"):
        combined(parts, "bc", tmp_path / "recordings")
    with pytest.raises(ConfigError, match="--name: a is the name of a part"):
        combine([parts / "a", parts / "b"], tmp_path / "new", name="a")
    combined(parts, "ab", tmp_path / "all")
    with pytest.raises(DatasetError, match="holds the finished dataset 'all'"):
        combine([parts / "c"], tmp_path / "all", name="everything")


def test_a_list_of_rows_that_the_new_dataset_would_replace_is_refused(
    parts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "all"
    combined(parts, "ab", out)
    listed = out / "cards" / "wrong.csv"
    listed.write_text("corpus,id\na,a_train_1\n")
    with pytest.raises(ConfigError, match=r"wrong\.csv"):
        combined(parts, "ab", out, without=listed)
    assert listed.is_file()
    assert verify(out).faults == []


def test_speakers_of_one_id_in_two_parts_are_two_people(tmp_path: Path) -> None:
    for part, held_out in (("a", "dev"), ("b", "test")):
        build_part(tmp_path / part, rows={"train": 3, held_out: 3}, people="012")
    combined(tmp_path, "ab", tmp_path / "all")
    leaks = verify(tmp_path / "all").leaks
    assert [(leak.one, leak.other, leak.shared) for leak in leaks if leak.what == "speakers"] == [
        ("train", "dev", 3),  # of a
        ("train", "test", 3),  # of b
    ]


def test_corpora_of_one_conversion_share_people_also_after_they_were_combined(
    tmp_path: Path,
) -> None:
    build_two_corpora(tmp_path / "two")
    build_part(tmp_path / "c", rows={"test": 3}, people="012")
    combined(tmp_path, ("two", "c"), tmp_path / "all")
    for root in (tmp_path / "two", tmp_path / "all"):
        (leak,) = (leak for leak in verify(root).leaks if leak.what == "speakers")
        assert (leak.one, leak.other, leak.shared, leak.rows) == ("train", "test", 2, 2)
        assert leak.examples == ["0", "1"]


def test_corals_corpora_alone_share_people_if_each_was_converted_by_itself(tmp_path: Path) -> None:
    splits = {"coral_read_aloud": "train", "coral_conversation": "test", "radio": "dev"}
    for corpus, split in splits.items():
        build_part(tmp_path / corpus, rows={split: 3}, people="012")
    combined(tmp_path, [*splits], tmp_path / "all")
    leaks = verify(tmp_path / "all").leaks
    speakers = [leak for leak in leaks if leak.what == "speakers"]
    assert [(leak.one, leak.other, leak.shared) for leak in speakers] == [("train", "test", 3)]
