"""Audio on the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

from danish_asr.errors import DatasetError
from danish_asr.report.clips import MAX_BYTES, audio_urls
from danish_asr.schema import UTTERANCE_SCHEMA, partition_dir


def _flac(samples: int) -> bytes:
    stream = io.BytesIO()
    noise = np.random.default_rng(0).normal(0, 0.2, samples)
    soundfile.write(stream, noise, 16_000, format="FLAC")
    return stream.getvalue()


def _dataset(root: Path, clips: dict[str, bytes]) -> Path:
    for number, (name, audio) in enumerate(clips.items()):
        folder = partition_dir(root, "coral", "test" if number % 2 else "dev")
        folder.mkdir(parents=True, exist_ok=True)
        row = {"id": name, "text": "ja", "audio_bytes": audio, "audio_size": 1}
        table = pa.Table.from_pylist([row], UTTERANCE_SCHEMA)
        pq.write_table(table, folder / f"part-{number:05d}.parquet")
    return root


def test_clips_are_the_audio_of_the_dataset_wherever_it_lies(tmp_path: Path) -> None:
    clips = {name: _flac(1600 * length) for length, name in enumerate("abc", start=1)}
    urls = audio_urls(_dataset(tmp_path, clips), ["c", "a", "not there"])
    assert set(urls) == {"a", "c"}
    for name, url in urls.items():
        head, data = url.split(",")
        assert head == "data:audio/flac;base64"
        assert base64.b64decode(data) == clips[name]


def test_a_clip_that_would_swell_the_page_is_left_out(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, {"long": bytes(MAX_BYTES + 1), "short": _flac(160)})
    assert set(audio_urls(dataset, ["long", "short"])) == {"short"}


def test_what_is_no_dataset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="expected the root of a dataset"):
        audio_urls(tmp_path, ["a"])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda shard: shard.write_bytes(b""),
    "cut": lambda shard: shard.write_bytes(shard.read_bytes()[:-100]),
    "no Parquet": lambda shard: shard.write_bytes(shard.read_bytes().replace(b"PAR1", b"PAR0")),
    "no audio": lambda shard: pq.write_table(pa.table({"id": ["a"]}), shard),
    "no ids": lambda shard: pq.write_table(pa.table({"audio_bytes": [b"a"]}), shard),
    "numbers": lambda shard: pq.write_table(pa.table({"id": ["a"], "audio_bytes": [[1]]}), shard),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_with_the_mend(tmp_path: Path, damage: str) -> None:
    dataset = _dataset(tmp_path, {"a": _flac(1600)})
    (shard,) = dataset.rglob("*.parquet")
    DAMAGES[damage](shard)
    with pytest.raises(
        DatasetError, match=r"part-00000.parquet: cannot be read .*danish-asr verif"
    ):
        audio_urls(dataset, ["a"])


def test_a_row_without_audio_has_no_clip(tmp_path: Path) -> None:
    shard = partition_dir(tmp_path, "coral", "test") / "part-00000.parquet"
    shard.parent.mkdir(parents=True)
    table = pa.table({"id": ["a"], "audio_bytes": pa.array([None], pa.binary())})
    pq.write_table(table, shard)
    assert audio_urls(tmp_path, ["a"]) == {}
