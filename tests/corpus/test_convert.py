"""The plan of a conversion: shards of neighbouring rows, and the first row of each id."""

import json
import math
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.base.errors import DatasetError
from danish_asr.base.schema import LEDGER_SCHEMA, SPLITS
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus import shard as shard_module
from danish_asr.corpus.convert import claimed, convert, plan_tasks
from danish_asr.corpus.rows import DUPLICATE, table_of, without_duplicates
from danish_asr.corpus.shards import read_inventory
from danish_asr.corpus.sources import open_source
from danish_asr.corpus.verify import verify
from tests.builders import build_dataset, build_source, coral_row, encode, tone, write_parquet
from tests.corpora import options

SMALL = ConvertOptions(name="tiny", shard_rows=7)


def run(source: Path, out: Path, **options: Any) -> None:
    values: dict[str, Any] = {"name": "tiny", "shard_rows": 7} | options
    convert(source, out, ConvertOptions(**values))


def shards(root: Path) -> list[Path]:
    return sorted((root / "version=0").rglob("*.parquet"))


def read(shard: Path) -> list[dict[str, Any]]:
    with pq.ParquetFile(shard) as parquet:  # without the partition keys of the path
        return list(parquet.read().to_pylist())


def ledger(root: Path) -> list[dict[str, Any]]:
    return list(pq.read_table(root / "ledger.parquet").to_pylist())


def test_a_dataset_has_the_layout_of_the_contract(tmp_path: Path) -> None:
    build_dataset(tmp_path / "ds", train=15, options=SMALL)
    names = {path.relative_to(tmp_path / "ds").as_posix() for path in shards(tmp_path / "ds")}
    train = "version=0/corpus=coral_read_aloud/split=train/language=dan_Latn"
    assert {f"{train}/part-0000{n}-of-00003.parquet" for n in range(3)} <= names
    others = "README.md language_distribution_0.tsv ledger.parquet manifest.json suspects.parquet"
    assert {path.name for path in (tmp_path / "ds").iterdir()} == {
        "cards",
        "version=0",
        *others.split(),
    }


def test_a_finished_dataset_is_left_as_it_is(tmp_path: Path) -> None:
    build_dataset(tmp_path / "ds")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "ds").rglob("*")}
    manifest = convert(tmp_path / "ds.source", tmp_path / "ds", ConvertOptions(name="tiny"))
    assert manifest == read_inventory(tmp_path / "ds")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "ds").rglob("*")} == before


@pytest.mark.parametrize("theirs", ["README.md", "version=0/corpus=mls/x"])
def test_a_place_that_is_taken_is_refused(tmp_path: Path, theirs: str) -> None:
    source = build_source(tmp_path / "in")
    (tmp_path / "ds" / theirs).parent.mkdir(parents=True)
    (tmp_path / "ds" / theirs).write_text("theirs")
    with pytest.raises(DatasetError, match=f"{theirs.partition('/')[0]}; .* another --out"):
        run(source, tmp_path / "ds")
    assert (tmp_path / "ds" / theirs).read_text() == "theirs"


def test_an_unfinished_conversion_is_continued_by_one_with_its_key_only(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), claimed(tmp_path / "ds", "one"):
            raise KeyboardInterrupt
    with pytest.raises(DatasetError, match="unfinished"), claimed(tmp_path / "ds", "other"):
        pass


def test_no_more_rows_may_be_dropped_than_max_drop_says(tmp_path: Path) -> None:
    for dropped in (29, 30):
        texts = [None if number < dropped else "ja" for number in range(100)]
        rows = [coral_row(number, text=text, audio=tone(0.2)) for number, text in enumerate(texts)]
        write_parquet(tmp_path / f"{dropped}" / "train.parquet", rows)
    run(tmp_path / "29", tmp_path / "ds", max_drop=0.29)
    with pytest.raises(DatasetError, match=r"30 of the first \d+; --max-drop allows 29 .* row 0"):
        run(tmp_path / "30", tmp_path / "other", max_drop=0.29)
    assert not (tmp_path / "other" / "manifest.json").exists()
    run(tmp_path / "30", tmp_path / "other", max_drop=1)
    assert read_inventory(tmp_path / "other").dropped_rows == 30


