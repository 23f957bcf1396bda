import numpy as np
import pytest
from fairseq2.data.tokenizers import Tokenizer
from torch import Tensor

from danish_asr.base.errors import AlignmentError
from danish_asr.decoding import alignment
from danish_asr.decoding.alignment import SpokenText
from danish_asr.decoding.transcript import Word
from tests.decoding_inputs import SURE, log_probs_of


def align(log_probs: Tensor, text: str, tokenizer: Tokenizer) -> list[Word]:
    return SpokenText.of(text, tokenizer).align(log_probs)


def test_words_have_the_times_of_their_symbols(tokenizer: Tokenizer) -> None:
    path = "____h_ee_j__ __d_a_g____"
    words = SpokenText.of("hej dag", tokenizer).align(log_probs_of(path, tokenizer), offset=100.1)
    # The symbols are in the frames 4 to 9 and 15 to 19; each end takes at most 2 of the blanks.
    assert [word.text for word in words] == ["hej", "dag"]
    assert [(word.start, word.end) for word in words] == [(100.14, 100.34), (100.36, 100.54)]
    for word in words:  # three letters and the space
        assert word.confidence == pytest.approx(SURE**4)


def test_words_stay_within_the_audio_and_do_not_overlap(tokenizer: Tokenizer) -> None:
    first, second = align(log_probs_of("h_e_j_ dag", tokenizer), "hej dag", tokenizer)
    assert np.allclose([first.start, first.end, second.start, second.end], [0, 0.12, 0.12, 0.2])


def test_a_word_that_was_not_said_has_a_low_confidence(tokenizer: Tokenizer) -> None:
    said, other = align(log_probs_of("_h_e_j_ _m_e_d_", tokenizer), "hej dig", tokenizer)
    assert said.confidence is not None
    assert other.confidence is not None
    assert other.confidence < 0.1
    assert said.confidence > 0.5


def test_what_cannot_be_a_text_of_the_speech_is_refused(
    monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer
) -> None:
    log_probs = log_probs_of("hej", tokenizer)
    with pytest.raises(AlignmentError, match="hej ж"):
        align(log_probs, "hej ж", tokenizer)
    with pytest.raises(AlignmentError, match="needs at least"):
        align(log_probs, "hej dag", tokenizer)
    monkeypatch.setattr(alignment, "MOST_STATES", 20)
    with pytest.raises(AlignmentError, match="too long"):
        align(log_probs, "hej", tokenizer)


def test_the_columns_of_a_text_are_enough_to_align_its_words(tokenizer: Tokenizer) -> None:
    log_probs = log_probs_of("_h_e_j_ _d_a_g_", tokenizer)
    text = SpokenText.of("hej dag", tokenizer)
    symbols = text.symbols()
    assert len(symbols) < log_probs.shape[1]
    assert text.among(symbols).align(log_probs[:, symbols]) == text.align(log_probs)
