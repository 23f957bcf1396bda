"""The plan of a conversion, what it keeps of an earlier one, and how many rows it may drop."""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from danish_asr.base.errors import DatasetError
from danish_asr.base.files import is_written
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus import convert as package
from danish_asr.corpus.convert import claimed, convert, key_of, plan_tasks
from danish_asr.corpus.inventory import KEY_FILE, find_shards, read_inventory
from danish_asr.corpus.rows import table_of
from tests.builders import build_dataset, coral_row, tone, tree, write_parquet
from tests.corpora import options, record, shards, table_in, write_lines
from tests.transcripts import beside, elan_of, textgrid

convert_module: Any = package


def test_a_dataset_has_the_layout_of_the_contract(pristine: Path) -> None:
    shard = "version=0/corpus=coral_read_aloud/split={}/language=dan_Latn/part-{}.parquet"
    assert [path.relative_to(pristine).as_posix() for path in shards(pristine)] == [
        shard.format("test", "00000-of-00001"),
        *(shard.format("train", f"0000{number}-of-00003") for number in range(2)),  # 2: dropped
    ]
    others = "README.md language_distribution_0.tsv ledger.parquet manifest.json suspects.parquet"
    names = {"cards", "version=0", *others.split()}
    assert {path.name for path in pristine.iterdir()} == names


def test_a_finished_dataset_is_left_as_it_is(tmp_path: Path) -> None:
    build_dataset(tmp_path / "ds", train=2, dev=0, test=0)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "ds").rglob("*")}
    manifest = convert(tmp_path / "ds.source", tmp_path / "ds", ConvertOptions(name="tiny"))
    assert manifest == read_inventory(tmp_path / "ds")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "ds").rglob("*")} == before


@pytest.mark.parametrize("theirs", ["README.md", "version=0/corpus=mls/x"])
def test_a_place_that_is_taken_is_refused(tmp_path: Path, theirs: str) -> None:
    (tmp_path / theirs).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / theirs).write_text("theirs")
    expected = f"holds {theirs.partition('/')[0]}; .* another --out"
    with pytest.raises(DatasetError, match=expected), claimed(tmp_path, "one"):
        pass
    assert (tmp_path / theirs).read_text() == "theirs"


def test_an_unfinished_conversion_is_continued_by_one_with_its_key_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/danish-asr", "convert", "a b", "--name=x"])

    def stop() -> None:
        with claimed(tmp_path, "one"):
            assert is_written(tmp_path)  # which another process is told
            (tmp_path / ".part-00000.parquet.17.partial").touch()
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            stop()
    assert not is_written(tmp_path)
    assert not [*tmp_path.glob("*.partial")]
    with pytest.raises(DatasetError, match="unfinished"), claimed(tmp_path, "other"):
        pass
    for read in (read_inventory, find_shards):
        with pytest.raises(DatasetError, match="continues it: danish-asr convert 'a b' --name=x"):
            read(tmp_path)
    # A notebook's command line continues nothing.
    monkeypatch.setattr(sys, "argv", ["/bin/ipykernel_launcher.py", "-f", "kernel.json"])
    with pytest.raises(KeyboardInterrupt):
        stop()
    for damaged in (None, b"one", b"\xff"):
        if damaged:
            (tmp_path / KEY_FILE).write_bytes(damaged)
        with pytest.raises(DatasetError, match=r"the same command continues it$"):
            read_inventory(tmp_path)


def test_no_more_rows_may_be_dropped_than_max_drop_says(tmp_path: Path) -> None:
    audio = tone(0.2, rate=16_000)
    texts = [None if number < 29 else "ja" for number in range(100)]
    rows = [coral_row(number, text=text, audio=audio) for number, text in enumerate(texts)]
    write_parquet(tmp_path / "in" / "train.parquet", rows)
    with pytest.raises(DatasetError, match=r"29 of the first \d+; --max-drop allows 28 .* row 0"):
        convert(tmp_path / "in", tmp_path / "ds", options(max_drop=0.28))
    assert not (tmp_path / "ds" / "manifest.json").exists()
    assert convert(tmp_path / "in", tmp_path / "ds", options(max_drop=0.29)).dropped_rows == 29


