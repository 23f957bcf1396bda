from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.conversion import ConvertOptions
from danish_asr.conversion.plan import find_duplicates, plan_conversion
from danish_asr.sources import open_source
from danish_asr.sources.base import Source, SourceFile, Utterance
from tests.builders import build_source


@dataclass(frozen=True, kw_only=True)
class Listed(Source):
    """A source of which only the files and ids are read."""

    name: str = "listed"
    all_ids: dict[str, list[str]]

    def ids(self, file: SourceFile) -> pa.Array:
        return pa.array(self.all_ids[file.name], pa.string())

    def read(self, file: SourceFile, start: int, stop: int) -> Iterator[Utterance]:
        raise NotImplementedError


@st.composite
def sources(draw: st.DrawFn) -> Listed:
    files = tuple(
        SourceFile(
            name=f"{number}.parquet",
            corpus=draw(st.sampled_from(["a", "b"])),
            split=draw(st.sampled_from(["train", "dev", "test"])),
            row_groups=tuple(draw(st.lists(st.integers(0, 12), max_size=4))),
            fingerprint=str(number),
        )
        for number in range(draw(st.integers(1, 5)))
    )
    ids = {
        file.name: draw(
            st.lists(st.sampled_from("abcdefgh"), min_size=file.rows, max_size=file.rows)
        )
        for file in files
    }
    return Listed(files=files, all_ids=ids)


@given(sources(), st.integers(1, 20))
def test_every_source_row_is_in_exactly_one_task(source: Listed, shard_rows: int) -> None:
    plan = plan_conversion(source, ConvertOptions(shard_rows=shard_rows))
    planned = Counter(
        (rows.file.name, row)
        for task in plan.tasks
        for rows in task.slices
        for row in range(rows.start, rows.stop)
    )
    assert planned == Counter((file.name, row) for file in source.files for row in range(file.rows))
    assert plan.rows == sum(file.rows for file in source.files)


@given(sources(), st.integers(1, 20))
def test_a_task_has_rows_of_one_partition_and_not_too_many(source: Listed, limit: int) -> None:
    for task in plan_conversion(source, ConvertOptions(shard_rows=limit)).tasks:
        assert 0 < task.rows <= limit
        assert {(p.file.corpus, p.file.split) for p in task.slices} == {(task.corpus, task.split)}


@given(sources(), st.integers(1, 20))
def test_no_two_tasks_have_the_same_shard(source: Listed, shard_rows: int) -> None:
    tasks = plan_conversion(source, ConvertOptions(shard_rows=shard_rows)).tasks
    assert len({task.path for task in tasks}) == len(tasks)
    assert [task.number for task in tasks] == list(range(len(tasks)))


@given(sources())
def test_the_first_row_of_an_id_is_kept_and_all_later_ones_are_duplicates(source: Listed) -> None:
    duplicates = find_duplicates(source)
    seen: set[str] = set()
    for file in source.files:
        for row, id_ in enumerate(source.all_ids[file.name]):
            assert (row in duplicates[file.name]) == (id_ in seen)
            seen.add(id_)


def test_a_row_group_that_fits_is_not_cut(tmp_path: Path) -> None:
    source = open_source(
        str(build_source(tmp_path, train=50, dev=0, test=0, conversation=False, row_group_size=20))
    )
    (first, second) = plan_conversion(source, ConvertOptions(shard_rows=45)).tasks
    assert [(rows.start, rows.stop) for rows in first.slices] == [(0, 40)]
    assert [(rows.start, rows.stop) for rows in second.slices] == [(40, 50)]


def test_the_key_depends_on_content_file_times_and_options(tmp_path: Path) -> None:
    folder = build_source(tmp_path / "in")
    options = ConvertOptions()

    def key(options: ConvertOptions = options) -> str:
        return plan_conversion(open_source(str(folder)), options).key

    first = key()
    assert key() == first
    assert key(ConvertOptions(max_drop=1)) == first
    assert key(ConvertOptions(max_seconds=1)) != first
    os.utime(next(folder.rglob("*.parquet")), ns=(1, 1))
    touched = key()
    assert touched != first
    build_source(folder, train=13)
    assert key() not in {first, touched}
