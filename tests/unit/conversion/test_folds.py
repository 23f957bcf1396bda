import json
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from danish_asr.base.errors import ConfigError, DatasetError, SourceError
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.command import convert
from danish_asr.corpus.folds import convert_folds
from danish_asr.corpus.sources import SourceOptions, open_source
from danish_asr.corpus.sources.base import Source
from danish_asr.corpus.verify import verify
from tests.builders import tone, tree

FOLDS = 4
OPTIONS = ConvertOptions(folds=FOLDS, shard_rows=3)
WORDS = "nul en to tre fire fem seks syv otte ni"


def write_manifest(folder: Path, speakers: int = 6, rows: int = 24) -> Path:
    """Rows of speakers in turn, and one that nobody is known to have spoken."""
    folder.mkdir()
    lines = []
    for row in range(rows):
        (folder / f"{row}.wav").write_bytes(tone(0.4, rate=16_000, hertz=200 + 9 * row))
        words = " ".join(WORDS.split()[int(digit)] for digit in f"{row:04d}")
        line = {"path": f"{row}.wav", "text": words, "speaker": f"s{row % speakers}"}
        lines.append(line if row else line | {"speaker": ""})
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder / "rows.jsonl"


def opened(manifest: Path) -> Source:
    return open_source(str(manifest), SourceOptions(corpus="radio", by_speaker=True))


def test_each_speaker_is_tested_once_and_the_audio_is_there_once(tmp_path: Path) -> None:
    source, out = opened(write_manifest(tmp_path / "in")), tmp_path / "ds"
    inventories = convert_folds(source, out, name="radio", options=OPTIONS)
    assert [path.name for path in inventories] == ["fold-1", "fold-2", "fold-3", "fold-4"]
    assert [inventory.name for inventory in inventories.values()][2] == "radio_fold3"
    tested: list[str] = []
    for root in inventories:
        assert verify(root).faults == []
        table = ds.dataset(root / "version=0", partitioning="hive").to_table().to_pandas()
        assert len(table) == 24
        assert table.groupby("speaker_id")["split"].nunique().eq(1).all()
        assert {*table["split"]} == {"train", "dev", "test"}
        assert set(table["split"][table["speaker_id"].isna()]) == {"train"}
        tested += table["speaker_id"][table["split"] == "test"].unique().tolist()
    assert sorted(tested) == [f"s{number}" for number in range(6)]
    shards = list(out.rglob("*.parquet"))
    of_rows = [path for path in shards if "version=0" in path.parts]
    assert len({path.stat().st_ino for path in of_rows}) == len(of_rows) / FOLDS
    assert not list(out.rglob(".convert"))
    with pytest.raises(DatasetError, match=f"name one of {out}/fold-1, "):
        verify(out)


def test_folds_that_were_interrupted_continue_to_the_same_bytes(tmp_path: Path) -> None:
    source = opened(write_manifest(tmp_path / "in"))
    whole, out = tmp_path / "whole", tmp_path / "ds"
    convert_folds(source, whole, name="radio", options=OPTIONS)
    (out / "fold-3" / "cards").mkdir(parents=True)
    with pytest.raises(DatasetError, match="fold-3: holds cards, which"):
        convert_folds(source, out, name="radio", options=OPTIONS)
    assert (out / "fold-2" / "manifest.json").exists()
    assert not (out / "fold-1" / "manifest.json").exists()
    (out / "fold-3" / "cards").rmdir()
    convert_folds(source, out, name="radio", options=OPTIONS)
    for root in whole.iterdir():
        assert tree(out / root.name) == tree(root)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    convert_folds(source, out, name="radio", options=OPTIONS)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_folds_need_speakers_and_a_folder_of_their_own(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "in", speakers=3)
    with pytest.raises(SourceError, match="--folds: 3 known speakers cannot fill 4"):
        convert(manifest, tmp_path / "ds", name="radio", folds=4)
    with pytest.raises(ConfigError, match=r"--folds: 3 to 100, .* found 2"):
        convert(manifest, tmp_path / "ds", name="radio", folds=2)
    with pytest.raises(ConfigError, match="cannot be combined"):
        convert(manifest, tmp_path / "ds", name="radio", folds=3, split_by_speaker="80/10/10")
    roots = convert(manifest, tmp_path / "three", name="radio", folds=3)
    assert [(root.name, inventory.name) for root, inventory in roots.items()] == [
        (f"fold-{number}", f"radio_fold{number}") for number in (1, 2, 3)
    ]
    convert(manifest, tmp_path / "one", name="radio", split="train")
    with pytest.raises(DatasetError, match="holds a dataset, which is none of folds"):
        convert(manifest, tmp_path / "one", name="radio", folds=3)