@pytest.mark.parametrize(
    ("suffix", "content", "dropped"),
    [
        (
            ".TextGrid",
            textgrid({"ord": [(0, 1, "ja"), (2, 3, "♪"), (4, 5, "sil")]})["short"],
            {"no speech": 1, "a label, no speech": 1},
        ),
        (".eaf", elan_of("farvel"), {"an annotation without a text": 1}),
    ],
)
def test_what_is_no_speech_does_not_count_among_dropped_rows(
    tmp_path: Path, suffix: str, content: str, dropped: dict[str, int]
) -> None:
    beside(tmp_path, suffix, content)
    inventory = convert(tmp_path, tmp_path / "ds", options(split="train", max_drop=0))
    assert inventory.rows == 1
    assert inventory.dropped == dropped


def test_another_language_is_in_the_paths_the_summary_and_the_tokenizer(tmp_path: Path) -> None:
    rows = [coral_row(0, text="Ðað er GÓÐUR dagur", dialect="suðuroy", country_birth="FO")]
    write_parquet(tmp_path / "in" / "train.parquet", rows)
    inventory = convert(tmp_path / "in", tmp_path / "ds", options(language="fao_Latn"))
    assert inventory.shards[0].partition("language") == "fao_Latn"
    assert not any("is read as" in line for line in inventory.summary)
    tokenizer = (tmp_path / "ds" / "cards" / "own_char.model").read_bytes()
    assert "ó".encode() in tokenizer  # a capital, spoken


File = tuple[str, list[str], list[list[str]]]
"""Corpus, the splits of its rows in turn, and the ids of its groups."""


def table(files: list[File]) -> pa.Table:
    rows = []
    for number, (corpus, splits, groups) in enumerate(files):
        ids = [(group, own) for group, ids in enumerate(groups) for own in ids]
        for row, (group, own) in enumerate(ids):
            split = splits[row % len(splits)]
            record = {"file": f"{number}.csv", "row": row, "group": group, "id": own}
            rows.append(record | {"corpus": corpus, "split": split})
    return table_of(rows, options())


IDS = [str(number) for number in range(20_000)]


@pytest.mark.parametrize(
    ("groups", "limit", "sizes"),
    [
        ([100], 1000, [100]),
        ([100] * 8 + [50], 1000, [100] * 8 + [50]),  # work for 16 processes
        ([100] * 32, 1000, [200] * 16),
        ([100] * 200, 1000, [1000] * 20),
        ([20, 20, 10], 45, [40, 10]),  # a group that fits is not cut
        ([400, 50], 1000, [400, 50]),
        ([250, 20], 100, [83, 83, 84, 20]),
        ([250, 10], 100, [83, 83, 94]),
    ],
)
def test_tasks_are_whole_groups_and_many(groups: list[int], limit: int, sizes: list[int]) -> None:
    rows = table([("a", ["train"], [IDS[:size] for size in groups])])
    tasks = plan_tasks(rows, options(shard_rows=limit))
    assert [len(task.rows) for task in tasks] == sizes
    assert pa.concat_tables(task.rows for task in tasks).equals(rows)


def test_files_of_the_same_corpora_and_splits_share_tasks() -> None:
    rows = table([
        ("b", ["train"], [["1"]]),
        ("a", ["train", "dev"], [["2", "3"]]),
        ("b", ["train"], [["4"]]),
        ("a", ["dev"], [["5"]]),
        ("a", ["test"], [["6"]]),
    ])  # fmt: skip
    tasks = plan_tasks(rows, options())
    assert [task.number for task in tasks] == [*range(4)]
    assert [task.rows["id"].to_pylist() for task in tasks] == [
        *(["2", "3"], ["5"], ["6"], ["1", "4"]),
    ]
    names = [path.rpartition("/")[2] for path in tasks[0].paths.values()]
    assert names == ["part-00000-of-00002.parquet", "part-00000-of-00001.parquet"]
    assert tasks[1].paths["a", "dev"].endswith("part-00001-of-00002.parquet")


