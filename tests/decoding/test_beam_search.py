import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor

from danish_asr.base.errors import LanguageModelError
from danish_asr.decoding.beam import BeamDecoder, symbols
from danish_asr.decoding.beam_search import NgramScorer, load
from danish_asr.decoding.beam_settings import search_settings
from tests.decoding_inputs import ARPA

EXACT: dict[str, Any] = {"beam": 10_000, "beam_prune": -1e9, "symbol_prune": -30.0}


def probabilities(log_probs: Tensor, labels: Sequence[str | None]) -> dict[str, float]:
    """The probability of each text, summed over all its alignments."""
    truth: dict[str, float] = {}
    usable = [index for index, label in enumerate(labels) if label is not None]
    for path in product(usable, repeat=len(log_probs)):
        merged = [s for at, s in enumerate(path) if at == 0 or s != path[at - 1]]
        text = " ".join("".join(str(labels[symbol]) for symbol in merged).split())
        p = math.exp(sum(float(log_probs[at, symbol]) for at, symbol in enumerate(path)))
        truth[text] = truth.get(text, 0.0) + p
    return truth


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_the_most_probable_text_of_short_inputs(tokenizer: Tokenizer, seed: int) -> None:
    labels = symbols(tokenizer)
    few = {0, labels.index(" "), labels.index("a"), labels.index("e")}
    logits = torch.randn(6, len(labels), generator=torch.Generator().manual_seed(seed))
    logits[:, [index for index in range(len(labels)) if index not in few]] = -1e4
    truth = probabilities(
        logits.log_softmax(-1), [x if i in few else None for i, x in enumerate(labels)]
    )
    (text,) = BeamDecoder(tokenizer, **EXACT)([logits.log_softmax(-1)])
    assert truth[text] == pytest.approx(max(truth.values()), rel=1e-5)


@pytest.mark.parametrize("prune", [{"beam": 1}, {"symbol_prune": -0.7}])
def test_what_is_pruned_is_not_found(tokenizer: Tokenizer, prune: dict[str, Any]) -> None:
    """Of 2 frames 'a' is in no best path, but in the most alignments."""
    probabilities = torch.full((2, len(symbols(tokenizer))), 1e-9)
    probabilities[:, 0], probabilities[:, symbols(tokenizer).index("a")] = 0.6, 0.4
    frames = [probabilities.log()]
    assert BeamDecoder(tokenizer, **EXACT)(frames) == ["a"]
    assert BeamDecoder(tokenizer, **EXACT | prune)(frames) != ["a"]


def test_a_word_costs_what_the_language_model_says_and_more_if_it_is_unknown(arpa: Path) -> None:
    settings = search_settings({"lm": arpa, "alpha": 0.5, "beta": 1.5})
    scorer = NgramScorer(replace(settings, hotwords=("hest og vogn",)))
    begin = scorer.get_start_state()
    _, after_en = scorer.score(begin, "en")
    for state, word, is_last, log10 in (
        (begin, "en", False, -0.1),
        (after_en, "ko", False, -0.1),
        (after_en, "ko", True, -0.2),  # and the end of the sentence
        (begin, "malkeko", False, -0.3 - 2 - 10),
        (begin, "vogn", False, -0.3 - 2),
    ):
        score, _ = scorer.score(state, word, is_last)
        assert score == pytest.approx(0.5 * log10 * math.log(10) + 1.5)
    beginnings = {"e": 0, "ko": 0, "x": -10, "malkeko": -10 * 7 / 6}
    scores = {text: scorer.score_partial_token(text) for text in beginnings}
    assert scores == pytest.approx(beginnings)
    assert scorer.order == 2


def test_a_file_without_unknown_words_forbids_none_and_a_broken_one_is_refused(arpa: Path) -> None:
    arpa.write_text(ARPA.replace("-2.0\t<unk>\n", "").replace("1=5", "1=4"), encoding="utf-8")
    scorer = NgramScorer(search_settings({"lm": arpa, "alpha": 1.0, "beta": 0.0}))
    score, _ = scorer.score(scorer.get_start_state(), "malkeko")
    assert score == pytest.approx((-10 - 10) * math.log(10))
    broken = arpa.with_name("broken.arpa")
    broken.write_text("no language model")
    with pytest.raises(LanguageModelError, match=str(broken)):
        load(str(broken))
