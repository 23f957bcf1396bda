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


def test_rows_carry_text_audio_and_metadata(tmp_path: Path) -> None:
    build_dataset(tmp_path / "ds", conversation=False)
    row = read(shards(tmp_path / "ds")[-1])[0]
    audio = row.pop("audio_bytes")
    assert audio.startswith(b"fLaC")
    assert row.pop("encoded_size") == len(audio)
    assert row == {
        "id": "rec_train_0",
        "text": "Anna køber 21 æbler i Århus",
        "audio_size": 8000,
        "speaker_id": "spe_train_0",
        "dialect": "Østjysk",
        "sub_dialect": "midtøstjysk",
        "age": 19,
        "age_group": "0-24",
        "gender": "female",
        "country_birth": "DK",
        "source_id": "read_aloud/train-00000-of-00001.parquet:0",
    }


WAVE = np.sin(np.arange(16_000) / 5)


BAD_ROWS: list[tuple[str, dict[str, Any]]] = [
    ("undecodable audio", {"audio": b"\x00garbage"}),
    ("undecodable audio", {"audio": tone(0.5, format="FLAC")[:700]}),
    ("no audio", {"audio_struct": None}),
    ("no audio", {"audio_struct": {"bytes": b"", "path": None}}),
    ("no audio", {"audio_struct": {"bytes": None, "path": "no.wav"}}),
    ("empty text", {"text": None}),
    ("empty text", {"text": " \t"}),
    ("zero samples", {"audio": tone(0.0)}),
    ("zero samples", {"audio": encode(np.array([[0.5]]), 48_000)}),
    ("non-finite samples", {"audio": encode(np.full((80, 1), math.nan), 16_000, subtype="FLOAT")}),
    ("longer than 3 s", {"audio": tone(3.5, rate=8000)}),
    (
        "samples far outside -1 to 1",
        {"audio": encode(WAVE[:, None] * 2e4, 16_000, subtype="FLOAT")},
    ),
    ("digital silence", {"audio": encode(np.zeros((16_000, 1)), 16_000)}),
    ("digital silence", {"audio": encode(np.tile([[1], [-1]], (8000, 1)) / 3e5, 16_000)}),
    ("digital silence", {"audio": encode(WAVE[:, None] * [[1, -1]], 16_000)}),
    ("digital silence", {"audio": encode(np.full((16_000, 1), 0.3), 16_000)}),  # DC alone
    ("more than 50 letters per second", {"audio": encode(np.array([[0.5], [-0.5]]), 16_000)}),
    ("more than 50 letters per second", {"text": "a" * 26 + "?", "audio": tone(0.5)}),
    ("rejected", {"validated": "rejected"}),
    ("duplicate id", {"id_recording": "rec_train_0"}),
]


GOOD_ROWS: list[dict[str, Any]] = [
    {"text": "en bil 🚗 kører"},
    {"age": None, "dialect": None, "gender": None, "country_birth": None},
    {"text": "a" * 25, "audio": tone(0.5)},
    {"audio": tone(0.6, channels=2, format="OGG")},
    {"validated": "maybe"},
    {"dialect": "færøsk"},
    {"country_birth": "SE"},
    {"id_recording": " "},
]


def test_every_source_row_is_written_or_in_the_ledger_with_its_reason(tmp_path: Path) -> None:
    # One file that cannot be decoded stops upstream's conversion (TRAPS).
    rows = [coral_row(0)]
    rows += [coral_row(number, **values) for number, (_, values) in enumerate(BAD_ROWS, 1)]
    rows += [coral_row(number, **values) for number, values in enumerate(GOOD_ROWS, 50)]
    write_parquet(tmp_path / "in" / "train.parquet", rows)
    run(tmp_path / "in", tmp_path / "ds", max_seconds=3.0, shard_rows=6, max_drop=1.0)
    entries = ledger(tmp_path / "ds")
    assert [(entry["row"], entry["reason"]) for entry in entries] == [
        (number, reason) for number, (reason, _) in enumerate(BAD_ROWS, 1)
    ]
    assert {entry["source"] for entry in entries} == {"train.parquet"}
    assert entries[0]["id"] == "rec_train_1"
    assert entries[0]["dialect"] == "Sjællandsk"
    written = {row["source_id"]: row for shard in shards(tmp_path / "ds") for row in read(shard)}
    assert len(written) == 1 + len(GOOD_ROWS)
    assert written["train.parquet:21"]["text"] == "en bil 🚗 kører"
    assert written["train.parquet:27"]["dialect"] == "Non-native"
    assert written["train.parquet:28"]["id"] == "train.parquet:28"  # a blank one is none
    manifest = read_inventory(tmp_path / "ds")
    assert manifest.rows + manifest.dropped_rows == manifest.source_rows == len(rows)
    assert any(line.startswith("dialect: færøsk is read as") for line in manifest.summary)
    assert pq.read_schema(tmp_path / "ds" / "ledger.parquet").equals(LEDGER_SCHEMA)


