import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor

from danish_asr.decoding.beam import BeamDecoder, symbols

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
