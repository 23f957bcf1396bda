"""Beam search finds the best text, with and without a language model."""

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq2.data.tokenizers import Tokenizer
from hypothesis import given
from hypothesis import strategies as st
from pyctcdecode.language_model import HotwordScorer
from torch import Tensor

from danish_asr.base.errors import ConfigError, LanguageModelError
from danish_asr.decoding import beam_search
from danish_asr.decoding.beam import BeamDecoder, symbols
from danish_asr.decoding.beam_search import Hotwords
from tests.builders import arpa_text

ARPA = arpa_text("en", "ko")

EXACT: dict[str, Any] = {"beam": 10_000, "beam_prune": -1e9, "symbol_prune": -30.0}


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    file = tmp_path / "two.arpa"
    file.write_text(ARPA, encoding="utf-8")
    return file


def logits_of(text: str, tokenizer: Tokenizer, seed: int = 0, noise: float = 1.0) -> Tensor:
    """Logits that favour a text, a frame for it and one for a blank per character: (S, V)."""
    labels = symbols(tokenizer)
    generator = torch.Generator().manual_seed(seed)
    logits = noise * torch.randn(2 * len(text), len(labels), generator=generator)
    for at, character in enumerate(text):
        logits[2 * at, labels.index(character)] += 4
        logits[2 * at + 1, 0] += 4
    logits[:, [index for index, label in enumerate(labels) if label is None]] = -1e4
    return logits


def probabilities(log_probs: Tensor, labels: Sequence[str | None]) -> dict[str, float]:
    """The probability of each text, summed over all its alignments."""
    found: dict[str, float] = {}
    usable = [index for index, label in enumerate(labels) if label is not None]
    for path in product(usable, repeat=len(log_probs)):
        merged = [s for at, s in enumerate(path) if at == 0 or s != path[at - 1]]
        text = " ".join("".join(str(labels[symbol]) for symbol in merged).split())
        p = math.exp(sum(float(log_probs[at, symbol]) for at, symbol in enumerate(path)))
        found[text] = found.get(text, 0.0) + p
    return found


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_the_most_probable_text_of_short_inputs(tokenizer: Tokenizer, seed: int) -> None:
    labels = symbols(tokenizer)
    few = {0, labels.index(" "), labels.index("a"), labels.index("e")}
    logits = torch.randn(6, len(labels), generator=torch.Generator().manual_seed(seed))
    logits[:, [index for index in range(len(labels)) if index not in few]] = -1e4
    truth = probabilities(
        logits.log_softmax(-1), [x if i in few else None for i, x in enumerate(labels)]
    )
    (text,) = BeamDecoder(tokenizer, **EXACT)(logits[None], [6])
    assert truth[text] == pytest.approx(max(truth.values()), rel=1e-5)


def test_a_language_model_decides_where_the_model_hesitates(
    tokenizer: Tokenizer, arpa: Path
) -> None:
    logits = logits_of("en ko", tokenizer, noise=0)[None]
    logits[0, -2, symbols(tokenizer).index("å")] += 4.5
    assert BeamDecoder(tokenizer)(logits, [10]) == ["en kå"]
    assert BeamDecoder(tokenizer, arpa)(logits, [10]) == ["en ko"]


def test_words_that_the_language_model_lacks_remain_possible(
    tokenizer: Tokenizer, arpa: Path
) -> None:
    logits = logits_of("en malkeko", tokenizer, noise=0)[None]
    logits *= 4
    assert BeamDecoder(tokenizer, arpa)(logits, [20]) == ["en malkeko"]


def test_hotwords_decide_where_the_model_hesitates(tokenizer: Tokenizer, tmp_path: Path) -> None:
    logits = logits_of("en ko", tokenizer, noise=0)[None]
    logits[0, -2, symbols(tokenizer).index("å")] = 3.5
    words = tmp_path / "words.txt"
    words.write_text("Kå\n\n", encoding="utf-8")
    cases: list[dict[str, Any]] = [
        {"hotwords": ["kå"]},
        {"hotwords": words, "text_profile": "coral"},
    ]
    for case in cases:
        decoder = BeamDecoder(tokenizer, hotword_weight=2.0, **case)
        assert decoder(logits, [10]) == ["en kå"]
    with pytest.raises(ConfigError, match=r"'Kå'.*lacks: K;"):
        BeamDecoder(tokenizer, hotwords=words)


@given(
    st.lists(st.text("abå ", max_size=6)), st.text("abå ", max_size=20), st.text("abå", max_size=4)
)
def test_hotwords_score_as_pyctcdecode_scores_them(words: list[str], text: str, part: str) -> None:
    ours = Hotwords.build_scorer(words, weight=2.0)
    theirs = HotwordScorer.build_scorer(words, weight=2.0)
    assert ours.score(text) == theirs.score(text)
    assert ours.score_partial_token(part) == theirs.score_partial_token(part)
    assert (part in ours) == (part in theirs) or not part


def test_several_texts_come_with_the_best_first(tokenizer: Tokenizer) -> None:
    logits = logits_of("en ko", tokenizer)[None]
    decoder = BeamDecoder(tokenizer, nbest=4)
    (found,) = decoder.alternatives(logits, [10])
    assert [found[0].text] == decoder(logits, [10]) == BeamDecoder(tokenizer)(logits, [10])
    assert len({each.text for each in found}) == 4
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert decoder.alternatives(logits[:, :0], [0])[0][0].text == ""


