"""Error counts and rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.errors import ConfigError
from danish_asr.metrics import (
    Counts,
    ErrorCounts,
    compute_cer,
    compute_wer,
    count_errors,
    denominator_named,
)

Compute = Callable[[list[str], list[str]], float]

# Few distinct words, so that alignments have many ties, and every kind of gap that jiwer knows.
VOCABULARY = ["en", "et", "æble", "øl", "å", "rødgrød", "Ål", "21", "fløde-is", "ë"]
GAPS = [" ", " ", " ", "  ", "\t", "\n ", ""]
TEXTS = st.lists(st.sampled_from([*VOCABULARY, *GAPS]), max_size=12).map("".join)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3)


def test_counts_and_rates_equal_jiwer_on_ten_thousand_danish_like_pairs() -> None:
    random = Random(20)
    for _ in range(10_000):
        _assert_equals_jiwer([(_text(random), _text(random)) for _ in range(random.randint(1, 2))])


def _text(random: Random) -> str:
    return "".join(
        random.choice(VOCABULARY) + random.choice(GAPS) for _ in range(random.randrange(9))
    )


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


@given(PAIRS, st.data())
def test_counts_add_up_over_any_split_of_the_rows(
    pairs: list[tuple[str, str]], data: st.DataObject
) -> None:
    counts = [count_errors(*pair) for pair in pairs]
    side = data.draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts)))
    left = sum((c for c, first in zip(counts, side, strict=True) if first), ErrorCounts())
    right = sum((c for c, first in zip(counts, side, strict=True) if not first), ErrorCounts())
    assert left + right == sum(counts, ErrorCounts())


@given(TEXTS, TEXTS)
def test_the_coral_rate_is_at_most_one_and_at_most_the_standard_rate(
    reference: str, hypothesis: str
) -> None:
    words = count_errors(reference, hypothesis).words
    assert words.rate("coral") <= min(1.0, words.rate("standard"))


def test_the_two_denominators_of_one_example() -> None:
    counts = count_errors("det er koldt", "det er ret så koldt").words
    assert counts == Counts(hits=3, insertions=2)
    assert counts.rate("standard") == pytest.approx(2 / 3)
    assert counts.rate("coral") == pytest.approx(2 / 5)


def test_compute_functions_take_predictions_first_and_return_fractions() -> None:
    assert compute_wer(["det er"], ["det er koldt her"]) == pytest.approx(0.5)
    assert compute_cer(["ab"], ["abcd"]) == pytest.approx(0.5)


@pytest.mark.parametrize("compute", [compute_wer, compute_cer])
def test_compute_functions_take_empty_texts_and_empty_lists(compute: Compute) -> None:
    assert compute(["", ""], ["", ""]) == 0
    assert compute([""], ["a"]) == 1
    assert compute([], []) == 0


def test_unpaired_lists_are_refused() -> None:
    with pytest.raises(ValueError, match="found 1 predictions and 2 references"):
        compute_wer(["a"], ["a", "b"])


def test_a_single_text_is_refused() -> None:
    with pytest.raises(TypeError, match="two lists"):
        compute_cer("abc", "abd")


def test_an_unknown_denominator_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected one of standard, coral; found 'jiwer'"):
        denominator_named("jiwer")
