"""A source that changes during a conversion, after a refusal, and after the last one."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pandas as pd
import pytest

from danish_asr.base.audio import decode
from danish_asr.base.errors import DatasetError, SourceError
from danish_asr.corpus import convert as package
from danish_asr.corpus.convert import convert
from danish_asr.corpus.task import Record, convert_task
from tests.builders import coral_row, tone, write_parquet
from tests.corpora import options, record, write_lines

convert_module: Any = package


def embedded(folder: Path) -> Path:
    """Audio inside a Parquet file; returns that."""
    rows = [coral_row(number, text="ja", audio=tone(0.2)) for number in range(2)]
    write_parquet(folder / "train.parquet", rows)
    return folder / "train.parquet"


def recorded(folder: Path) -> Path:
    """A table of a recording and of its folder, which is none; returns the recording."""
    rows = [{"audio": audio, "text": "ja"} for audio in ("a.wav", ".", "no.wav")]
    write_lines(folder / "train.jsonl", rows)
    (folder / "a.wav").write_bytes(tone(0.2))
    return folder / "a.wav"


def touch(file: Path) -> None:
    os.utime(file, ns=(1, 1))


def arrive(file: Path) -> None:
    (file.parent / "day1").mkdir()
    (file.parent / "day1" / "no.wav").write_bytes(tone(0.2))


def heard(dataset: Path) -> np.ndarray[Any, Any]:
    """The samples of the first row."""
    return decode(pd.read_parquet(dataset / "version=0")["audio_bytes"][0])[0]


@pytest.mark.parametrize(
    ("make", "change"),
    [(embedded, touch), (recorded, touch), (recorded, Path.unlink), (recorded, arrive)],
)
def test_a_source_that_changes_while_it_is_converted_makes_no_dataset(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path], Path],
    change: Callable[[Path], None],
) -> None:
    """The same command makes one then, of what is there now."""
    file, out = make(tmp_path / "in"), tmp_path / "out"

    def convert_and_change(*task: Any, **values: Any) -> Record:
        made = convert_task(*task, **values)
        change(file)
        return made

    with monkeypatch.context() as patch:
        patch.setattr(convert_module, "convert_task", convert_and_change)
        with pytest.raises(SourceError, match=r"^(train\.parquet|a\.wav|no\.wav): "):
            convert(file.parent, out, options(max_drop=1.0))
    assert not (out / "manifest.json").exists()
    undisturbed = convert(file.parent, tmp_path / "undisturbed", options(max_drop=1.0))
    assert convert(file.parent, out, options(max_drop=1.0)) == undisturbed


def test_a_recording_made_anew_after_a_refusal_is_in_the_dataset(tmp_path: Path) -> None:
    """Also one that the refusal did not name."""
    rows = [{"audio": audio, "text": "ja"} for audio in ("a.wav", "b.wav")]
    folder, out = write_lines(tmp_path / "in" / "train.jsonl", rows).parent, tmp_path / "out"
    one_each = options(shard_rows=1)
    record(folder, "a.wav", seconds=1.0)
    with pytest.raises(DatasetError, match=r"b\.wav"):
        convert(folder, out, one_each)
    record(folder, "a.wav", seconds=2.0)
    record(folder, "b.wav")
    assert convert(folder, out, one_each).rows == 2
    assert len(heard(out)) == 32_000


def test_a_finished_dataset_of_a_recording_that_changed_is_refused_and_kept(tmp_path: Path) -> None:
    file, out = recorded(tmp_path / "in"), tmp_path / "Mia's out"
    convert(file.parent, out, options(max_drop=1.0))
    before = (out / "manifest.json").read_bytes()
    touch(file)
    with pytest.raises(DatasetError, match=re.escape(f"rm -r {quote(str(out))} ")):
        convert(file.parent, out, options(max_drop=1.0))
    assert (out / "manifest.json").read_bytes() == before


def test_a_long_recording_that_was_replaced_is_heard_anew(tmp_path: Path) -> None:
    """By the same process, which may keep it open."""
    row = {"audio": "a.wav", "text": "ja tak", "start": 0.5, "end": 1.0}
    folder = write_lines(tmp_path / "in" / "train.jsonl", [row]).parent
    for hertz in (220.0, 440.0):
        audio = tone(3.0, rate=16_000, hertz=hertz)
        (folder / "new").write_bytes(audio)
        (folder / "new").replace(folder / "a.wav")
        convert(folder, tmp_path / f"{hertz}", options())
        expected = decode(audio, start=0.5, seconds=0.5)[0]
        assert np.array_equal(heard(tmp_path / f"{hertz}"), expected)
