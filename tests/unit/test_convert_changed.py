"""A source that changes during a conversion, between two runs, and after the last one."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from danish_asr.base.errors import DatasetError, SourceError
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert, convert_part, finish
from danish_asr.corpus.shard import Record
from danish_asr.corpus.sources import SourceOptions, open_source
from danish_asr.corpus.sources.base import Source
from danish_asr.corpus.tasks import ShardTask
from tests.builders import coral_row, tone, tree, write_parquet

OPTIONS = ConvertOptions(shard_rows=8, max_drop=0.2)
ROWS = 30

Open = Callable[[], Source]
Change = Callable[[Path], None]


def embedded(folder: Path) -> Open:
    """Audio inside a Parquet file."""
    rows = [coral_row(number, text="ja", audio=tone(0.2)) for number in range(ROWS)]
    write_parquet(folder / "train.parquet", rows, row_group_size=4)
    return lambda: open_source(str(folder))


def external_to_parquet(folder: Path) -> Open:
    """Paths in a Parquet file."""
    paths = [{"bytes": None, "path": f"{number}.wav"} for number in range(ROWS)]
    rows = [coral_row(number, text="ja", audio_struct=path) for number, path in enumerate(paths)]
    write_parquet(folder / "train.parquet", rows, row_group_size=4)
    write_audio(folder)
    return lambda: open_source(str(folder))


def external_to_manifest(folder: Path) -> Open:
    """Paths in JSON lines."""
    folder.mkdir()
    write_audio(folder)
    rows = [{"audio_filepath": f"{number}.wav", "text": "ja"} for number in range(ROWS)]
    (folder / "train.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return lambda: open_source(str(folder / "train.jsonl"), SourceOptions(corpus="radio"))


def write_audio(folder: Path) -> None:
    for number in range(ROWS - 1):  # one is missing
        (folder / f"{number}.wav").write_bytes(tone(0.2))


def touch(folder: Path) -> None:
    os.utime(next(folder.glob("train.*")), ns=(1, 1))


def overwrite(folder: Path) -> None:
    """Replace the audio of one row by as many bytes."""
    (folder / "6.wav").write_bytes(tone(0.2, hertz=900.0))


def remove(folder: Path) -> None:
    (folder / "3.wav").unlink()


def copy(folder: Path) -> None:
    """Put a copy in the place of every file, as a restored backup does."""
    for path in list(folder.iterdir()):
        shutil.copy2(path, folder / "new")
        (folder / "new").rename(path)


CHANGES = [
    (embedded, touch),
    *((make, overwrite) for make in (external_to_parquet, external_to_manifest)),
    (external_to_manifest, remove),
]


@pytest.mark.parametrize(("make", "change"), CHANGES)
def test_a_changed_source_is_refused_with_the_command_that_starts_anew(
    tmp_path: Path, make: Callable[[Path], Open], change: Change
) -> None:
    source, begun, done = make(tmp_path / "in"), tmp_path / "begun", tmp_path / "done"
    for index in (1, 2):
        convert_part(source(), begun, (index, 2), options=OPTIONS)
    convert(source(), done, name="tiny", options=OPTIONS)
    before = tree(begun), tree(done)
    change(tmp_path / "in")
    for out, message in ((begun, "unfinished conversion"), (done, "finished dataset 'tiny'")):
        calls: list[Callable[[], object]] = [
            partial(convert, source(), out, name="tiny", options=OPTIONS),
            partial(convert_part, source(), out, (1, 2), options=OPTIONS),
            partial(finish, source(), out, name="tiny", options=OPTIONS),
        ]
        for call in calls:
            with pytest.raises(DatasetError, match=rf"{message}.*its source .*rm -r '{out}'"):
                call()
    assert (tree(begun), tree(done)) == before


@pytest.mark.parametrize(("make", "change"), CHANGES)
def test_a_source_that_changes_while_it_is_converted_makes_no_dataset(
    tmp_path: Path, make: Callable[[Path], Open], change: Change
) -> None:
    source, out = make(tmp_path / "in"), tmp_path / "ds"

    def run(task: Callable[[ShardTask], Record], tasks: Sequence[ShardTask]) -> Iterator[Record]:
        yield from map(task, tasks)
        change(tmp_path / "in")

    with pytest.raises(SourceError, match=rf"changed during the conversion.*rm -r '{out}'"):
        convert(source(), out, name="tiny", options=OPTIONS, engine=run)
    assert not (out / "manifest.json").exists()


@pytest.mark.parametrize("make", [embedded, external_to_parquet, external_to_manifest])
def test_a_copy_with_its_times_is_the_same_source(
    tmp_path: Path, make: Callable[[Path], Open]
) -> None:
    source, out = make(tmp_path / "in"), tmp_path / "ds"
    convert_part(source(), out, (1, 2), options=OPTIONS)
    copy(tmp_path / "in")
    convert(source(), out, name="tiny", options=OPTIONS)
    convert(source(), tmp_path / "undisturbed", name="tiny", options=OPTIONS)
    assert tree(out) == tree(tmp_path / "undisturbed")


@pytest.mark.parametrize("finished", [True, False])
def test_other_columns_are_no_continuation(tmp_path: Path, *, finished: bool) -> None:
    """The options of a source decide what its dataset holds, also where its files are the same."""
    folder = tmp_path / "in"
    folder.mkdir()
    write_audio(folder)
    rows = [{"path": f"{n}.wav", "raw": f"Rå {n}", "clean": f"rå {n}"} for n in range(ROWS - 1)]
    (folder / "train.jsonl").write_text("\n".join(json.dumps(row) for row in rows))

    def opened(column: str) -> Source:
        options = SourceOptions(corpus="radio", columns=(f"text={column}",))
        return open_source(str(folder / "train.jsonl"), options)

    if finished:
        convert(opened("raw"), tmp_path / "out", name="x", options=OPTIONS)
    else:
        convert_part(opened("raw"), tmp_path / "out", (1, 2), options=OPTIONS)
    with pytest.raises(DatasetError, match="options"):
        convert(opened("clean"), tmp_path / "out", name="x", options=OPTIONS)


def test_a_folder_in_place_of_audio_is_missing_and_no_change(tmp_path: Path) -> None:
    """The dataset is written into it while it is converted."""
    rows = [{"audio_filepath": path, "text": "ja"} for path in (".", "0.wav")]
    (tmp_path / "0.wav").write_bytes(tone(0.2))
    (tmp_path / "train.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    source = open_source(str(tmp_path / "train.jsonl"), SourceOptions(corpus="radio"))
    inventory = convert(source, tmp_path / "out", name="x", options=ConvertOptions(max_drop=0.5))
    assert [entry["reason"] for entry in inventory.dropped] == ["audio file missing"]
