from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.conversion.work_units import ConvertOptions
from danish_asr.convert import convert
from danish_asr.corpora import open_source
from danish_asr.errors import DatasetError
from danish_asr.schema import UTTERANCE_SCHEMA
from danish_asr.verify import verify, verify_command
from danish_asr.yaml_text import from_yaml, to_yaml
from tests.builders import coral_row, tone, write_parquet

TRAIN = "version=0/corpus=coral_read_aloud/split=train/language=dan_Latn"


def build(root: Path, **test_values: Any) -> Path:
    """A dataset in order: 8 train rows, 3 test rows; ``test_values`` change the last of them."""
    for split, count in (("train", 8), ("test", 3)):
        rows = [
            coral_row(number, split=split, text=f"{split} sætning nummer {number}", dialect="fynsk")
            for number in range(count)
        ]
        if split == "test":
            rows[-1] |= test_values
        write_parquet(root.parent / "source" / f"{split}.parquet", rows, row_group_size=4)
    source = open_source(str(root.parent / "source"))
    convert(source, root, name="tiny", options=ConvertOptions(shard_rows=4))
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build(tmp_path / "ds")


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("sample", [None, 0, 2])
def test_a_converted_dataset_is_in_order(root: Path, workers: int, sample: int | None) -> None:
    result = verify(root, sample=sample, workers=workers)
    assert result.faults == ()
    assert result.hours == {
        ("train", "Fynsk"): pytest.approx((0.5 * 8 + 0.1 * 13) / 3600),
        ("test", "Fynsk"): pytest.approx((0.5 * 3 + 0.1 * 3) / 3600),
    }


def change_row(root: Path, **values: Any) -> None:
    """Change the second row of the first train shard, and its checksum with it."""
    path = root / TRAIN / "part-00000-of-00002.parquet"
    with pq.ParquetFile(path) as parquet:
        rows = parquet.read().to_pylist()
    rows[1] |= values
    pq.write_table(pa.Table.from_pylist(rows, UTTERANCE_SCHEMA), path)
    set_checksum(root, path)