def test_a_manifest_source_is_converted_with_cuts_from_long_files(tmp_path: Path) -> None:
    (tmp_path / "long.wav").write_bytes(tone(3.0, rate=44_100))
    rows = [
        {"audio_filepath": "long.wav", "text": "ja tak", "offset": 0.5, "duration": 1.0},
        {"audio_filepath": "long.wav", "text": "nej tak", "offset": 1.5, "duration": 0.25},
        {"audio_filepath": "gone.wav", "text": "hvor er den"},
        {"audio_filepath": "long.wav", "text": "ja", "offset": 2.5, "duration": 5.0},
        {"audio_filepath": "long.wav", "text": "ja", "offset": 2.5, "duration": 0.55},
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    run(tmp_path / "train.jsonl", tmp_path / "ds", max_drop=0.5)
    table = pq.read_table(shards(tmp_path / "ds")[0])
    assert table["audio_size"].to_pylist() == [16_000, 4_000, 8_000]
    reasons = [entry["reason"] for entry in ledger(tmp_path / "ds")]
    assert reasons == ["audio file missing", "past the end of its audio"]


def test_in_another_language_dialects_stay_and_the_tokenizer_has_its_letters(
    tmp_path: Path,
) -> None:
    rows = [coral_row(0, text="Ðað er GÓÐUR dagur", dialect="suðuroy", country_birth="FO")]
    write_parquet(tmp_path / "in" / "train.parquet", rows)
    root = tmp_path / "ds"
    run(tmp_path / "in", root, language="fao_Latn")
    (path,) = shards(root)
    assert path.parent.name == "language=fao_Latn"
    assert [row["dialect"] for row in read(path)] == ["suðuroy"]
    assert not any("is read as" in line for line in read_inventory(root).summary)
    assert "ó".encode() in (root / "cards" / "tiny_char.model").read_bytes()  # a capital, spoken
    assert "\n- fao\n" in (root / "README.md").read_text()
    assert "\tfao_Latn\t" in (root / "language_distribution_0.tsv").read_text()
    assert verify(root).damage == []


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


groups = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=12), max_size=4)


splits = st.lists(st.sampled_from(SPLITS), min_size=1, max_size=3)


file = st.tuples(st.sampled_from("ab"), splits, groups)


tables = st.lists(file, min_size=1, max_size=5).map(table).filter(len)


@given(tables, st.integers(1, 20))
def test_tasks_divide_the_rows_with_a_shard_of_each_partition_that_occurs(
    rows: pa.Table, limit: int
) -> None:
    tasks = plan_tasks(rows, options(shard_rows=limit))
    planned = chain.from_iterable(task.rows.select(["file", "row"]).to_pylist() for task in tasks)
    assert Counter(map(str, planned)) == Counter(map(str, rows.select(["file", "row"]).to_pylist()))
    for task in tasks:
        assert 0 < len(task.rows) <= limit
        own = task.rows.select(["corpus", "split"]).to_pylist()
        assert task.paths.keys() == {(row["corpus"], row["split"]) for row in own}
        for (corpus, split), path in task.paths.items():
            assert Path(path).parts[1:3] == (f"corpus={corpus}", f"split={split}")
    paths = [path for task in tasks for path in task.paths.values()]
    assert len({*paths}) == len(paths)


@pytest.mark.parametrize(("rows", "tasks"), [(100, 1), (850, 9), (3_200, 16), (20_000, 20)])
def test_a_small_source_has_work_for_several_processes(rows: int, tasks: int) -> None:
    ids = [str(row) for row in range(rows)]
    own = [ids[start : start + 100] for start in range(0, rows, 100)]
    assert len(plan_tasks(table([("a", ["train"], own)]), options())) == tasks


def test_a_row_group_that_fits_is_not_cut(tmp_path: Path) -> None:
    folder = build_source(tmp_path, train=50, dev=0, test=0, conversation=False, row_group_size=20)
    rows = open_source(str(folder), options()).rows
    tasks = plan_tasks(rows, options(shard_rows=45))
    assert [len(task.rows) for task in tasks] == [40, 10]


def test_listed_rows_are_left_out(tmp_path: Path) -> None:
    rows = [{"path": "a.wav", "text": f"nr {n}", "id": n} for n in range(4)]
    rows = [row | {"start": n / 10, "end": n / 10 + 0.1} for n, row in enumerate(rows)]
    path = write_lines(tmp_path / "in" / "train.jsonl", rows)
    (path.parent / "a.wav").write_bytes(tone(2))
    wrong = write_csv(tmp_path / "wrong.csv", "corpus,id", "own,1", "other,2")
    inventory = convert(path, tmp_path / "out", options(without=wrong, max_drop=0))
    assert inventory.dropped == {"listed in wrong.csv": 1}
    write_csv(wrong, "name", "1")
    with pytest.raises(SourceError, match=r"wrong\.csv:2: expected the columns corpus and id"):
        convert(path, tmp_path / "out", options(without=wrong))
