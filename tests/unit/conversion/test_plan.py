"""The plan of a conversion: shards of neighbouring rows, and the first row of each id."""

from collections import Counter
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.base.schema import SPLITS
from danish_asr.corpus.convert import plan_tasks
from danish_asr.corpus.rows import DUPLICATE, table_of, without_duplicates
from danish_asr.corpus.sources import open_source
from tests.builders import build_source
from tests.corpora import options

File = tuple[str, list[str], list[list[str]]]
"""Corpus, the splits of its rows in turn, and the ids of its groups."""


def table(files: list[File]) -> pa.Table:
    rows = []
    for number, (corpus, splits, groups) in enumerate(files):
        ids = [(group, own) for group, ids in enumerate(groups) for own in ids]
        for row, (group, own) in enumerate(ids):
            split = splits[row % len(splits)]
            record = {"file": f"{number}.csv", "row": row, "group": group, "id": own}
            rows.append(record | {"corpus": corpus, "split": split})
    return table_of(rows, options())


groups = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=12), max_size=4)
splits = st.lists(st.sampled_from(SPLITS), min_size=1, max_size=3)
file = st.tuples(st.sampled_from("ab"), splits, groups)
tables = st.lists(file, min_size=1, max_size=5).map(table).filter(len)


@given(tables, st.integers(1, 20))
def test_tasks_divide_the_rows_with_a_shard_of_each_partition_that_occurs(
    rows: pa.Table, limit: int
) -> None:
    tasks = plan_tasks(rows, options(shard_rows=limit))
    planned = chain.from_iterable(task.rows.select(["file", "row"]).to_pylist() for task in tasks)
    assert Counter(map(str, planned)) == Counter(map(str, rows.select(["file", "row"]).to_pylist()))
    for task in tasks:
        assert 0 < len(task.rows) <= limit
        own = task.rows.select(["corpus", "split"]).to_pylist()
        assert task.paths.keys() == {(row["corpus"], row["split"]) for row in own}
        for (corpus, split), path in task.paths.items():
            assert Path(path).parts[1:3] == (f"corpus={corpus}", f"split={split}")
    paths = [path for task in tasks for path in task.paths.values()]
    assert len({*paths}) == len(paths)


@pytest.mark.parametrize(("rows", "tasks"), [(100, 1), (850, 9), (3_200, 16), (20_000, 20)])
def test_a_small_source_has_work_for_several_processes(rows: int, tasks: int) -> None:
    ids = [str(row) for row in range(rows)]
    own = [ids[start : start + 100] for start in range(0, rows, 100)]
    assert len(plan_tasks(table([("a", ["train"], own)]), options())) == tasks


@given(tables)
def test_the_first_row_of_a_corpus_and_id_is_kept_and_all_later_ones_are_duplicates(
    rows: pa.Table,
) -> None:
    seen: set[tuple[str, str]] = set()
    for row in without_duplicates(rows).to_pylist():
        name = row["corpus"], row["id"]
        assert row["refused"] == (DUPLICATE if name in seen else None)
        seen.add(name)


def test_a_row_group_that_fits_is_not_cut(tmp_path: Path) -> None:
    folder = build_source(tmp_path, train=50, dev=0, test=0, conversation=False, row_group_size=20)
    rows = open_source(str(folder), options()).rows
    tasks = plan_tasks(rows, options(shard_rows=45))
    assert [len(task.rows) for task in tasks] == [40, 10]
