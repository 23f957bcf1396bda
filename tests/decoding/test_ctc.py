"""The loss of a reference and the confidence in a hypothesis, against all alignments by hand."""

from itertools import groupby, product
from math import exp, log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor

from danish_asr.corpus.cards import build_char_tokenizer
from danish_asr.decoding.ctc import BLANK, GreedyDecoder, confidences, ctc_nats, per_token
from danish_asr.recipe.models.cards import open_tokenizer
from tests.decoding_inputs import log_probs_of

LOG_PROBS = torch.randn(5, 4, generator=torch.manual_seed(0)).log_softmax(dim=-1)


@pytest.mark.parametrize("text", [[1, 2], [3], [2, 2], []])
def test_the_loss_is_that_of_all_alignments_per_token(text: list[int]) -> None:
    probability = sum(
        exp(sum(float(LOG_PROBS[frame, symbol]) for frame, symbol in enumerate(path)))
        for path in product(range(4), repeat=5)
        if [symbol for symbol, _ in groupby(path) if symbol != BLANK] == text
    )
    targets = [torch.tensor(text, dtype=torch.int64)]
    (loss,) = per_token(ctc_nats([LOG_PROBS], targets), targets)
    assert loss == pytest.approx(-log(probability) / max(len(text), 1), abs=1e-4)


def test_a_text_that_needs_more_frames_has_no_loss() -> None:
    texts = [torch.tensor([1, 2]), torch.tensor([1, 1, 1]), torch.tensor([1])]
    (alone,) = ctc_nats([LOG_PROBS], texts[:1])
    nats = ctc_nats([LOG_PROBS, LOG_PROBS[:4], LOG_PROBS[:0]], texts)
    assert nats.tolist() == [alone, torch.inf, torch.inf]
    assert ctc_nats([LOG_PROBS[:0]], [texts[0][:0]]).tolist() == [0]
    assert per_token(nats, texts)[1:] == [None, None]
    assert len(ctc_nats([], [])) == 0


def test_the_greedy_text_has_no_repeats_blanks_and_special_symbols(tokenizer: Tokenizer) -> None:
    rows = [log_probs_of(path, tokenizer) for path in ("_hh_e__jj", "al_le", "___", "ab_c")]
    rows[3][2, tokenizer.vocab_info.eos_idx] = 0.0
    assert GreedyDecoder(tokenizer)(rows) == ["hej", "alle", "", "abc"]
    assert GreedyDecoder(tokenizer)([]) == []
    plain: Any = SimpleNamespace(create_decoder=lambda: Tensor.tolist)  # has no special symbols
    path = torch.tensor([BLANK, 1, 1, BLANK, 1, 2, BLANK])
    (text,) = map(str, GreedyDecoder(plain)([torch.eye(3)[path]]))
    assert text == "[1, 1, 2]"


def test_confidence_is_high_where_the_model_is_sure_of_its_text(tmp_path: Path) -> None:
    model = tmp_path / "letters.model"
    model.write_bytes(build_char_tokenizer("abc"))
    tokenizer = open_tokenizer(model)
    best = torch.tensor([*tokenizer.create_encoder()("ab c"), BLANK])
    logits = torch.zeros(len(best), tokenizer.vocab_info.size)
    logits[torch.arange(len(best)), best] = 9.0
    both = [values.log_softmax(dim=-1) for values in (logits, logits / 9)]
    texts = GreedyDecoder(tokenizer)(both)
    sure, unsure = confidences(both, texts, tokenizer)
    assert texts == ["ab c", "ab c"]
    assert sure is not None and sure > 0.95  # noqa: PT018
    assert unsure is not None and 0 < unsure < 0.5  # noqa: PT018
    assert confidences(both[:1], [""], tokenizer) == [pytest.approx(0)]
