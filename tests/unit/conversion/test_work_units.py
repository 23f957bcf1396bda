from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.conversion.work_units import ConvertOptions, find_duplicates, plan_work
from danish_asr.sources import open_source
from danish_asr.sources.base import SourceFile, Utterance
from tests.builders import build_source


@dataclass(frozen=True)
class Listed:
    """A source of which only the listing is asked."""

    files: tuple[SourceFile, ...]
    all_ids: dict[str, list[str]]
    name: str = "listed"
    notes: tuple[str, ...] = ()

    def ids(self, file: SourceFile) -> pa.Array:
        return pa.array(self.all_ids[file.name], pa.string())

    def read(self, file: SourceFile, start: int, stop: int) -> Iterator[Utterance]:
        raise NotImplementedError

    def path(self, file: SourceFile) -> Path | None:
        raise NotImplementedError

    def audio_files(self, file: SourceFile, start: int, stop: int) -> Iterator[Path]:
        raise NotImplementedError


@st.composite
def sources(draw: st.DrawFn) -> Listed:
    files = tuple(
        SourceFile(
            name=f"{number}.parquet",
            corpus=draw(st.sampled_from(["a", "b"])),
            split=draw(st.sampled_from(["train", "dev", "test"])),
            chunks=tuple(draw(st.lists(st.integers(0, 12), max_size=4))),
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
    return Listed(files, ids)


@given(sources(), st.integers(1, 20))
def test_every_source_row_is_in_exactly_one_unit(source: Listed, shard_rows: int) -> None:
    plan = plan_work(source, ConvertOptions(shard_rows=shard_rows))
    planned = Counter(
        (piece.file.name, row)
        for unit in plan.units
        for piece in unit.pieces
        for row in range(piece.start, piece.stop)
    )
    assert planned == Counter((file.name, row) for file in source.files for row in range(file.rows))
    assert plan.rows == sum(file.rows for file in source.files)


@given(sources(), st.integers(1, 20))
def test_a_unit_has_rows_of_one_partition_and_not_too_many(source: Listed, rows: int) -> None:
    for unit in plan_work(source, ConvertOptions(shard_rows=rows)).units:
        assert 0 < unit.rows <= rows
        assert {(p.file.corpus, p.file.split) for p in unit.pieces} == {(unit.corpus, unit.split)}


@given(sources(), st.integers(1, 20))
def test_no_two_units_have_the_same_shard(source: Listed, shard_rows: int) -> None:
    units = plan_work(source, ConvertOptions(shard_rows=shard_rows)).units
    assert len({unit.shard(Path()) for unit in units}) == len(units)
    assert [unit.number for unit in units] == list(range(len(units)))


@given(sources())
def test_the_first_row_of_an_id_is_kept_and_all_later_ones_are_duplicates(source: Listed) -> None:
    duplicates = find_duplicates(source)
    seen: set[str] = set()
    for file in source.files:
        for row, id_ in enumerate(source.all_ids[file.name]):
            assert (row in duplicates[file.name]) == (id_ in seen)
            seen.add(id_)


@given(sources(), st.integers(1, 20))
def test_pieces_know_their_own_duplicates(source: Listed, shard_rows: int) -> None:
    duplicates = find_duplicates(source)
    found: dict[str, set[int]] = {file.name: set() for file in source.files}
    for unit in plan_work(source, ConvertOptions(shard_rows=shard_rows)).units:
        for piece in unit.pieces:
            assert all(piece.start <= row < piece.stop for row in piece.duplicates)
            found[piece.file.name] |= piece.duplicates
    assert found == duplicates


def test_a_row_group_that_fits_is_not_cut(tmp_path: Path) -> None:
    source = open_source(
        str(build_source(tmp_path, train=50, dev=0, test=0, conversation=False, row_group_size=20))
    )
    (first, second) = plan_work(source, ConvertOptions(shard_rows=45)).units
    assert [(piece.start, piece.stop) for piece in first.pieces] == [(0, 40)]
    assert [(piece.start, piece.stop) for piece in second.pieces] == [(40, 50)]


def test_the_key_tells_other_content_and_other_options_apart(tmp_path: Path) -> None:
    one = open_source(str(build_source(tmp_path / "one")))
    same = open_source(str(build_source(tmp_path / "same")))
    other = open_source(str(build_source(tmp_path / "other", train=13)))
    options = ConvertOptions()
    assert plan_work(one, options).key == plan_work(same, options).key
    assert plan_work(one, options).key != plan_work(other, options).key
    assert plan_work(one, options).key != plan_work(one, ConvertOptions(max_seconds=1)).key
