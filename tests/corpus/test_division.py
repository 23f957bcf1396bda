"""Speakers are divided by their speech, and sentences that splits share are found."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from danish_asr.base.errors import SourceError
from danish_asr.corpus.division import SHARED_SENTENCE, assign_speakers, divide, sentences_of
from danish_asr.corpus.rows import ROWS
from tests.corpora import options


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, ROWS)


def people(dialects: list[list[Any]], **values: Any) -> list[dict[str, Any]]:
    """A row of these seconds for each speaker of each dialect."""
    return [
        {"speaker_id": f"{dialect}-{n}", "dialect": str(dialect), "seconds": own} | values
        for dialect, seconds in enumerate(dialects)
        for n, own in enumerate(seconds)
    ]


def divided(rows: list[dict[str, Any]], **values: Any) -> list[dict[str, Any]]:
    return list(divide(table(rows), options(**values)).to_pylist())


@pytest.mark.parametrize(
    ("seconds", "shares", "speech"),
    [
        ([[1] * 20] * 2, (80, 10, 10), [[16, 2, 2], [16, 2, 2]]),
        ([[1] * 20] * 2, (50, 0, 50), [[10, 0, 10], [10, 0, 10]]),
        # Who speaks for more than the smallest split may comes first, into train.
        ([[10, *[1] * 10]] * 2, (80, 10, 10), [[16, 2, 2], [16, 2, 2]]),
        ([[*[1] * 8, 2]], (80, 0, 20), [[8, 0, 2]]),
        # What a split lacks of a dialect it gets of the next one.
        ([[1] * 5] * 2, (80, 10, 10), [[4, 1, 0], [4, 0, 1]]),
        # But only half of it counts, so that each dialect has nearly its own shares.
        ([[1]] * 4 + [[1] * 20], (80, 10, 10), [[1, 0, 0]] * 4 + [[16, 2, 2]]),
        ([[1], [1] * 6, [1]], (60, 20, 20), [[1, 0, 0], [4, 1, 1], [0, 1, 0]]),
        # Whose share is above half a speaker of a dialect has one of it; 80/10/10 needs six.
        ([[1] * 3] * 3, (60, 20, 20), [[1, 1, 1]] * 3),
        ([[1] * 6] * 3, (80, 10, 10), [[4, 1, 1]] * 3),
        # A split that would stay empty gets the lightest speaker of that with the most.
        ([[3, 2, 1]], (80, 10, 10), [[3, 1, 2]]),
        ([[5, 4]], (90, 0, 10), [[5, 0, 4]]),
    ],
)
def test_each_split_gets_its_share_of_the_speech_of_each_dialect(
    seconds: list[list[int]], shares: tuple[int, ...], speech: list[list[int]]
) -> None:
    rows = people(seconds)
    for seed in range(4):
        splits = assign_speakers(table(rows), shares, seed)
        sums = np.zeros((len(speech), 3))
        for row in rows:
            sums[int(row["dialect"]), splits[row["speaker_id"]]] += row["seconds"]
        assert sums.tolist() == speech


def test_a_seed_divides_the_same_people_in_the_same_way_for_ever() -> None:
    """So that numbers of a held-out split stay comparable; one has just the due of a split."""
    rows = people([[*(1 + 3 * n % 7 for n in range(22)), 59, 16], [2] * 7, [1, 9, 4]])
    rows = [
        row | {"gender": "fm"[n % 2], "age_group": str(n % 4 // 3)} for n, row in enumerate(rows)
    ]
    splits = assign_speakers(table(rows), (80, 10, 10), 1)
    held_out = [[name for name, own in splits.items() if own == split] for split in (1, 2)]
    assert held_out == [
        ["0-12", "0-0", "0-2", "0-15", "1-1", "2-0"],
        ["0-19", "0-17", "0-13", "0-20", "1-3"],
    ]


def test_rows_count_where_a_length_is_unknown() -> None:
    """One speaker has as many rows as all others."""
    rows = [*people([[None]]) * 8, *people([[1, *[50] * 8]])[1:]]
    splits = assign_speakers(table(rows), (50, 0, 50), 0)
    assert Counter(splits[row["speaker_id"]] for row in rows) == {0: 8, 2: 8}


def test_each_split_has_nearly_its_share_of_every_gender_and_age_group() -> None:
    groups = [(gender, age) for gender in ("female", "male") for age in ("0-24", "50+")]
    rows = [
        row | {"gender": groups[n // 10][0], "age_group": groups[n // 10][1]}
        for n, row in enumerate(people([[1] * 40]))
    ]
    for seed in range(8):
        splits = assign_speakers(table(rows), (80, 10, 10), seed)
        for start in range(0, 40, 10):
            own = Counter(splits[row["speaker_id"]] for row in rows[start : start + 10])
            assert 7 <= own[0] <= 9


def test_a_seed_alone_decides_who_is_in_which_split() -> None:
    rows = people([[1] * 20])
    splits = [assign_speakers(table(own), (80, 10, 10), 1) for own in (rows, rows[::-1])]
    assert splits[0] == splits[1] != assign_speakers(table(rows), (80, 10, 10), 0)
    found = [divided(rows, split_by_speaker=f"80/10/10{seed}") for seed in ("", ":0", ":1")]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("dialects", "own"),
    [(["-", "0", None, "0"], "0"), (["1", "0", "1", "0"], "0"), ([None, None, "0"], "0")],
)
def test_a_person_is_of_the_dialect_of_most_rows(dialects: list[str | None], own: str) -> None:
    """Of "-", which nobody else is of, the person would be in train."""
    person = [{"speaker_id": "0-0", "dialect": name, "seconds": 10} for name in dialects]
    others = people([[10 * len(dialects)] * 2])[1:]
    sure = [{"speaker_id": "0-0", "dialect": own, "seconds": 10} for _ in dialects]
    for seed in range(4):
        splits = [
            assign_speakers(table([*one, *others]), (50, 0, 50), seed) for one in (person, sure)
        ]
        assert splits[0] == splits[1]


@pytest.mark.parametrize(
    ("count", "shares"), [(2, (80, 10, 10)), (1, (80, 0, 20)), (0, (100, 0, 0))]
)
def test_fewer_speakers_than_splits_are_refused(count: int, shares: tuple[int, ...]) -> None:
    rows = [*people([[1] * count]), {"seconds": 1.0}]
    with pytest.raises(SourceError, match=f"{count} known speakers cannot fill {count + 1} splits"):
        assign_speakers(table(rows), shares, 0)


def test_refused_rows_weigh_nothing_and_rows_without_a_known_speaker_are_train() -> None:
    refused = {"refused": "rejected", "seconds": 100}
    rows = [*people([[1] * 10], split="train"), *people([[1]], **refused), {"speaker_id": None}]
    found = divided([*rows, {"speaker_id": "only refused"} | refused], split_by_speaker="80/10/10")
    assert Counter(row["split"] for row in found[:10]) == {"train": 8, "dev": 1, "test": 1}
    assert found[10]["split"] == found[0]["split"]
    assert [row["split"] for row in found[11:]] == ["train", "train"]


def test_only_sentences_of_three_words_are_compared() -> None:
    texts = pa.chunked_array([["Ja TAK", "Nej det gør", None]])
    assert sentences_of(texts, str.lower).to_pylist() == [None, "nej det gør", None]


SENTENCES = [
    ("train", "Det er sætning 5.", None, SHARED_SENTENCE),
    ("train", "det er en anden", None, SHARED_SENTENCE),
    ("train", "det er sætning seks", None, None),
    ("train", "ja tak", None, None),
    ("train", "øl til 5 kroner", None, None),  # of two texts under the profile coral
    ("test", "Øl til 5 kr.", None, None),
    ("train", "den er ude", None, None),
    ("train", "det er en anden", "rejected", "rejected"),
    ("test", "det er sætning fem", None, None),
    ("test", "ja tak", None, None),
    ("test", "den er ude", "rejected", "rejected"),
    ("dev", "Det er en anden!", None, None),
    ("dev", "det er sætning fem", None, None),
]
"""Split, text, and reasons before and after."""


@pytest.mark.parametrize("drop", [True, False])
def test_rows_of_train_whose_sentence_is_held_out_are_left_out(*, drop: bool) -> None:
    rows = [
        {"split": split, "text": text, "refused": before} for split, text, before, _ in SENTENCES
    ]
    found = [row["refused"] for row in divided(rows, drop_shared_sentences=drop)]
    assert found == [row[3 if drop else 2] for row in SENTENCES]
