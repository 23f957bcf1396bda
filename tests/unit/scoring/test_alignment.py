"""Word alignments."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from danish_asr.metrics import align_counts
from danish_asr.scoring.alignment import AlignedWord, align_words

WORDS = st.lists(st.sampled_from(["rød", "grød", "rødgrød", "med", "fløde", "å"]), max_size=8)


@given(WORDS, WORDS)
def test_an_alignment_holds_both_sides_in_order_and_the_counted_errors(
    reference: list[str], hypothesis: list[str]
) -> None:
    aligned = align_words(reference, hypothesis)
    assert [word.reference for word in aligned if word.reference] == reference
    assert [word.hypothesis for word in aligned if word.hypothesis] == hypothesis
    errors = [word for word in aligned if word.tag != "hit"]
    assert len(errors) == align_counts(reference, hypothesis).errors
    assert all(word.reference == word.hypothesis for word in aligned if word.tag == "hit")


@given(WORDS, st.integers(min_value=0, max_value=60))
def test_a_very_long_alignment_has_the_same_errors(words: list[str], repeats: int) -> None:
    reference, hypothesis = words * repeats, [*words[1:], "å"] * repeats
    errors = [word for word in align_words(reference, hypothesis) if word.tag != "hit"]
    assert len(errors) == align_counts(reference, hypothesis).errors


def test_like_words_stand_against_like_words() -> None:
    aligned = align_words(["den", "røde", "hund"], ["den", "røte", "hunt", "løb"])
    assert [(word.reference, word.hypothesis) for word in aligned] == [
        ("den", "den"),
        ("røde", "røte"),
        ("hund", "hunt"),
        ("", "løb"),
    ]


def test_an_alignment_says_what_stands_against_what() -> None:
    assert align_words(["det", "er", "koldt"], ["det", "var", "så", "koldt"]) == [
        AlignedWord("hit", "det", "det"),
        AlignedWord("substitution", "er", "var"),
        AlignedWord("insertion", "", "så"),
        AlignedWord("hit", "koldt", "koldt"),
    ]