def set_checksum(root: Path, path: Path) -> None:
    manifest = json.loads((root / "manifest.json").read_text())
    for shard in manifest["shards"]:
        if shard["path"] == path.relative_to(root).as_posix():
            shard["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (root / "manifest.json").write_text(json.dumps(manifest))


def flip_a_bit(root: Path) -> None:
    path = root / TRAIN / "part-00001-of-00002.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(root: Path) -> None:
    path = root / TRAIN / "part-00001-of-00002.parquet"
    path.write_bytes(path.read_bytes()[:-100])


def drop_column(root: Path) -> None:
    path = root / TRAIN / "part-00000-of-00002.parquet"
    with pq.ParquetFile(path) as parquet:
        table = parquet.read().drop_columns(["dialect"])
    pq.write_table(table, path)
    set_checksum(root, path)


def copy_shard(root: Path) -> None:
    shutil.copy(root / TRAIN / "part-00000-of-00002.parquet", root / TRAIN / "extra.parquet")


def edit_card(root: Path) -> None:
    card = from_yaml((root / "cards" / "tiny.yaml").read_text())
    card["dataset_config"]["data"] = "/elsewhere"
    (root / "cards" / "tiny.yaml").write_text(to_yaml(card))


def edit_hours(root: Path) -> None:
    path = root / "language_distribution_0.tsv"
    path.write_text("corpus\tlanguage\thours\ncoral_read_aloud\tdan_Latn\t7.0\nmls\tdan_Latn\t1\n")


def empty_ledger(root: Path) -> None:
    manifest = json.loads((root / "manifest.json").read_text())
    manifest["source_rows"] += 5
    (root / "manifest.json").write_text(json.dumps(manifest))


def remove(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).unlink()


def row(**values: Any) -> Callable[[Path], None]:
    return lambda root: change_row(root, **values)


FAULTS: list[tuple[Callable[[Path], None], str]] = [
    (flip_a_bit, "its sha256 is not that of the manifest"),
    (truncate, "cannot be read"),
    (remove(f"{TRAIN}/part-00000-of-00002.parquet"), "part-00000-of-00002.parquet: is missing"),
    (drop_column, "its columns are not those of the contract: no dialect"),
    (copy_shard, "extra.parquet: is not in the manifest, and would be read with it"),
    (row(id="rec_train_5"), "id rec_train_5 stands in .* already"),
    (row(id="rec_train_0"), "id rec_train_0 and 0 others stand in it twice"),
    (row(text=" "), "empty text: rec_train_1"),
    (row(audio_bytes=b"fLaC nonsense"), "undecodable audio: rec_train_1"),
    (row(audio_bytes=tone(0.6, rate=8000, format="FLAC")), "FLAC of 1 channels at 8000 Hz"),
    (row(audio_bytes=tone(0.6, rate=16_000, channels=2, format="FLAC")), "FLAC of 2 channels"),
    (row(audio_bytes=tone(0.6, rate=16_000)), "WAV of 1 channels at 16000 Hz"),
    (row(audio_size=9599), "audio_size is not the number of samples: rec_train_1"),
    (row(audio_size=9599), "holds 2.600 s of audio, and 2.600 s in the manifest"),
    (row(speaker_id="spe_test_0"), "train and test share 1 speakers, such as spe_test_0"),
    (row(text="TEST sætning: nummer 2!"), "train and test share 1 sentences"),
    (edit_card, "cards/tiny.yaml: its data is /elsewhere"),
    (remove("cards/tiny.yaml"), "cards/tiny.yaml: is missing"),
    (remove("cards/tiny_char.model"), "tiny_char.model: is missing or no SentencePiece model"),
    (edit_hours, "coral_read_aloud has 0.001472 h of training audio, not 7.0"),
    (edit_hours, "names mls in dan_Latn, which the dataset does not have"),
    (remove("language_distribution_0.tsv"), "language_distribution_0.tsv: is missing"),
    (remove("ledger.parquet"), "ledger.parquet: is missing"),
    (empty_ledger, "11 rows written and 0 in the ledger do not make up the 16 rows"),
]


@pytest.mark.parametrize(("spoil", "fault"), FAULTS)
def test_every_fault_is_found(root: Path, spoil: Callable[[Path], None], fault: str) -> None:
    spoil(root)
    with pytest.raises(DatasetError, match=f"has .* faults?:(.|\n)*{fault}"):
        verify_command(root, sample=None, workers=1, allow_shared=())


def test_all_faults_are_told_at_once(root: Path) -> None:
    for spoil in (flip_a_bit, edit_card, edit_hours, empty_ledger):
        spoil(root)
    assert len(verify(root).faults) >= 5


def test_shared_speakers_and_sentences_can_be_allowed(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change_row(root, speaker_id="spe_test_0", text="test sætning nummer 2")
    assert len(verify(root).faults) == 2
    assert len(verify(root, allow_shared=["speakers"]).faults) == 1
    verify_command(root, sample=None, workers=1, allow_shared=["speakers", "sentences"])
    told = capsys.readouterr().out
    assert "allowed: train and test share 1 sentences" in told
    assert "in order" in told


def test_short_sentences_may_be_shared(root: Path) -> None:
    change_row(root, text="Ja tak!")
    assert verify(build(root.parent / "two" / "ds", text="ja tak")).faults == ()


def test_a_sample_still_reads_every_header(root: Path) -> None:
    change_row(root, audio_bytes=tone(0.6, rate=8000, format="FLAC"))
    assert any("at 8000 Hz" in fault for fault in verify(root, sample=0).faults)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [((), "no finished dataset, manifest.json is missing"), (("ids",), "--allow-shared ids: exp")],
)
def test_what_cannot_be_verified_is_told(
    tmp_path: Path, kinds: tuple[str, ...], message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        verify_command(tmp_path, sample=None, workers=1, allow_shared=kinds)


def test_a_manifest_of_another_making_is_told(root: Path) -> None:
    (root / "manifest.json").write_text('{"name": "x"}')
    with pytest.raises(DatasetError, match="not a manifest of this program"):
        verify(root)