def test_rows_to_listen_to_are_listed_with_what_was_measured(tmp_path: Path) -> None:
    pause = np.concatenate([WAVE / 2, np.zeros(64_000)])
    rows: list[tuple[str, float, str, Any]] = [
        ("letters per second", 40.0, "a" * 40, WAVE / 2),
        ("letters per second", 0.5, "a", np.tile(WAVE / 2, 2)),
        ("share of clipped samples", 0.787, "a" * 9, WAVE * 3),
        ("dBFS, very quiet", -69.031, "a" * 9, WAVE / 2000),
        ("seconds of silence", 4.0, "a" * 9, pause),
        ("seconds of silence", 4.0, "a" * 9, pause + 0.05),
        ("share of DC offset", 0.243, "a" * 9, WAVE / 2 + 0.2),
    ]
    made = [
        coral_row(number, text=text, audio=encode(wave[:, None], 16_000, subtype="FLOAT"))
        for number, (_, _, text, wave) in enumerate(rows)
    ]
    write_parquet(tmp_path / "in" / "train.parquet", [*made, coral_row(9, audio=tone(1.0))])
    run(tmp_path / "in", tmp_path / "ds")
    suspects = pq.read_table(tmp_path / "ds" / "suspects.parquet").to_pylist()
    expected = [(f"rec_train_{number}", row[0]) for number, row in enumerate(rows)]
    assert [(row["id"], row["reason"]) for row in suspects] == expected
    assert [row["value"] for row in suspects] == pytest.approx([row[1] for row in rows], abs=0.02)
    assert {(row["corpus"], row["split"]) for row in suspects} == {("coral_read_aloud", "train")}
    assert suspects[1]["dialect"] == "Sjællandsk"
    assert read_inventory(tmp_path / "ds").suspects["letters per second"] == 2


ODD_TEXTS = {
    "blÃ¥ bÃ¦r og Ã…rhus": "mojibake",
    "f&aelig;lles &amp; godt": "HTML entities",
    "det er bl\ufffd": "replacement characters",
    "–": "no letter or digit",
    "\u200b\ufeff": "no letter or digit",
}


def test_texts_that_are_not_text_never_reach_training_but_test_sets_stay_whole(
    tmp_path: Path,
) -> None:
    texts = [*ODD_TEXTS, "blå bær & Århus"]
    for split in ("train", "test"):
        rows = [coral_row(number, split=split, text=text) for number, text in enumerate(texts)]
        write_parquet(tmp_path / "in" / f"{split}.parquet", rows)
    run(tmp_path / "in", tmp_path / "ds", max_drop=1)
    wordless = ["no letter or digit"] * 2
    dropped = [entry["reason"] for entry in ledger(tmp_path / "ds")]
    assert sorted(dropped) == sorted([*ODD_TEXTS.values(), *wordless])
    suspects = pq.read_table(tmp_path / "ds" / "suspects.parquet").to_pylist()
    expected = {"train": [], "test": ["mojibake", "HTML entities", "replacement characters"]}
    for split, reasons in expected.items():
        own = [row["reason"] for row in suspects if row["split"] == split]
        assert [reason for reason in own if "second" not in reason] == reasons


@pytest.mark.parametrize(
    ("limit", "sizes"), [(1 << 30, [100, 30]), (1, [1] * 130)], ids=["rows", "bytes"]
)
def test_a_row_group_ends_with_its_rows_or_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(shard_module, "ROW_GROUP_BYTES", limit)
    rows = [coral_row(number, text="ja", audio=tone(0.1)) for number in range(130)]
    write_parquet(tmp_path / "in" / "train.parquet", rows, row_group_size=130)
    run(tmp_path / "in", tmp_path / "ds", shard_rows=1000)
    (path,) = shards(tmp_path / "ds")
    with pq.ParquetFile(path) as parquet:
        footer = parquet.metadata
        rows_of_groups = [
            footer.row_group(group).num_rows for group in range(footer.num_row_groups)
        ]
        assert parquet.read(["id"])["id"].to_pylist() == [row["id_recording"] for row in rows]
    assert rows_of_groups == sizes


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


@given(tables)
def test_the_first_row_of_a_corpus_and_id_is_kept_and_all_later_ones_are_duplicates(
    rows: pa.Table,
) -> None:
    seen: set[tuple[str, str]] = set()
    for row in without_duplicates(rows).to_pylist():
        name = row["corpus"], row["id"]
        assert row["refused"] == (DUPLICATE if name in seen else None)
        seen.add(name)


def test_a_row_group_that_fits_is_not_cut(tmp_path: Path) -> None:
    folder = build_source(tmp_path, train=50, dev=0, test=0, conversation=False, row_group_size=20)
    rows = open_source(str(folder), options()).rows
    tasks = plan_tasks(rows, options(shard_rows=45))
    assert [len(task.rows) for task in tasks] == [40, 10]
