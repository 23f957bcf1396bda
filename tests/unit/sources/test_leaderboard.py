"""The five test sets of RyeAI's Danish leaderboard."""

from pathlib import Path
from typing import Any

import pyarrow.dataset as pads

from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import open_source
from danish_asr.corpus.sources.leaderboard import SETS
from tests.builders import build_source, tone
from tests.datasets_files import write_with_datasets


def audio(name: str) -> dict[str, Any]:
    return {"bytes": tone(0.2, rate=16_000), "path": name}


def fleurs_row(number: int) -> dict[str, Any]:
    text = {"transcription": "på ærø", "raw_transcription": "På Ærø,"}
    return {"id": 7, "num_samples": 3200, "audio": audio("a.wav"), "gender": number % 2} | text


def ft_speech_row(number: int) -> dict[str, Any]:
    ids = {"utterance_id": f"S001_20161_M012_{number}", "speaker_id": "S001"}
    return ids | {"speaker_gender": "F", "sentence": "på ærø", "audio": audio("a.wav")}


def common_voice_row(number: int) -> dict[str, Any]:
    row = {"client_id": f"c{number}", "path": "a.mp3", "sentence": "På Ærø.", "accents": "fynsk"}
    return row | {"gender": "female", "audio": audio("a.mp3")}


def write_set(path: Path, row: Any, count: int = 2) -> None:
    write_with_datasets(path, [row(number) for number in range(count)])


def write_sets(folder: Path) -> Path:
    """Local copies, as Parquet with the columns of the hub."""
    for name, subset in (
        ("coral_read_aloud", "read_aloud"),
        ("coral_conversation", "conversation"),
    ):
        build_source(folder / "coral", train=2, dev=1, test=2)
        (folder / name).symlink_to(folder / "coral" / subset)
    write_set(folder / "cv17_da" / "data" / "test-00000-of-00001.parquet", common_voice_row)
    write_set(folder / "cv17_da" / "data" / "train-00000-of-00001.parquet", common_voice_row)
    write_set(folder / "fleurs_da" / "test" / "0000.parquet", fleurs_row)
    for part in ("test_balanced", "test_other", "dev_balanced"):
        path = folder / "ftspeech" / "data" / f"{part}-00000-of-00001.parquet"
        write_set(path, ft_speech_row, 2 if part == "test_balanced" else 3)
    return folder


def test_the_five_test_sets_become_the_columns_of_the_leaderboard(tmp_path: Path) -> None:
    source = open_source(f"leaderboard:{write_sets(tmp_path / 'in')}")
    assert [(file.corpus, file.split, file.rows) for file in source.files] == [
        (name, "test", 2) for name in SETS
    ]
    inventory = convert(source, tmp_path / "ds", name="leaderboard")
    assert (inventory.rows, inventory.dropped_rows) == (10, 0)
    rows = pads.dataset(tmp_path / "ds" / "version=0", partitioning="hive").to_table().to_pylist()
    of = {name: [row for row in rows if row["corpus"] == name] for name in SETS}
    assert {name: {row["text"] for row in of[name]} for name in list(SETS)[2:]} == {
        "cv17_da": {"På Ærø."},
        "fleurs_da": {"på ærø"},
        "ftspeech": {"på ærø"},
    }
    assert {row["gender"] for row in of["fleurs_da"]} == {"male", "female"}
    assert {(row["speaker_id"], row["gender"]) for row in of["ftspeech"]} == {("S001", "female")}
    assert {row["dialect"] for row in of["cv17_da"]} == {"Fynsk"}
    assert {row["id"] for row in of["ftspeech"]} == {
        f"ftspeech/S001_20161_M012_{number}" for number in (0, 1)
    }
    for file in source.files:
        ids = [row.id for row in source.read(file, 0, file.rows)]
        assert source.ids(file).to_pylist() == ids
        assert all(path.is_file() for path in source.local_files(file))
