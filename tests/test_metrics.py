"""Error counts, rates and alignments."""

from random import Random
from typing import Any, get_args

import jiwer
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.metrics import (
    Counts,
    Denominator,
    ErrorCounts,
    align_counts,
    align_words,
    compute_cer,
    compute_metrics,
    compute_wer,
    count_errors,
    metrics_by_group,
)

# Few distinct words, so that alignments have many ties, and every kind of space that jiwer splits.
VOCABULARY = ["en", "et", "æble", "øl", "å", "rødgrød", "Ål", "21", "fløde-is", "ë"]
SPACES = [" ", " ", " ", "  ", "\t", "\n ", ""]
WORDS = st.lists(st.sampled_from(["rød", "grød", "rødgrød", "med", "fløde", "å"]), max_size=8)


def test_counts_and_rates_equal_jiwer_on_two_thousand_danish_like_pairs() -> None:
    random = Random(20)
    for _ in range(2_000):
        pairs = [(_text(random), _text(random)) for _ in range(random.randint(1, 2))]
        references, hypotheses = map(list, zip(*pairs, strict=True))
        total = sum((count_errors(*pair) for pair in pairs), ErrorCounts())
        words = jiwer.process_words(references, hypotheses)
        characters = jiwer.process_characters(references, hypotheses)
        assert total == ErrorCounts(len(pairs), _counts(words), _counts(characters))
        assert (total.wer(), total.cer()) == (words.wer, characters.cer)


def _text(random: Random) -> str:
    words = range(random.randrange(9))
    return "".join(random.choice(VOCABULARY) + random.choice(SPACES) for _ in words)


def _counts(output: jiwer.WordOutput | jiwer.CharacterOutput) -> Counts:
    return Counts(output.hits, output.substitutions, output.deletions, output.insertions)


@given(WORDS, WORDS)
def test_an_alignment_has_both_sides_in_order_and_exactly_the_counted_errors(
    reference: list[str], hypothesis: list[str]
) -> None:
    aligned = align_words(reference, hypothesis)
    assert [word.reference for word in aligned if word.reference != ""] == reference
    assert [word.hypothesis for word in aligned if word.hypothesis != ""] == hypothesis
    tags = [word.tag for word in aligned]
    expected = align_counts(reference, hypothesis)
    assert expected == Counts(
        *(tags.count(tag) for tag in ("hit", "substitution", "deletion", "insertion"))
    )


@pytest.mark.parametrize(
    ("reference", "counts", "rates"),
    [
        ("det er koldt", Counts(hits=3, insertions=2), [2 / 3, 2 / 5]),
        ("", Counts(insertions=5), [5, 1]),
        (" \t\n ", Counts(insertions=5), [5, 1]),
    ],
)
def test_a_rate_is_over_the_reference_or_with_the_insertions(
    reference: str, counts: Counts, rates: list[float]
) -> None:
    found = count_errors(reference, "det er ret så koldt").words
    assert found == counts
    assert [found.rate(name) for name in get_args(Denominator)] == pytest.approx(rates)


def test_compute_functions_take_predictions_first_and_return_fractions() -> None:
    assert compute_wer(["det er"], ["det er koldt her"]) == pytest.approx(0.5)
    assert compute_cer(["ab"], ["abcd"]) == pytest.approx(0.5)
    assert compute_wer(["", ""], ["", ""]) == compute_cer([], []) == 0
    assert compute_metrics(pd.Series(["det er"]), ["det"]) == {"wer": 1.0, "cer": 1.0}


def test_rates_by_group_are_those_of_the_groups_pairs() -> None:
    predictions, references = ["ja", "nej", "ja ja", "ja"], ["ja"] * 4
    by_group = metrics_by_group(predictions, references, ["Fynsk", None, "Fynsk", float("nan")])
    assert by_group == {
        "Fynsk": compute_metrics(predictions[:3:2], references[:3:2]),
        None: compute_metrics(["nej", "ja"], ["ja", "ja"]),
    }
    with pytest.raises(ValueError, match="1 groups for 4 pairs"):
        metrics_by_group(predictions, references, ["Fynsk"])


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        (["a"], ["a", "b"], "1 predictions for 2 references"),
        ("abc", ["abc"], "expected lists of texts"),
        (pd.DataFrame({"text": ["a"]}), ["a"], "DataFrame"),
        (["a"], {"text": "a"}, "dict"),
        ({"a"}, ["a"], "set"),
        (["a"], pd.Series([float("nan")]), r"pair 0: expected two strings, found \(nan, 'a'\)"),
    ],
)
def test_compute_functions_name_what_they_cannot_compare(
    predictions: Any, references: Any, message: str
) -> None:
    for compute in (compute_wer, compute_cer, compute_metrics):
        with pytest.raises((TypeError, ValueError), match=message):
            compute(predictions, references)
