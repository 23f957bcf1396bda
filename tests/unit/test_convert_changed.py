"""Sources that change, or seem to: under a half-built dataset and under a finished one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.conversion.convert import Part, convert, convert_part, finish
from danish_asr.conversion.shard import Job, Record
from danish_asr.conversion.work_units import ConvertOptions, Unit
from danish_asr.errors import DatasetError, SourceError
from danish_asr.sources import SourceOptions, open_source
from danish_asr.sources.base import Source
from tests.builders import READ_ALOUD_SCHEMA, coral_row, tone, tree

OPTIONS = ConvertOptions(shard_rows=8)
ROWS = 30

Open = Callable[[], Source]
Change = Callable[[Path], None]


def embedded(folder: Path) -> Open:
    """Audio inside a Parquet file that is not compressed, so that a row can be overwritten."""
    rows = [coral_row(number, audio=tone(0.2, hertz=200.0 + number)) for number in range(ROWS)]
    folder.mkdir()
    table = pa.Table.from_pylist(rows, READ_ALOUD_SCHEMA)
    pq.write_table(table, folder / "train.parquet", row_group_size=4, compression="none")
    return lambda: open_source(str(folder))


def beside_parquet(folder: Path) -> Open:
    """Paths in a Parquet file, and the audio beside it."""
    rows = [
        coral_row(number, audio_struct={"bytes": None, "path": f"{number}.wav"})
        for number in range(ROWS)
    ]
    write_audio(folder)
    table = pa.Table.from_pylist(rows, READ_ALOUD_SCHEMA)
    pq.write_table(table, folder / "train.parquet", row_group_size=4)
    return lambda: open_source(str(folder))


def beside_manifest(folder: Path) -> Open:
    """Paths in JSON lines, and the audio beside it."""
    write_audio(folder)
    rows = [{"audio_filepath": f"{number}.wav", "text": "ja"} for number in range(ROWS)]
    (folder / "train.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return lambda: open_source(str(folder / "train.jsonl"), SourceOptions(corpus="radio"))


def write_audio(folder: Path) -> None:
    folder.mkdir()
    for number in range(ROWS - 1):  # the last one is missing
        (folder / f"{number}.wav").write_bytes(tone(0.2, hertz=200.0 + number))


def overwrite(folder: Path) -> None:
    """Give one row in the middle other audio with as many bytes, and hide when."""
    number = 6
    old, new = tone(0.2, hertz=200.0 + number), tone(0.2, hertz=900.0)
    path = next(path for path in sorted(folder.iterdir()) if old in path.read_bytes())
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(old, new))
    assert path.stat().st_size == status.st_size
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def remove(folder: Path) -> None:
    (folder / "3.wav").unlink()


def add(folder: Path) -> None:
    (folder / f"{ROWS - 1}.wav").write_bytes(tone(0.2))


def touch(folder: Path) -> None:
    for path in folder.iterdir():
        path.touch()


def copy(folder: Path) -> None:
    shutil.copytree(folder, folder.with_name("copy"))
    shutil.rmtree(folder)
    folder.with_name("copy").rename(folder)


CHANGES = [
    (embedded, overwrite),
    (beside_parquet, overwrite),
    (beside_parquet, remove),
    (beside_parquet, add),
    (beside_manifest, overwrite),
    (beside_manifest, remove),
    (beside_manifest, add),
]
SOURCES = [embedded, beside_parquet, beside_manifest]


def build(source: Source, out: Path) -> None:
    convert(source, out, name="tiny", options=OPTIONS, max_drop=0.2)


def build_half(source: Source, out: Path) -> None:
    for index in (1, 4):  # the first of four shards, and the last
        convert_part(source, out, Part(index, 4), options=OPTIONS, max_drop=0.2)


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("make", "change"), CHANGES)
def test_a_changed_row_under_a_half_built_dataset_is_told(
    tmp_path: Path, make: Callable[[Path], Open], change: Change
) -> None:
    source = make(tmp_path / "in")
    build_half(source(), tmp_path / "ds")
    shards = contents(tmp_path / "ds" / "version=0")
    assert len(shards) == 2
    change(tmp_path / "in")
    told = r"part-0000[03]-of-00004.*source has changed since it was written \(train.*rows \d+ to"
    with pytest.raises(SourceError, match=told):
        build(source(), tmp_path / "ds")
    assert not (tmp_path / "ds" / "manifest.json").exists()
    assert {path: path.read_bytes() for path in shards} == shards


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("change", [touch, copy])
def test_a_source_that_was_only_touched_is_continued(
    tmp_path: Path, make: Callable[[Path], Open], change: Change
) -> None:
    source = make(tmp_path / "in")
    build(source(), tmp_path / "whole")
    build_half(source(), tmp_path / "ds")
    change(tmp_path / "in")
    build(source(), tmp_path / "ds")
    assert tree(tmp_path / "ds") == tree(tmp_path / "whole")


@pytest.mark.parametrize(("make", "change"), CHANGES)
def test_finishing_parts_of_a_source_that_has_changed_is_refused(
    tmp_path: Path, make: Callable[[Path], Open], change: Change
) -> None:
    source = make(tmp_path / "in")
    for index in (1, 2):
        convert_part(source(), tmp_path / "ds", Part(index, 2), options=OPTIONS, max_drop=0.2)
    change(tmp_path / "in")
    with pytest.raises(SourceError, match="source has changed since it was written"):
        finish(source(), tmp_path / "ds", name="tiny", options=OPTIONS, max_drop=0.2)


@pytest.mark.parametrize(
    ("make", "change", "workers"),
    [*((*change, 1) for change in CHANGES), (beside_manifest, overwrite, 2)],
)
def test_a_finished_dataset_is_not_complete_if_a_row_of_its_source_has_changed(
    tmp_path: Path, make: Callable[[Path], Open], change: Change, workers: int
) -> None:
    source = make(tmp_path / "in")
    build(source(), tmp_path / "ds")
    before = contents(tmp_path / "ds")
    change(tmp_path / "in")
    told = r"finished dataset 'tiny', and its source has changed since: version=0/.*rows \d+ to \d"
    for _ in range(2):
        with pytest.raises(DatasetError, match=told):
            convert(source(), tmp_path / "ds", name="tiny", options=OPTIONS, workers=workers)
    assert contents(tmp_path / "ds") == before


@pytest.mark.parametrize("make", SOURCES)
def test_a_row_that_changes_before_the_run_ends_is_seen_by_the_next_run(
    tmp_path: Path, make: Callable[[Path], Open]
) -> None:
    source = make(tmp_path / "in")

    def run(job: Job, units: Sequence[Unit]) -> Iterator[Record]:
        yield from map(job.convert, units)
        overwrite(tmp_path / "in")

    convert(source(), tmp_path / "ds", name="tiny", options=OPTIONS, max_drop=0.2, engine=run)
    with pytest.raises(DatasetError, match="and its source has changed since"):
        build(source(), tmp_path / "ds")


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("change", [touch, copy])
def test_a_finished_dataset_stays_complete_if_its_source_was_only_touched(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[Path], Open],
    change: Change,
) -> None:
    source = make(tmp_path / "in")
    build(source(), tmp_path / "ds")
    before = contents(tmp_path / "ds")
    change(tmp_path / "in")
    build(source(), tmp_path / "ds")
    assert contents(tmp_path / "ds") == before
    assert "looking whether the source of 4 of its 4 shards is still" in capsys.readouterr().err
    if make is embedded:  # and what was settled once is not looked at again
        build(source(), tmp_path / "ds")
        assert "looking" not in capsys.readouterr().err


@pytest.mark.parametrize("make", [beside_parquet, beside_manifest])
def test_audio_that_changes_while_its_shard_is_made_is_told(
    tmp_path: Path, make: Callable[[Path], Open], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path / "in")()
    read = type(source).read

    def read_slowly(self: Source, *where: object) -> object:
        for utterance in read(self, *where):  # type: ignore[arg-type]
            yield utterance
            (tmp_path / "in" / "5.wav").write_bytes(tone(0.1))

    monkeypatch.setattr(type(source), "read", read_slowly)
    with pytest.raises(SourceError, match=r"5\.wav: has changed since the conversion began; rest"):
        build(source, tmp_path / "ds")
    assert not list((tmp_path / "ds" / ".convert").glob("unit-000000.json"))
