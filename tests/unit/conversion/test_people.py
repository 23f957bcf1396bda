from collections.abc import Sequence

import pyarrow as pa
import pytest

from danish_asr.corpus.people import PEOPLE, people_notes


def notes(*rows: Sequence[str], split: str = "train", column: str = "dialect") -> list[str]:
    """The notes about rows with a speaker each, and a value in a column."""
    made = [{"speaker_id": speaker, column: value} for speaker, value in rows]
    table = pa.Table.from_pylist([row | {"audio_size": 1000} for row in made], PEOPLE)
    splits = dict.fromkeys(("train", "dev", "test"), PEOPLE.empty_table())
    return list(people_notes(splits | {split: table}))


@pytest.mark.parametrize(
    "spellings",
    [("Århus", "århus"), ("Århus", "Aarhus"), ("vestjysk mål", "vestjysk_mål"), ("K", "\uff2b")],
)
def test_labels_that_may_be_one_are_listed(spellings: tuple[str, str]) -> None:
    (note,) = notes(*((f"s{n}", value) for n, value in enumerate((*spellings, "Fynsk"))))
    assert note.startswith("dialect: ")
    assert note.endswith(": 'Århus', 'århus'" if "århus" in spellings else repr(spellings[1]))


def test_speakers_that_may_be_one_are_listed_and_others_are_not() -> None:
    (note,) = notes(("Spk-1", "x"), ("spk 1", "x"), ("aa", "x"), ("å", "x"), ("11", "x"))
    assert note.startswith("speaker_id: ")
    assert note.endswith(": 'Spk-1', 'spk 1'")


@pytest.mark.parametrize(
    ("rows_of_speakers", "found"),
    [([1] * 8, None), ([1] * 7, "7 speakers; an interval needs 8"), ([20] + [1] * 7, "as of 1.8 ")],
)
def test_too_few_test_speakers_are_announced_before_the_training(
    rows_of_speakers: list[int], found: str | None
) -> None:
    rows = [(f"s{n}", "x") for n, count in enumerate(rows_of_speakers) for _ in range(count)]
    made = notes(*rows, split="test")
    assert len(made) == (found is not None)
    assert all(found in note for note in made if found)
    assert all(("--folds 5" in note) == (len(rows_of_speakers) >= 8) for note in made)
    assert notes(*rows, split="train") == []


def test_folds_are_offered_where_they_have_enough_speakers() -> None:
    few = pa.Table.from_pylist([{"speaker_id": "a", "audio_size": 1}], PEOPLE)
    many = pa.Table.from_pylist([{"speaker_id": f"{n}", "audio_size": 1} for n in range(8)], PEOPLE)
    splits = {"train": many, "dev": many, "test": few}
    (note,) = people_notes(splits)
    assert "--folds 5" in note
    assert list(people_notes(splits, folds=True)) == []
