"""Beam search finds the best text, with and without a language model."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fairseq2.data.tokenizers import Tokenizer

from danish_asr import decoding
from danish_asr.base.errors import ConfigError, LanguageModelError, MissingExtraError
from danish_asr.decoding import beam
from danish_asr.decoding.beam import BeamDecoder, symbols
from danish_asr.decoding.ngram import find_language_model
from tests.decoding_inputs import logits_of
from tests.documented import script
from tests.foreign_code import NAME, ForeignCode


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
    words.write_text("Kå\n\n", encoding="utf-8-sig")
    cases: list[dict[str, Any]] = [
        {"hotwords": ["kå"]},
        {"hotwords": words, "text_profile": "coral"},
    ]
    for case in cases:
        decoder = BeamDecoder(tokenizer, hotword_weight=2.0, **case)
        assert decoder([logits]) == ["en kå"]
    with pytest.raises(ConfigError, match=r"'Kå'.*lacks: K"):
        BeamDecoder(tokenizer, hotwords=words)


def test_a_language_model_of_words_that_the_model_cannot_write_is_refused(
    tokenizer: Tokenizer, arpa: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = find_language_model(arpa).words()
    file = arpa.with_name("unigrams.txt")
    known, unknown = [*words], [word.upper() for word in words]
    file.write_text("\n".join([*known, *unknown]), encoding="utf-8")
    BeamDecoder(tokenizer, arpa)
    assert f"{len(known)} of the {2 * len(known)} words" in capsys.readouterr().err
    file.write_text("\n".join([*known, *unknown, "XX"]), encoding="utf-8")
    with pytest.raises(LanguageModelError, match="lm build"):
        BeamDecoder(tokenizer, arpa)
    file.write_text("\n".join(known), encoding="utf-8-sig")
    BeamDecoder(tokenizer, arpa)
    assert not capsys.readouterr().err


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


def test_processes_give_the_texts_of_one(
    tokenizer: Tokenizer, arpa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [10, 0, 10, 4, 1, 10]
    rows = [logits_of("en ko", tokenizer, seed, 2.0)[:n] for seed, n in enumerate(lengths)]
    alone = BeamDecoder(tokenizer, arpa, workers=1)(rows)
    assert alone[1] == ""
    assert BeamDecoder(tokenizer, arpa, workers=2)(rows) == alone
    assert [BeamDecoder(tokenizer, arpa)([row])[0] for row in rows] == alone

    def start(_workers: int) -> None:
        raise AssertionError("a process")

    monkeypatch.setattr(beam, "WorkerPool", start)
    BeamDecoder(tokenizer, arpa, workers=1)(rows)
    BeamDecoder(tokenizer, arpa, workers=2)(rows[:1])
    BeamDecoder(tokenizer, arpa)(rows)  # it takes less than the start of processes
    with pytest.raises(AssertionError, match="a process"):
        BeamDecoder(tokenizer, arpa, workers=2)(rows[:2])


def test_the_extra_of_the_search_is_named(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(decoding, "beam_search", raising=False)
    monkeypatch.setitem(sys.modules, "danish_asr.decoding.beam_search", None)
    with pytest.raises(MissingExtraError, match="lm"):
        BeamDecoder(tokenizer)
