"""Error counts, rates and alignments."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import jiwer
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.metrics import (
    DENOMINATORS,
    Counts,
    ErrorCounts,
    align_counts,
    align_words,
    compute_cer,
    compute_wer,
    count_errors,
)

# Few distinct words, so that alignments have many ties, and every kind of space that jiwer splits.
VOCABULARY = ["en", "et", "æble", "øl", "å", "rødgrød", "Ål", "21", "fløde-is", "ë"]
SPACES = [" ", " ", " ", "  ", "\t", "\n ", ""]
TEXTS = st.lists(st.sampled_from([*VOCABULARY, *SPACES]), max_size=12).map("".join)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3)
WORDS = st.lists(st.sampled_from(["rød", "grød", "rødgrød", "med", "fløde", "å"]), max_size=8)


def test_counts_and_rates_equal_jiwer_on_ten_thousand_danish_like_pairs() -> None:
    random = Random(20)
    for _ in range(10_000):
        _assert_equals_jiwer([(_text(random), _text(random)) for _ in range(random.randint(1, 2))])


def _text(random: Random) -> str:
    words = range(random.randrange(9))
    return "".join(random.choice(VOCABULARY) + random.choice(SPACES) for _ in words)


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1))
def test_counts_and_rates_equal_jiwer_on_any_text(pairs: list[tuple[str, str]]) -> None:
    _assert_equals_jiwer(pairs)


def _assert_equals_jiwer(pairs: Sequence[tuple[str, str]]) -> None:
    references, hypotheses = map(list, zip(*pairs, strict=True))
    total = sum((count_errors(*pair) for pair in pairs), ErrorCounts())
    words = jiwer.process_words(references, hypotheses)
    characters = jiwer.process_characters(references, hypotheses)
    assert total.words == _counts(words)
    assert total.characters == _counts(characters)
    assert total.wer() == words.wer
    assert total.cer() == characters.cer


def _counts(output: jiwer.WordOutput | jiwer.CharacterOutput) -> Counts:
    return Counts(output.hits, output.substitutions, output.deletions, output.insertions)


@given(PAIRS, PAIRS)
def test_counts_of_sets_of_rows_add_up(
    one: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    first, second, both = (
        sum((count_errors(*pair) for pair in pairs), ErrorCounts())
        for pairs in (one, other, one + other)
    )
    assert first + second == both
    assert ErrorCounts.from_tuple(both.to_tuple()) == both


@given(WORDS, WORDS)
def test_an_alignment_has_both_sides_in_order_and_exactly_the_counted_errors(
    reference: list[str], hypothesis: list[str]
) -> None:
    aligned = align_words(reference, hypothesis)
    assert [word.reference for word in aligned if word.reference] == reference
    assert [word.hypothesis for word in aligned if word.hypothesis] == hypothesis
    tags = [word.tag for word in aligned]
    expected = align_counts(reference, hypothesis)
    assert expected == Counts(
        *(tags.count(tag) for tag in ("hit", "substitution", "deletion", "insertion"))
    )


@given(TEXTS, TEXTS)
def test_the_coral_rate_is_at_most_one_and_at_most_the_standard_rate(
    reference: str, hypothesis: str
) -> None:
    words = count_errors(reference, hypothesis).words
    assert words.rate("coral") <= min(1.0, words.rate("standard"))


def test_the_two_denominators_of_one_example() -> None:
    counts = count_errors("det er koldt", "det er ret så koldt").words
    assert counts == Counts(hits=3, insertions=2)
    assert [counts.rate(name) for name in DENOMINATORS] == pytest.approx([2 / 3, 2 / 5])


def test_compute_functions_take_predictions_first_and_return_fractions() -> None:
    assert compute_wer(["det er"], ["det er koldt her"]) == pytest.approx(0.5)
    assert compute_cer(["ab"], ["abcd"]) == pytest.approx(0.5)
    assert compute_wer(["", ""], ["", ""]) == compute_cer([], []) == 0
    assert compute_wer([""], ["a"]) == 1


@pytest.mark.parametrize("kind", [pd.Series, np.array, tuple, iter])
def test_compute_functions_take_any_iterable_of_strings(kind: Callable[[list[str]], Any]) -> None:
    frame = pd.DataFrame({"said": ["det er", "ja"], "text": ["det er koldt", "ja"]}, index=[7, 3])
    predictions, references = (frame[name].tolist() for name in ("said", "text"))
    assert compute_wer(kind(predictions), kind(references)) == pytest.approx(1 / 4)
    assert compute_cer(references=kind(references), predictions=kind(predictions)) > 0
    assert compute_wer(frame.said, frame.text) == pytest.approx(1 / 4)


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        (["a"], ["a", "b"], "1 predictions for 2 references"),
        ("abc", ["abc"], "predictions: expected a list of texts"),
        (["a"], "a", "references: expected a list of texts"),
        (["a", None], ["a", "b"], r"predictions\[1\]: expected a string, found None"),
        (["a"], pd.Series([float("nan")]), r"references\[0\]: expected a string, found nan"),
    ],
)
def test_compute_functions_name_what_they_cannot_compare(
    predictions: Any, references: Any, message: str
) -> None:
    for compute in (compute_wer, compute_cer):
        with pytest.raises((TypeError, ValueError), match=message):
            compute(predictions, references)
