"""Beam search finds the best text, with and without a language model."""

import json
import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor

from danish_asr.base.errors import ConfigError
from danish_asr.decoding.beam import BeamDecoder, symbols
from danish_asr.decoding.beam_settings import search_settings
from tests.builders import arpa_text
from tests.documented import script
from tests.foreign_code import NAME, ForeignCode

ARPA = arpa_text("en", "ko")

EXACT: dict[str, Any] = {"beam": 10_000, "beam_prune": -1e9, "symbol_prune": -30.0}


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    file = tmp_path / "two.arpa"
    file.write_text(ARPA, encoding="utf-8")
    return file


def logits_of(text: str, tokenizer: Tokenizer, seed: int = 0, noise: float = 1.0) -> Tensor:
    """Log-probabilities that favour a text, two frames per character: (S, V)."""
    labels = symbols(tokenizer)
    generator = torch.Generator().manual_seed(seed)
    logits = noise * torch.randn(2 * len(text), len(labels), generator=generator)
    for at, character in enumerate(text):
        logits[2 * at, labels.index(character)] += 4
        logits[2 * at + 1, 0] += 4
    logits[:, [index for index, label in enumerate(labels) if label is None]] = -1e4
    return logits.log_softmax(dim=-1)


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


def test_a_language_model_decides_where_the_model_hesitates(
    tokenizer: Tokenizer, arpa: Path
) -> None:
    logits = logits_of("en ko", tokenizer, noise=0)
    logits[-2, symbols(tokenizer).index("å")] += 4.5
    assert BeamDecoder(tokenizer)([logits]) == ["en kå"]
    assert BeamDecoder(tokenizer, arpa)([logits]) == ["en ko"]


def test_words_that_the_language_model_lacks_remain_possible(
    tokenizer: Tokenizer, arpa: Path
) -> None:
    logits = logits_of("en malkeko", tokenizer, noise=0)
    logits *= 4
    assert BeamDecoder(tokenizer, arpa)([logits]) == ["en malkeko"]


def test_hotwords_decide_where_the_model_hesitates(tokenizer: Tokenizer, tmp_path: Path) -> None:
    logits = logits_of("en ko", tokenizer, noise=0)
    logits[-2, symbols(tokenizer).index("å")] = 3.5
    words = tmp_path / "words.txt"
    words.write_text("Kå\n\n", encoding="utf-8")
    cases: list[dict[str, Any]] = [
        {"hotwords": ["kå"]},
        {"hotwords": words, "text_profile": "coral"},
    ]
    for case in cases:
        decoder = BeamDecoder(tokenizer, hotword_weight=2.0, **case)
        assert decoder([logits]) == ["en kå"]
    with pytest.raises(ConfigError, match=r"'Kå'.*lacks: K"):
        BeamDecoder(tokenizer, hotwords=words)


def test_a_language_model_names_no_code_for_hotwords(
    tokenizer: Tokenizer, arpa: Path, foreign_code: ForeignCode
) -> None:
    arpa.with_name("lm.json").write_text(json.dumps({"text_profile": NAME}))
    assert BeamDecoder(tokenizer, arpa).search_settings.hotwords == ()
    with pytest.raises(ConfigError, match=r"(?s)lm\.json.*decoder\.config\.text_profile="):
        BeamDecoder(tokenizer, arpa, hotwords=["Kå"])
    assert not foreign_code.ran
    named = BeamDecoder(tokenizer, arpa, hotwords=["Kå"], text_profile="coral")
    assert named.search_settings.hotwords == ("kå",)
    arpa.with_name("lm.json").write_text(json.dumps({"text_profile": "coral"}))
    of_file = BeamDecoder(tokenizer, arpa, hotwords=["Kå"])
    assert of_file.search_settings.hotwords == ("kå",)


def test_several_texts_come_with_the_best_first(tokenizer: Tokenizer) -> None:
    log_probs = logits_of("en ko", tokenizer)
    decoder = BeamDecoder(tokenizer)
    (texts,) = decoder.alternatives([log_probs], 4)
    assert [texts[0].text] == decoder([log_probs])
    assert len({own.text for own in texts}) == 4
    scores = [own.score for own in texts]
    assert scores == sorted(scores, reverse=True)
    assert decoder.alternatives([log_probs[:0]], 1)[0][0].text == ""


def test_the_documented_rescoring_chooses_among_them(tokenizer: Tokenizer) -> None:
    code: dict[str, Any] = {}
    exec(script("docs/howto/extend.md", "my_rescoring.py"), code)  # noqa: S102
    logits = logits_of("a ko", tokenizer, noise=0)
    space, letter = (symbols(tokenizer).index(name) for name in " r")
    logits[2, letter] = logits[2, space] - 0.1  # "ar", nearly as probable
    assert BeamDecoder(tokenizer)([logits]) == ["a ko"]
    rescored = code["Rescored"](tokenizer, weight=20.0)([logits])
    assert all(len(word) > 1 for word in rescored[0].split())


def test_processes_give_the_texts_of_one(tokenizer: Tokenizer, arpa: Path) -> None:
    lengths = [10, 0, 10, 4, 1, 10]
    rows = [logits_of("en ko", tokenizer, seed, 2.0)[:n] for seed, n in enumerate(lengths)]
    alone = BeamDecoder(tokenizer, arpa, workers=1)(rows)
    assert alone[1] == ""
    assert BeamDecoder(tokenizer, arpa, workers=2)(rows) == alone
    assert [BeamDecoder(tokenizer, arpa)([row])[0] for row in rows] == alone


def test_settings_beside_the_language_model_are_taken(tokenizer: Tokenizer, arpa: Path) -> None:
    logits = logits_of("en ko", tokenizer, noise=0)
    logits[-2, symbols(tokenizer).index("å")] += 4.5
    settings = arpa.with_name("lm.json")
    settings.write_text('{"alpha": 0, "beta": 0}')
    assert BeamDecoder(tokenizer, arpa.parent, unknown=0)([logits]) == ["en kå"]
    assert BeamDecoder(tokenizer, arpa.parent, alpha=0.5, beta=1.5)([logits]) == ["en ko"]


def test_the_settings_identify_the_language_model(tokenizer: Tokenizer, arpa: Path) -> None:
    arpa.with_name("lm.json").write_text('{"held_out_sentences": 0}')
    before = BeamDecoder(tokenizer, arpa).settings
    assert before["held_out_sentences"] == 0
    arpa.write_text(ARPA.replace("-2.0", "-3.0"), encoding="utf-8")
    assert BeamDecoder(tokenizer, arpa).settings != before


@pytest.mark.parametrize(
    "config",
    [
        {"alpha": -1},
        {"beam": 0},
        {"beam": 2.5},
        {"unknown": 1},
        {"beta": float("nan")},
        {"lm": 3},
        {"bem": 5},
    ],
    ids=str,
)
def test_an_impossible_value_is_refused_with_its_key(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"decoder\.config\.{next(iter(config))}"):
        search_settings(config)
