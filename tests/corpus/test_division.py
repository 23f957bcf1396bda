import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from danish_asr.base.errors import ConfigError, SourceError
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.division import assign_speakers
from danish_asr.corpus.rows import ROWS
from danish_asr.corpus.verify import verify
from tests.builders import tone

OPTIONS = ConvertOptions(
    name="radio", split="train", split_by_speaker="80/10/10", shard_rows=7, max_drop=0
)


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


def build(manifest: Path, out: Path, **options: Any) -> list[dict[str, Any]]:
    convert(manifest, out, replace(OPTIONS, **options))
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
    assert {(row["source_id"], row["text"]) for row in rows} == {
        (f"rows.jsonl:{row}", f"det er sætning nummer {row}") for row in range(60)
    }
    assert verify(tmp_path / "ds").faults == []
    again = build(manifest, tmp_path / "again")
    assert again == rows


def test_what_cannot_be_divided_is_refused(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "in", speaker_id=lambda _: None)
    with pytest.raises(SourceError, match=r"0 known speakers .*--column speaker_id=THEIRS"):
        build(manifest, tmp_path / "ds")
    other = manifest.rename(manifest.with_name("dev.jsonl"))
    with pytest.raises(SourceError, match="its own dev"):
        build(other, tmp_path / "ds", split=None)
    with pytest.raises(ConfigError, match=r"--split: .*test"):
        build(other, tmp_path / "ds", split="test")


def test_rows_without_a_speaker_are_in_train(tmp_path: Path) -> None:
    manifest = write_manifest(
        tmp_path / "in", speaker_id=lambda row: f"spe{row % 5}" if row % 4 else None
    )
    rows = build(manifest, tmp_path / "ds")
    assert {row["split"] for row in rows if row["speaker_id"] is None} == {"train"}


@pytest.mark.parametrize(
    ("seconds", "shares", "speech"),
    [
        ([1] * 20, (80, 10, 10), [[16, 2, 2], [16, 2, 2]]),
        ([1] * 20, (50, 0, 50), [[10, 0, 10], [10, 0, 10]]),
        # Who speaks for more than the smallest split may comes first, into train.
        ([10, *[1] * 10], (80, 10, 10), [[16, 2, 2], [16, 2, 2]]),
        # What a split lacks of a dialect it gets of the next one.
        ([1] * 5, (80, 10, 10), [[4, 1, 0], [4, 0, 1]]),
        # A split that would stay empty gets the lightest speaker.
        ([3, 2, 1], (80, 10, 10), [[3, 1, 2]]),
    ],
)
def test_each_split_gets_its_share_of_the_speech_of_each_dialect(
    seconds: list[int], shares: tuple[int, ...], speech: list[list[int]]
) -> None:
    rows: list[dict[str, Any]] = [
        {"speaker_id": f"{dialect}{n}", "dialect": str(dialect), "seconds": own}
        for dialect in range(len(speech))
        for n, own in enumerate(seconds)
    ]
    for seed in range(4):
        splits = assign_speakers(pa.Table.from_pylist(rows, ROWS), shares, seed)
        sums = np.zeros((len(speech), 3))
        for row in rows:
            sums[int(row["dialect"]), splits[row["speaker_id"]]] += row["seconds"]
        assert sums.tolist() == speech


def test_shared_sentences_are_left_out_of_a_source_with_its_own_splits(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "in", rows=6)
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    manifest.unlink()
    lines[0]["text"] = "Det er sætning nummer 5."
    for split, part in (("train", lines[:4]), ("test", lines[4:])):
        (tmp_path / "in" / f"{split}.jsonl").write_text("\n".join(map(json.dumps, part)))
    options = ConvertOptions(name="x", drop_shared_sentences=True, max_drop=0)
    inventory = convert(f"table:{tmp_path / 'in'}", tmp_path / "ds", options)
    assert {shard.partition("split"): shard.rows for shard in inventory.shards} == {
        "train": 3,
        "test": 2,
    }
    (dropped,) = pq.read_table(tmp_path / "ds" / "ledger.parquet").to_pylist()
    assert (dropped["row"], dropped["reason"]) == (0, "sentence in dev or test")
