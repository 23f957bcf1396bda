import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.base.schema import SPLITS
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.changes import key_of
from danish_asr.corpus.sources import open_source
from danish_asr.corpus.sources.base import Source, SourceFile, Utterance
from danish_asr.corpus.tasks import find_duplicates, plan_tasks
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


def listed(files: list[tuple[str, str, list[list[str]]]]) -> Listed:
    all_ids = {f"{number}.parquet": list(chain(*file[2])) for number, file in enumerate(files)}
    return Listed(
        files=tuple(
            SourceFile(
                name=name,
                corpus=corpus,
                split=split,
                row_groups=tuple(map(len, row_groups)),
                fingerprint=name,
            )
            for name, (corpus, split, row_groups) in zip(all_ids, files, strict=True)
        ),
        all_ids=all_ids,
    )


groups = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=12), max_size=4)
file = st.tuples(st.sampled_from("ab"), st.sampled_from(SPLITS), groups)
sources = st.lists(file, min_size=1, max_size=5).map(listed)


@given(sources, st.integers(1, 20))
def test_tasks_divide_the_rows_into_shards_of_one_partition(source: Listed, limit: int) -> None:
    tasks = plan_tasks(source, ConvertOptions(shard_rows=limit))
    planned = Counter(
        (part.file.name, row)
        for task in tasks
        for part in task.slices
        for row in range(part.start, part.stop)
    )
    assert planned == Counter((file.name, row) for file in source.files for row in range(file.rows))
    for number, task in enumerate(tasks):
        assert task.number == number
        assert 0 < task.rows <= limit
        assert {(f"corpus={part.file.corpus}", part.file.split) for part in task.slices} == {
            (Path(task.path).parts[1], task.split)
        }
    assert len({task.path for task in tasks}) == len(tasks)


@pytest.mark.parametrize(("rows", "tasks"), [(100, 1), (850, 9), (3_200, 16), (20_000, 20)])
def test_a_small_source_has_work_for_several_processes(rows: int, tasks: int) -> None:
    ids = [str(row) for row in range(rows)]
    groups = [ids[start : start + 100] for start in range(0, rows, 100)]
    assert len(plan_tasks(listed([("a", "train", groups)]), ConvertOptions())) == tasks


@given(sources)
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
    (first, second) = plan_tasks(source, ConvertOptions(shard_rows=45))
    assert [(rows.start, rows.stop) for rows in first.slices] == [(0, 40)]
    assert [(rows.start, rows.stop) for rows in second.slices] == [(40, 50)]


def test_the_key_depends_on_content_file_times_and_options(tmp_path: Path) -> None:
    folder = build_source(tmp_path / "in")
    options = ConvertOptions()

    def key(options: ConvertOptions = options) -> str:
        return key_of(open_source(str(folder)), options)

    first = key()
    assert key() == first
    assert key(ConvertOptions(max_drop=1)) == first
    assert key(ConvertOptions(max_seconds=1)) != first
    os.utime(next(folder.rglob("*.parquet")), ns=(1, 1))
    touched = key()
    assert touched != first
    build_source(folder, train=13)
    assert key() not in {first, touched}
