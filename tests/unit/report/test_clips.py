"""Audio on the page."""

import base64
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from danish_asr.base.schema import partition_dir
from danish_asr.report.page import MAX_CLIP_BYTES, audio_clips


def _shard(root: Path, split: str, clips: dict[str, bytes | None]) -> Path:
    shard = partition_dir(root, "coral", split, "dan_Latn") / "part-00000.parquet"
    shard.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": list(clips), "audio_bytes": list(clips.values())})
    pq.write_table(table, shard, row_group_size=1)
    return shard


def test_clips_are_the_audio_of_the_dataset_from_any_shard(tmp_path: Path) -> None:
    _shard(tmp_path, "dev", {"a": b"fLaC one", "b": b"fLaC two"})
    _shard(tmp_path, "test", {"c": b"fLaC 3", "none": None, "long": bytes(MAX_CLIP_BYTES + 1)})
    console = Console(record=True, width=200, file=io.StringIO())
    urls = audio_clips(tmp_path, {"c", "a", "not there", "none", "long"}, console)
    clips = {name: base64.b64decode(url.partition("base64,")[2]) for name, url in urls.items()}
    assert clips == {"a": b"fLaC one", "c": b"fLaC 3"}
    assert "has audio of 2 of the 5 worst utterances" in console.export_text()
