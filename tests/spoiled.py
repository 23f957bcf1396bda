"""A built dataset in order, and the ways in which tests spoil it."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from danish_asr.base.files import from_yaml, to_yaml
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.rows import UTTERANCE_SCHEMA
from danish_asr.corpus.verify import verify
from tests.builders import coral_row, tone, write_parquet

TRAIN = "version=0/corpus=coral_read_aloud/split=train/language=dan_Latn"
FIRST = f"{TRAIN}/part-00000-of-00003.parquet"
SECOND = f"{TRAIN}/part-00001-of-00003.parquet"
LEDGER = "ledger.parquet"
CARD = "cards/tiny.yaml"
TEST = f"{TRAIN.replace('train', 'test')}/part-00000-of-00001.parquet"


def build(root: Path) -> Path:
    """A dataset in order: 8 train rows and one in the ledger, 3 test rows."""
    for split, count in (("train", 9), ("test", 3)):
        rows = [
            coral_row(
                number,
                split=split,
                text=f"{split} sætning nummer {number}",
                dialect="fynsk",
                audio=tone(0.5 + 0.1 * (number % 5), hertz=200 + 7 * number + (split == "test")),
            )
            for number in range(count)
        ]
        if split == "train":
            rows[-1]["text"] = None
        write_parquet(root.parent / "source" / f"{split}.parquet", rows, row_group_size=4)
    convert(root.parent / "source", root, ConvertOptions(name="tiny", shard_rows=4, max_drop=1))
    return root


def copied(pristine: Path, to: Path) -> Path:
    """A copy of a dataset that may be spoilt; its card says where it is."""
    shutil.copytree(pristine, to)
    change_card(to, dataset_config={"data": str(to / "version=0")})
    return to


def faults_of(root: Path, **options: Any) -> str:
    """All faults, a line each."""
    return "\n".join(verify(root, **options).faults)


def read_rows(path: Path) -> list[dict[str, Any]]:
    with pq.ParquetFile(path) as parquet:
        rows: list[dict[str, Any]] = parquet.read().to_pylist()
    return rows


def change_manifest(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((root / "manifest.json").read_text())
    change(manifest)
    (root / "manifest.json").write_text(json.dumps(manifest))


def write_shard(root: Path, table: pa.Table, place: str = FIRST) -> None:
    """Replace a shard, and its checksum in the manifest."""
    pq.write_table(table, root / place)
    digest = hashlib.sha256((root / place).read_bytes()).hexdigest()

    def change(manifest: dict[str, Any]) -> None:
        (entry,) = (shard for shard in manifest["shards"] if shard["path"] == place)
        entry["sha256"] = digest

    change_manifest(root, change)


def write_rows(root: Path, rows: list[dict[str, Any]], place: str) -> None:
    write_shard(root, pa.Table.from_pylist(rows, UTTERANCE_SCHEMA), place)


def change_card(root: Path, **values: Any) -> None:
    path = root / CARD
    path.write_text(to_yaml(from_yaml(path.read_text()) | values))


Spoil = Callable[[Path], object]


def row(**values: Any) -> Spoil:
    """Change the second row of the first shard."""

    def spoil(root: Path) -> None:
        rows = read_rows(root / FIRST)
        rows[1] |= values
        write_rows(root, rows, FIRST)

    return spoil


def content(name: str, change: Callable[[bytes], bytes]) -> Spoil:
    return lambda root: (root / name).write_bytes(change((root / name).read_bytes()))


def text(name: str, new: str) -> Spoil:
    return lambda root: (root / name).write_text(new)


def card(**values: Any) -> Spoil:
    return lambda root: change_card(root, **values)
