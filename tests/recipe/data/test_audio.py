import io
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

from danish_asr.base.errors import DatasetError
from danish_asr.recipe.data.audio import decode
from danish_asr.recipe.data.index import DanishAsrDataset, Index
from tests.shards import flac, utterance, waveform, write_shard

ROWS = [utterance(number) for number in range(23)]
AUDIO = [row["audio_bytes"] for row in ROWS]


def index_of(root: Path) -> Index:
    return DanishAsrDataset(root).read_index("train")


@pytest.mark.parametrize(
    ("options", "decoded"),
    [
        ({}, 0),
        ({"data_page_version": "2.0"}, 0),
        ({"row_group_size": 100}, 0),
        ({"drop": ["encoded_size"]}, 1),
        ({"compression": "zstd"}, 1),
        ({"use_dictionary": True}, 1),
    ],
    ids=str,
)
def test_a_row_is_read_at_its_place_or_in_another_layout_decoded(
    tmp_path: Path, options: dict[str, Any], decoded: int
) -> None:
    write_shard(tmp_path, ROWS, **options)
    index = index_of(tmp_path)

    assert index.audio.decoded_shards == decoded
    assert all(index.audio.read(row) == AUDIO[row] for row in (22, 0, 9, 10, 4, 5))


def test_lists_of_numbers_as_upstreams_tools_write_them_are_read(tmp_path: Path) -> None:
    path = write_shard(tmp_path, ROWS)
    numbers = [np.frombuffer(audio, np.int8) for audio in AUDIO]
    table = pq.read_table(path, partitioning=None).drop_columns(["encoded_size", "audio_bytes"])
    table = table.append_column("audio_bytes", pa.array(numbers, pa.list_(pa.int8())))
    pq.write_table(table, path, row_group_size=10)

    assert index_of(tmp_path).audio.read(15) == AUDIO[15]


def test_audio_that_is_not_at_its_place_is_refused_with_the_file(tmp_path: Path) -> None:
    write_shard(tmp_path, [{**row, "encoded_size": len(row["audio_bytes"]) - 1} for row in ROWS])

    with pytest.raises(DatasetError, match=r"part-00000-of-00001\.parquet, row group 1, row 2"):
        index_of(tmp_path).audio.read(7)


def test_threads_read_from_more_files_than_may_be_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danish_asr.recipe.data.audio._OPEN_FILES", 2)
    for number, row in enumerate(ROWS[:12]):
        write_shard(tmp_path, [row], name=f"part-{number:02}.parquet")
    index = index_of(tmp_path)

    order = np.random.default_rng(0).integers(0, 12, 800).tolist()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(index.audio.read, order)) == [AUDIO[row] for row in order]
    opened = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            opened.append(link.readlink())
    assert sum(path.is_relative_to(tmp_path) for path in opened) <= 2


@pytest.mark.parametrize(("form", "subtype"), [("FLAC", "PCM_24"), ("WAV", "FLOAT"), ("OGG", None)])
def test_a_waveform_is_what_libsndfile_makes_of_it(form: str, subtype: str | None) -> None:
    file, out = io.BytesIO(), np.empty(12_345, np.float32)
    soundfile.write(file, waveform(12_345, 3), 16_000, format=form, subtype=subtype)
    decode(file.getvalue(), out)
    file.seek(0)
    assert np.array_equal(out, soundfile.read(file, dtype="float32")[0])


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (b"no audio", "cannot be decoded"),
        (flac(12_345, 3)[:10_000], "cannot be decoded"),
        (flac(12_344, 3), "audio_size is 12345, the audio has 12344 samples"),
        # Trains silently wrong upstream (TRAPS).
        (flac(12_345, 3, 48_000), "expected audio at 16000 Hz, found 48000 Hz"),
    ],
)
def test_unexpected_audio_is_refused(encoded: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(encoded, np.empty(12_345, np.float32))
