from pathlib import Path
from typing import Any

import pytest
from fairseq2.data.tokenizers import Tokenizer

from danish_asr.base.errors import ConfigError
from danish_asr.decoding.beam import BeamDecoder, symbols
from danish_asr.decoding.beam_settings import search_settings
from tests.decoding_inputs import ARPA, logits_of


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
