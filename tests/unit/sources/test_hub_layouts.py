"""What users of the hub have: audiofolders, datasets on the disk, names of classes."""

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import SourceOptions, open_source, resolve_source
from danish_asr.corpus.sources.base import Source, Utterance
from tests.builders import tone
from tests.datasets_files import INTEGER, STRING, dataset_of

OPTIONS = SourceOptions(corpus="own")


def read_all(source: Source) -> list[Utterance]:
    return [row for file in source.files for row in source.read(file, 0, file.rows)]


def splits(source: Source) -> dict[str, int]:
    return {file.split: file.rows for file in source.files}


def write_audio(folder: Path, *names: str) -> None:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tone(0.5 + 0.1 * number))


def metadata(form: str, names: list[str]) -> str:
    rows = [{"file_name": name, "transcription": f"tekst {name}"} for name in names]
    if form == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows)
    return "file_name,transcription\n" + "".join(f"{n},tekst {n}\n" for n in names)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("at_top", [True, False])
def test_an_audiofolder_has_its_splits_from_folders(
    tmp_path: Path, form: str, *, at_top: bool
) -> None:
    names = ["train/0.wav", "train/sub/1.wav", "validation/2.wav", "test/3.wav"]
    write_audio(tmp_path, *names)
    if at_top:
        (tmp_path / f"metadata.{form}").write_text(metadata(form, names))
    else:
        for split in ("train", "validation", "test"):
            own = [n.removeprefix(f"{split}/") for n in names if n.startswith(split)]
            (tmp_path / split / f"metadata.{form}").write_text(metadata(form, own))
    kind, location, why = resolve_source(str(tmp_path))
    assert kind == "manifest"
    assert f"metadata.{form}" in why
    source = open_source(location, OPTIONS)
    assert splits(source) == {"train": 2, "dev": 1, "test": 1}
    assert sorted(row.audio for row in read_all(source) if isinstance(row.audio, Path)) == sorted(
        tmp_path / name for name in names
    )
    assert convert(source, tmp_path / "out", name="x").rows == 4


def test_one_part_of_an_audiofolder_has_its_split_from_its_own_name(tmp_path: Path) -> None:
    write_audio(tmp_path / "train", "0.wav")
    (tmp_path / "train" / "metadata.csv").write_text(metadata("csv", ["0.wav"]))
    assert splits(open_source(str(tmp_path / "train"), OPTIONS)) == {"train": 1}


ROWS: list[dict[str, Any]] = [
    {
        "audio": {"bytes": tone(0.5 + 0.1 * number), "path": f"{number}.wav"},
        "sentence": f"sætning nummer {number}",
        "gender": gender,
    }
    for number, gender in enumerate((0, 1, 0, -1, 1))
]
TYPES: dict[str, Any] = {
    "audio": datasets.Audio(sampling_rate=48_000),
    "sentence": STRING,
    "gender": datasets.ClassLabel(names=["kvinde", "mand"]),
}
GENDERS = ["female", "male", "female", None, "male"]


@pytest.mark.parametrize("text", ["text", "sentence", "transcription"])
def test_parquet_of_any_corpus_is_recognised_by_its_columns(tmp_path: Path, text: str) -> None:
    rows = [{"audio": row["audio"], text: row["sentence"], "gender": row["gender"]} for row in ROWS]
    types = {"audio": TYPES["audio"], text: STRING, "gender": TYPES["gender"]}
    dataset_of(rows, types).to_parquet(str(tmp_path / "train.parquet"))
    for location in (tmp_path, tmp_path / "train.parquet"):
        assert resolve_source(str(location)).kind == "hf-parquet"
        found = read_all(open_source(str(location), OPTIONS))
        assert [row.text for row in found] == [row["sentence"] for row in ROWS]
        assert [row.speaker.gender for row in found] == GENDERS


def test_numbers_without_names_stay_as_they_are(tmp_path: Path) -> None:
    rows = [{"audio": row["audio"], "text": "ja", "gender": row["gender"]} for row in ROWS]
    types = {"audio": TYPES["audio"], "text": STRING, "gender": INTEGER}
    dataset_of(rows, types).to_parquet(str(tmp_path / "train.parquet"))
    found = read_all(open_source(str(tmp_path), OPTIONS))
    assert [row.speaker.gender for row in found] == ["0", "1", "0", "-1", "1"]
