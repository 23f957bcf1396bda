"""The estimate is a probability distribution, as KenLM reads it."""

import itertools
from pathlib import Path
from random import Random

import kenlm
import numpy as np
import pytest

from danish_asr.decoding import ngram_estimate
from danish_asr.decoding.ngram_estimate import BEGIN, END, SPECIAL, estimate, write_arpa

SENTENCES = [
    [Random(seed).choice("abcdefgh") for seed in range(begin, begin + 2 + begin % 5)]
    for begin in range(0, 900, 3)
]


def build(file: Path, order: int, sentences: list[list[str]]) -> kenlm.Model:
    numbers = {word: number for number, word in enumerate(SPECIAL)}
    tokens: list[int] = []
    for words in sentences:
        own = [numbers.setdefault(word, len(numbers)) for word in words]
        tokens += [BEGIN, *own, END]
    orders = estimate(np.array(tokens), len(numbers), order)
    with file.open("wb") as stream:
        write_arpa(stream, orders, list(numbers))
    config = kenlm.Config()
    config.show_progress = False
    return kenlm.Model(str(file), config)


@pytest.mark.parametrize("order", [2, 3, 5])
def test_probabilities_after_any_context_sum_to_one(tmp_path: Path, order: int) -> None:
    model = build(tmp_path / "lm.arpa", order, SENTENCES)
    assert model.order == order
    for context in itertools.product("abx", repeat=order - 1):
        for begins in (True, False):
            state, after = kenlm.State(), kenlm.State()
            (model.BeginSentenceWrite if begins else model.NullContextWrite)(state)
            for word in context:
                model.BaseScore(state, word, after)
                state, after = after, kenlm.State()
            scores = [model.BaseScore(state, word, kenlm.State()) for word in [*"abcdefgh", "</s>"]]
            unknown = model.BaseScore(state, "x", kenlm.State())
            assert sum(10**score for score in [*scores, unknown]) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("times", "discounts"),
    [
        ([8, 4, 2, 1], [0, 0.5, 1.25, 2]),  # y is 0.5
        ([9, 3, 2, 1], [0, 0.6, 0.8, 1.8]),  # y is 0.6
        ([8, 4, 2, 0], [0, 0.5, 1, 1.5]),  # no n-gram is there 4 times
        ([2, 1, 4, 1], [0, 0.5, 1, 1.5]),  # the second one would be -4
    ],
)
def test_discounts_come_from_how_many_counts_are_1_to_4(
    times: list[int], discounts: list[float]
) -> None:
    counts = np.repeat([1, 2, 3, 4], times)
    assert ngram_estimate._discounts(counts) == pytest.approx(discounts)


def test_it_equals_a_calculation_by_hand(tmp_path: Path) -> None:
    model = build(tmp_path / "lm.arpa", 2, [["a", "b"], ["a", "a", "b"]])
    # Too few n-grams for discounts of their own, so 0.5, 1 and 1.5. Words before: a: <s>, a;
    # b: a; </s>: b. Unigrams: discounted adjusted counts 1, 0.5, 0.5 of 4, the rest is uniform
    # over a, b, </s>, <unk>.
    p_b = (1 - 0.5) / 4 + (1 + 0.5 + 0.5) / 4 / 4
    # After "a": once a, twice b; discounted 0.5 and 1 of 3.
    p_b_after_a = (2 - 1) / 3 + (0.5 + 1) / 3 * p_b
    state, after = kenlm.State(), kenlm.State()
    model.NullContextWrite(state)
    model.BaseScore(state, "a", after)
    assert 10 ** model.BaseScore(state, "b", kenlm.State()) == pytest.approx(p_b, rel=1e-4)
    assert 10 ** model.BaseScore(after, "b", kenlm.State()) == pytest.approx(p_b_after_a, rel=1e-4)