def test_a_key_is_of_all_that_decides_the_bytes() -> None:
    rows = table([("a", ["train"], [["1", "2"]])])
    key = key_of(rows, options())
    for other in ({"max_seconds": 5.0}, {"language": "nob_Latn"}, {"channel": 1}):
        assert key_of(rows, options(**other)) != key
    assert key_of(rows.slice(1), options()) != key
    same = {"max_drop": 0.5, "workers": 3, "ray": "local", "without": Path("x")}
    assert key_of(rows, options(**same)) == key


def test_rows_are_left_out_and_divided_as_the_options_say(tmp_path: Path) -> None:
    """What is listed does not count among those that ``max_drop`` allows."""
    rows = [{"path": f"{n}.wav", "text": "ja", "id": n, "speaker": n} for n in range(4)]
    folder = write_lines(tmp_path / "in" / "train.jsonl", rows).parent
    for n in range(4):
        record(folder, f"{n}.wav", seconds=1)
    (tmp_path / "wrong.csv").write_text("corpus,id\nown,1\n,3x\n,2\n")
    values = {"without": tmp_path / "wrong.csv", "max_drop": 0, "split_by_speaker": "60/0/40"}
    inventory = convert(folder, tmp_path / "out", options(**values))
    assert inventory.dropped == {"listed in wrong.csv": 2}
    splits = [(shard.partition("split"), shard.rows) for shard in inventory.shards]
    assert splits == [("test", 1), ("train", 1)]
    (tmp_path / "wrong.csv").write_text("corpus,id\nown,1\nown,02\n,2\n")
    again = convert(folder, tmp_path / "out", options(**values))  # it is finished
    assert [line.rpartition(": ")[2] for line in again.summary[-2:]] == ["3x", "own 02"]


def test_corpora_of_a_conversion_share_people_and_corals_always(tmp_path: Path) -> None:
    rows = [coral_row(0), coral_row(1)]
    write_parquet(tmp_path / "in" / "train.parquet", rows)
    coral = convert(tmp_path / "in", tmp_path / "coral", options())
    assert coral.share_people == [["coral_conversation", "coral_read_aloud"]]
    own = convert(tmp_path / "in", tmp_path / "own", options(corpus="radio"))
    assert own.share_people == [["radio"]]


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the tasks that conversions work on."""
    numbers: list[int] = []
    original = convert_module.convert_task

    def watched(task: Any, **values: Any) -> Any:
        numbers.append(task.number)
        return original(task, **values)

    monkeypatch.setattr(convert_module, "convert_task", watched)
    return numbers


def test_only_tasks_that_dropped_rows_are_done_again(tmp_path: Path, worked: list[int]) -> None:
    rows = [coral_row(number, text=text * 3) for number, text in enumerate("a bc  d")]
    write_parquet(tmp_path / "in" / "train.parquet", rows, row_group_size=1)
    out, most = tmp_path / "out", options(shard_rows=1, max_drop=0.5)
    with pytest.raises(DatasetError):
        convert(tmp_path / "in", out, options(shard_rows=1, max_drop=0.3))
    assert worked == [0, 1, 2, 3, 4, 5]
    assert not (out / "manifest.json").exists()
    for _ in range(2):  # the second time it is finished
        convert(tmp_path / "in", out, most)
        assert worked[6:] == [1, 4, 5, 6]
    assert [row["row"] for row in table_in(out, "ledger")] == [1, 4, 5]
    convert(tmp_path / "in", tmp_path / "whole", most)
    assert tree(out) == tree(tmp_path / "whole")
