from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.data.packed_strings import PackedStrings

# Surrogates are no text: UTF-8 cannot hold them.
STRINGS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=350)


@given(STRINGS)
def test_packing_gives_every_string_back(strings: list[str]) -> None:
    packed = PackedStrings.pack(pa.array(strings, pa.string()))

    assert packed.values(range(len(strings))) == strings
    assert [s for _, chunk in packed.chunks() for s in chunk.to_pylist()] == strings


@given(STRINGS, STRINGS)
def test_joining_keeps_the_order(left: list[str], right: list[str]) -> None:
    parts = [PackedStrings.pack(pa.array(part, pa.string())) for part in (left, right)]

    joined = PackedStrings.joined(parts)

    assert joined.values(range(len(joined))) == left + right


def test_a_slice_of_an_array_is_packed_as_the_slice() -> None:
    strings = [f"række {number}" for number in range(500)]

    packed = PackedStrings.pack(pa.array(strings)[130:410])

    assert packed.values([0, 279]) == ["række 130", "række 409"]


def test_taking_rows_renumbers_them() -> None:
    packed = PackedStrings.pack(pa.array([f"{number}" for number in range(500)]))

    assert packed.take(np.array([400, 3, 3])).values([0, 1, 2]) == ["400", "3", "3"]


def test_chunks_name_their_first_row() -> None:
    packed = PackedStrings.pack(pa.array(["x"] * 120_000))

    assert [begin for begin, _ in packed.chunks()] == [0, 50_000, 100_000]
