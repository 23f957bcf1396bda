import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.base.errors import SourceError
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.division import assign_speakers
from danish_asr.corpus.shards import read_inventory
from danish_asr.corpus.sources import SourceOptions, open_source
from danish_asr.corpus.verify import verify
from tests.builders import tone

OPTIONS = ConvertOptions(split_by_speaker="80/10/10", shard_rows=7, max_drop=0)


def write_manifest(folder: Path, speakers: int = 10, rows: int = 60, **values: Any) -> Path:
    folder.mkdir(parents=True)
    lines = []
    for row in range(rows):
        audio = folder / f"{row}.wav"
        audio.write_bytes(tone(1, rate=16_000, hertz=200 + row))
        speaker = row % speakers
        line = {
            "audio_filepath": audio.name,
            "text": f"det er sætning nummer {row}",
            "speaker_id": f"spe{speaker}",
            "dialect": ("fynsk", "vestjysk")[speaker % 2],
        } | {key: value(row) for key, value in values.items()}
        lines.append(json.dumps(line))
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return folder / "rows.jsonl"


def build(manifest: Path, out: Path, options: ConvertOptions = OPTIONS) -> list[dict[str, Any]]:
    source = open_source(str(manifest), SourceOptions(corpus="radio", split="train"))
    convert(source, out, name="radio", options=options)
    table = ds.dataset(out / "version=0", partitioning="hive").to_table()
    return list(table.drop_columns(["audio_bytes"]).to_pylist())


def splits_of(rows: list[dict[str, Any]]) -> dict[str, set[str]]:
    return {
        row["speaker_id"]: {r["split"] for r in rows if r["speaker_id"] == row["speaker_id"]}
        for row in rows
    }


def test_speakers_are_divided_between_splits(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "in")
    rows = build(manifest, tmp_path / "ds")
    assert Counter(row["split"] for row in rows) == {"train": 48, "dev": 6, "test": 6}
    assert all(len(splits) == 1 for splits in splits_of(rows).values())
    assert {row["source_id"] for row in rows} == {f"rows.jsonl:{row}" for row in range(60)}
    assert {(row["source_id"], row["text"]) for row in rows} == {
        (f"rows.jsonl:{row}", f"det er sætning nummer {row}") for row in range(60)
    }
    assert verify(tmp_path / "ds").faults == []
    again = build(manifest, tmp_path / "again")
    assert again == rows
    note = "split by speaker (seed 0), speakers: train 8 with 48 rows, dev 1 with 6 rows"
    assert note in (tmp_path / "ds" / "README.md").read_text()


def test_shared_sentences_are_reported_or_go_to_the_ledger(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "in", text=lambda row: f"det er sætning {row % 20 // 10}!")
    build(manifest, tmp_path / "ds")
    notes = (tmp_path / "ds" / "README.md").read_text()
    assert "48 rows of train have a sentence of dev or test; --drop-shared-sentences" in notes
    manifest = write_manifest(tmp_path / "in2", text=lambda row: f"det er sætning {row}")
    lines = manifest.read_text().splitlines()
    rows = build(manifest, tmp_path / "ds2")
    held_out = next(row for row in rows if row["split"] == "test")
    speaker = next(row["speaker_id"] for row in rows if row["split"] == "train")
    copied = json.loads(lines[0]) | {"speaker_id": speaker, "text": held_out["text"].upper()}
    copied["offset"] = 0  # of a recording that another row names
    manifest.write_text("\n".join([*lines, json.dumps(copied)]))
    options = ConvertOptions(split_by_speaker="80/10/10", drop_shared_sentences=True, max_drop=0)
    assert len(build(manifest, tmp_path / "ds3", options)) == 60
    (dropped,) = pq.read_table(tmp_path / "ds3" / "ledger.parquet").to_pylist()
    assert (dropped["row"], dropped["reason"]) == (60, "sentence in dev or test")
    assert verify(tmp_path / "ds3", allow_shared=["audio"]).faults == []


def test_what_cannot_be_divided_is_refused(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "in", speaker_id=lambda _: None)
    with pytest.raises(SourceError, match=r"0 known speakers .*--column speaker_id=THEIRS"):
        build(manifest, tmp_path / "ds")
    source = open_source(str(manifest), SourceOptions(corpus="radio", split="dev"))
    with pytest.raises(SourceError, match="its own dev"):
        convert(source, tmp_path / "ds", name="x", options=OPTIONS)
    divided = SourceOptions(corpus="radio", split="test", by_speaker=True)
    with pytest.raises(SourceError, match="--split test"):
        open_source(str(manifest), divided)


def test_dialects_without_speakers_in_a_split_are_named(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "in", dialect=lambda row: "fynsk" if row % 10 else "thy")
    build(manifest, tmp_path / "ds")
    notes = read_inventory(tmp_path / "ds").notes
    assert "no speaker in test has the dialect thy" in notes
    manifest = write_manifest(tmp_path / "three", 3, 3, dialect=lambda row: "abc"[row])
    thirds = ConvertOptions(split_by_speaker="34/33/33")
    build(manifest, tmp_path / "thirds", thirds)
    notes = read_inventory(tmp_path / "thirds").notes
    assert sum(note.startswith("no speaker in train has the dialect ") for note in notes) == 1


def test_rows_without_a_speaker_are_in_train(tmp_path: Path) -> None:
    manifest = write_manifest(
        tmp_path / "in", speaker_id=lambda row: f"spe{row % 5}" if row % 4 else None
    )
    rows = build(manifest, tmp_path / "ds")
    assert {row["split"] for row in rows if row["speaker_id"] is None} == {"train"}
    assert re.search("15 rows without a speaker", (tmp_path / "ds" / "README.md").read_text())


speakers = st.lists(st.tuples(st.floats(0.5, 30), st.sampled_from("abc")), min_size=3, max_size=60)


@given(speakers, st.integers(0, 3))
def test_each_split_gets_about_its_share_of_the_speech(
    given: list[tuple[float, str]], seed: int
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "speaker_id": f"s{n}",
            "dialect": group,
            "gender": None,
            "age_group": None,
            "sentence": None,
            "seconds": weight,
        }
        for n, (weight, group) in enumerate(given)
    ]
    assigned = assign_speakers(pa.Table.from_pylist(rows), (80, 10, 10), seed)
    assert set(assigned.values()) == {0, 1, 2}
    for dialect in {group for _, group in given}:
        own = [row for row in rows if row["dialect"] == dialect]
        total = sum(row["seconds"] for row in own)
        for split, share in enumerate((0.8, 0.1, 0.1)):
            got = sum(row["seconds"] for row in own if assigned[row["speaker_id"]] == split)
            assert abs(got - share * total) <= 4 * max(row["seconds"] for row in rows) + 1e-9


def test_shared_sentences_are_left_out_of_a_source_with_its_own_splits(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "in", rows=6)
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    manifest.unlink()
    lines[0]["text"] = "Det er sætning nummer 5."
    for split, part in (("train", lines[:4]), ("test", lines[4:])):
        (tmp_path / "in" / f"{split}.jsonl").write_text("\n".join(map(json.dumps, part)))
    source = open_source(f"manifest:{tmp_path / 'in'}", SourceOptions(corpus="radio"))
    options = ConvertOptions(drop_shared_sentences=True, max_drop=0)
    inventory = convert(source, tmp_path / "ds", name="x", options=options)
    assert {shard.partition("split"): shard.rows for shard in inventory.shards} == {
        "train": 3,
        "test": 2,
    }
    assert inventory.notes[0] == "1 rows of train are left out: their sentence is in dev or test"
