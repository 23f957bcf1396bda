from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.schema import ROW_GROUP_BYTES, UTTERANCE_SCHEMA
from tests.builders import tone
from tests.spoiled import (
    FIRST,
    SECOND,
    TEST,
    TRAIN,
    Spoil,
    change_manifest,
    content,
    copy,
    every_row,
    faults_of,
    read_rows,
    remove,
    row,
    shard,
    write_shard,
)


def many_rows(root: Path) -> None:
    rows = [
        row | {"id": f"{row['id']}_{copy}"} for row in read_rows(root / FIRST) for copy in range(26)
    ]
    write_shard(root, pa.Table.from_pylist(rows, UTTERANCE_SCHEMA))


def no_rows(root: Path) -> None:
    write_shard(root, UTTERANCE_SCHEMA.empty_table())


def columns(change: Callable[[pa.Table], pa.Table]) -> Spoil:
    return lambda root: write_shard(root, change(pq.ParquetFile(root / FIRST).read()))


def bit_flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def long_row_group(root: Path) -> None:
    rows = read_rows(root / FIRST)
    rows[0]["audio_bytes"] = bytes(ROW_GROUP_BYTES)
    write_shard(root, pa.Table.from_pylist(rows, UTTERANCE_SCHEMA))


def another_split(root: Path) -> None:
    """The test split, where readers look for one called "val"."""
    place = TEST.replace("split=test", "split=val")
    (root / TEST).parent.parent.rename((root / place).parent.parent)
    change_manifest(
        root,
        lambda manifest: [
            shard.update(path=place) for shard in manifest["shards"] if shard["path"] == TEST
        ],
    )


CUT = tone(0.6, rate=16_000, format="FLAC")[:-2000]

SHARD_FAULTS: list[tuple[Spoil, str]] = [
    (content(SECOND, bit_flipped), f"{SECOND}: its sha256 is not that of the manifest"),
    (content(SECOND, lambda old: old[:-100]), f"{SECOND}: cannot be read"),
    (remove(FIRST), f"{FIRST}: is missing"),
    (columns(lambda table: table.drop_columns(["dialect"])), "those of the contract: no dialect"),
    (columns(lambda table: table.append_column("x", table["age"])), "contract: unknown x"),
    (columns(lambda table: table.select(table.column_names[::-1])), "contract: another order"),
    (copy(FIRST, f"{TRAIN}/extra.parquet"), "extra.parquet: is not in the manifest, and would be"),
    (copy("manifest.json", f"{TRAIN}/notes.txt"), "notes.txt: is not in the manifest"),
    (another_split, "split=val/.*: is no place for a shard; expected .*<train|dev|test>"),
    (many_rows, f"{FIRST}: has 104 rows, and 4 in the manifest"),
    (many_rows, "has a row group of 104 rows; 100 is the most"),
    (long_row_group, "has 32 MiB of audio without it: rec_train_1, rec_train_2, rec_train_3"),
    (no_rows, f"{FIRST}: has no rows; a shard without any has no file"),
    (shard(seconds=2.6000001), r"holds 2\.6 s of audio, and 2\.6000001 s in the manifest"),
    (row(audio_size=9599), r"holds 2\.5999375 s of audio, and 2\.6 s in the manifest"),
]

ROW_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"text": " "}, "empty text"),
    ({"audio_bytes": b""}, "undecodable audio"),
    ({"audio_bytes": b"fLaC nonsense"}, "undecodable audio"),
    ({"audio_bytes": CUT}, "undecodable audio"),
    ({"audio_bytes": tone(0.6, rate=8000, format="FLAC")}, "FLAC PCM_16, 8000 Hz, channels: 1"),
    (
        {"audio_bytes": tone(0.6, rate=16_000, channels=2, format="FLAC")},
        "16000 Hz, channels: 2; exp",
    ),
    ({"audio_bytes": tone(0.6, rate=16_000)}, "WAV PCM_16, 16000 Hz, channels: 1; expected FLAC"),
    ({"audio_bytes": tone(0.6, rate=16_000, format="FLAC", subtype="PCM_24")}, "FLAC PCM_24"),
    ({"audio_size": 9599}, "audio_size is not the number of samples"),
    ({"audio_size": 0}, "audio_size is not above 0"),
    ({"audio_size": -9600}, "audio_size is not above 0"),
    ({"audio_bytes": tone(0, rate=16_000, format="FLAC"), "audio_size": 0}, "size is not above 0"),
    ({"speaker_id": ""}, "speaker_id is blank"),
    ({"gender": " female"}, "gender is blank or has blanks around it"),
    ({"dialect": "fynsk"}, "dialect is not 'Fynsk', as sub_dialect and country_birth have it"),
    ({"dialect": None}, "dialect is not 'Fynsk'"),
    ({"country_birth": "SE"}, "dialect is not 'Non-native'"),
    ({"sub_dialect": None}, "dialect is not 'None'"),
    ({"age": -1}, "age is not a number of years"),
    ({"age": 200}, "age is not a number of years"),
    ({"age_group": "0-24"}, "age_group is not '25-49', as the age has it"),
    ({"age_group": None}, "age_group is not '25-49'"),
    ({"age": None, "age_group": "25-50"}, r"age_group is not one of 0-24, 25-49, 50\+"),
    ({"source_id": "train.parquet"}, "source_id is not FILE:ROW"),
]

ROWS_IN_ORDER: list[dict[str, Any]] = [
    dict.fromkeys(("speaker_id", "age", "age_group", "gender", "country_birth")),
    {"dialect": None, "sub_dialect": None},
    {"dialect": "Non-native", "country_birth": "SE"},
    {"dialect": "volapyk", "sub_dialect": "volapyk"},
    {"age": 50, "age_group": "50+"},
    {"age": None, "age_group": "50+"},
]


@pytest.mark.parametrize(("spoil", "fault"), SHARD_FAULTS)
def test_every_fault_of_a_shard_is_found(root: Path, spoil: Spoil, fault: str) -> None:
    spoil(root)
    told = faults_of(root)
    assert re.search(fault, told, re.MULTILINE), told


@pytest.mark.parametrize(("values", "fault"), ROW_FAULTS)
def test_every_fault_of_a_row_is_found(root: Path, values: dict[str, Any], fault: str) -> None:
    row(**values)(root)
    told = faults_of(root)
    assert re.search(rf"{FIRST}: .*{fault}.*: rec_train_1$", told, re.MULTILINE), told


@pytest.mark.parametrize("values", ROWS_IN_ORDER)
def test_what_the_contract_allows_is_no_fault(root: Path, values: dict[str, Any]) -> None:
    row(**values)(root)
    assert faults_of(root) == ""


def test_a_fault_names_some_rows_and_counts_the_others(root: Path) -> None:
    every_row(age=-1)(root)
    assert "age is not a number of years: rec_train_0, rec_train_1, rec_train_2 and 1 more" in (
        faults_of(root)
    )
