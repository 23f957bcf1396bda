"""The estimate is a probability distribution, as KenLM reads it."""

import itertools
from pathlib import Path
from random import Random

import kenlm
import numpy as np
import pytest

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