@pytest.mark.parametrize("hotwords", [(), ("kå",)])
@pytest.mark.parametrize("unknown", ["-2.0\t<unk>", "-2.0\t<other>", None])
def test_ctc_beam_decoder_gives_the_same_texts_and_scores(
    tokenizer: Tokenizer,
    arpa: Path,
    monkeypatch: pytest.MonkeyPatch,
    hotwords: tuple[str, ...],
    unknown: str | None,
) -> None:
    """Also without ``<unk>``, which KenLM forbids and `NgramScorer` does not."""
    pytest.importorskip("ctc_beam_decoder")
    if unknown:
        arpa.write_text(ARPA.replace("-2.0\t<unk>", unknown), encoding="utf-8")
    logits = torch.stack([logits_of("en ko", tokenizer, seed, noise=2) for seed in range(20)])
    lm = arpa if unknown else None
    decoder = BeamDecoder(tokenizer, lm, nbest=10, hotwords=hotwords, unknown=-1.0)
    native = decoder.alternatives(logits, [10] * 20)
    monkeypatch.setattr(beam_search, "_native_search", lambda _: None)
    plain = decoder.alternatives(logits, [10] * 20)
    assert [[each.text for each in texts] for texts in native] == [
        [each.text for each in texts] for texts in plain
    ]
    scores = [[each.score for each in texts] for texts in native]
    assert scores == [pytest.approx([each.score for each in texts]) for texts in plain]


def test_an_utterance_in_which_no_blank_is_likely_has_a_text(tokenizer: Tokenizer) -> None:
    """ctc-beam-decoder, where it is installed, needs a column for it."""
    logits = torch.full((1, 2, len(symbols(tokenizer))), -1e4)
    logits[0, 0, symbols(tokenizer).index("e")] = 0
    logits[0, 1, symbols(tokenizer).index("n")] = 0
    assert BeamDecoder(tokenizer)(logits, [2]) == ["en"]


def test_the_documented_rescoring_chooses_among_them(tokenizer: Tokenizer) -> None:
    code: dict[str, Any] = {}
    exec(script("docs/howto/extend.md", "my_rescoring.py"), code)  # noqa: S102
    logits = logits_of("a ko", tokenizer, noise=0)[None]
    logits[0, 2, symbols(tokenizer).index("r")] = 3.9  # "ar", nearly as probable
    logits[0, 2, symbols(tokenizer).index(" ")] = 4
    assert BeamDecoder(tokenizer)(logits, [8]) == ["a ko"]
    rescored = code["Rescored"](tokenizer, weight=20.0)(logits, [8])
    assert all(len(word) > 1 for word in rescored[0].split())


def test_hotwords_are_taken_once(tokenizer: Tokenizer) -> None:
    assert BeamDecoder(tokenizer, hotwords=["bo", "anna", "bo"]).search_settings.hotwords == (
        *("bo", "anna"),
    )


def test_the_layout_of_hugging_face_is_read_with_the_links_of_its_cache(
    tokenizer: Tokenizer, arpa: Path
) -> None:
    folder = arpa.parent / "model" / "language_model"
    folder.mkdir(parents=True)
    arpa.rename(arpa.with_name("blob"))
    (folder / "3gram.arpa").symlink_to(arpa.with_name("blob"))
    (folder / "attrs.json").write_text('{"alpha": 0.4, "beta": 1.0, "unk_score_offset": -10.0}')
    (folder / "unigrams.txt").write_text("en\nko\n")
    logits = logits_of("en ko", tokenizer, noise=0)[None]
    logits[0, -2, symbols(tokenizer).index("å")] += 4.5
    assert BeamDecoder(tokenizer, arpa.parent / "model")(logits, [10]) == ["en ko"]


def test_processes_give_the_texts_of_one(tokenizer: Tokenizer, arpa: Path) -> None:
    rows = [logits_of("en ko", tokenizer, seed, 2.0) for seed in range(6)]
    lengths = [10, 0, 10, 4, 1, 10]
    logits = torch.stack(rows)
    alone = BeamDecoder(tokenizer, arpa, workers=1)(logits, lengths)
    assert alone[1] == ""
    assert BeamDecoder(tokenizer, arpa, workers=2)(logits, lengths) == alone
    single = [
        BeamDecoder(tokenizer, arpa)(row[None, :n], [n])[0]
        for row, n in zip(rows, lengths, strict=True)
    ]
    assert single == alone


def test_settings_beside_the_language_model_are_taken(tokenizer: Tokenizer, arpa: Path) -> None:
    logits = logits_of("en ko", tokenizer, noise=0)[None]
    logits[0, -2, symbols(tokenizer).index("å")] += 4.5
    settings = arpa.with_name("lm.json")
    settings.write_text('{"alpha": 0, "beta": 0}')
    assert BeamDecoder(tokenizer, arpa.parent, unknown=0)(logits, [10]) == ["en kå"]
    assert BeamDecoder(tokenizer, arpa.parent, alpha=0.5, beta=1.5)(logits, [10]) == ["en ko"]


def test_a_language_model_in_capitals_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    file = tmp_path / "other.arpa"
    file.write_text(arpa_text("EN", "KO"), encoding="utf-8")
    with pytest.raises(LanguageModelError, match="cannot write 2 of its 2 words, such as EN"):
        BeamDecoder(tokenizer, file)


def test_the_settings_identify_the_language_model(tokenizer: Tokenizer, arpa: Path) -> None:
    arpa.with_name("lm.json").write_text('{"held_out_sentences": 0}')
    before = BeamDecoder(tokenizer, arpa).settings
    assert before["held_out_sentences"] == 0
    arpa.write_text(ARPA.replace("-2.0", "-3.0"), encoding="utf-8")
    assert BeamDecoder(tokenizer, arpa).settings != before
