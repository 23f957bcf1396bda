"""Punctuation by a model of Hugging Face whose weights give each token a fixed label."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForTokenClassification, BertTokenizerFast

from danish_asr.base.errors import DanishAsrError
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.punctuation import Punctuator

LABELS = ("OO", "OU", ",O", ".O", "?O", ".U")
TOKENS = {
    **dict.fromkeys(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hvordan", "går", "og"), "OO"),
    **dict.fromkeys(("godt", "##s"), ".O"),
    **dict.fromkeys(("hej", "é"), ",O"),
    "bo": "OU",
    "det": "?O",
    "ida": ".U",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("punctuation"), LABELS)


def save_model(folder: Path, labels: tuple[str, ...]) -> Path:
    (folder / "vocab.txt").write_text("\n".join(TOKENS), encoding="utf-8")
    vocabulary = str(folder / "vocab.txt")
    tokenizer = BertTokenizerFast(vocabulary, strip_accents=False)  # type: ignore[no-untyped-call]
    tokenizer.save_pretrained(folder)
    config = BertConfig(  # type: ignore[no-untyped-call]
        vocab_size=len(TOKENS),
        hidden_size=len(TOKENS),
        num_attention_heads=1,
        num_hidden_layers=0,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    model = BertForTokenClassification(config)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for parameter in model.bert.embeddings.parameters():
            parameter.zero_()
        model.bert.embeddings.LayerNorm.weight.fill_(1)
        torch.nn.init.eye_(model.bert.embeddings.word_embeddings.weight)
        model.classifier.weight.zero_()
        for token, label in enumerate(TOKENS.values()):
            model.classifier.weight[LABELS.index(label), token] = 1
    model.save_pretrained(folder)
    return folder


def said(*texts: str, speakers: str = "") -> Transcript:
    segments = [
        Segment(n, n + 1, [Word(word, n, n + 1, 0.5) for word in text.split()], speaker=speaker)
        for n, (text, speaker) in enumerate(zip(texts, speakers or [None] * 9, strict=False))
    ]
    return Transcript(9.0, segments)


def test_words_get_marks_and_capitals_and_keep_times_and_segments(folder: Path) -> None:
    before = said("hej bo", "hvordan går det", "godt og é")
    after = Punctuator(str(folder))(before)
    assert [segment.text for segment in after.segments] == [
        "Hej, Bo",
        "hvordan går det?",
        "Godt. Og é,",
    ]
    assert [(w.start, w.end, w.confidence) for w in after.words] == [
        (w.start, w.end, w.confidence) for w in before.words
    ]


def test_a_sentence_begins_with_each_speaker(folder: Path) -> None:
    after = Punctuator(str(folder))(said("hej og", "går", "og", speakers="AAB"))
    assert [segment.text for segment in after.segments] == ["Hej, og", "går", "Og"]


def test_a_word_has_the_label_of_its_first_token_and_no_second_mark(folder: Path) -> None:
    after = Punctuator(str(folder))(said("ida gårs Hej, IDA's xyz"))
    assert after.text == "Ida. Gårs Hej, IDA's. Xyz"


@pytest.mark.parametrize("count", [99, 100, 101, 150, 151, 733])
def test_long_speech_is_read_in_windows_and_loses_no_word(folder: Path, count: int) -> None:
    known = [token for token in TOKENS if token.isalpha()]
    words = [known[n % len(known)] for n in range(count)]
    after = Punctuator(str(folder))(said(" ".join(words)))
    assert [word.text.strip(",.?").lower() for word in after.words] == words
    marks = [word.text[-1] if word.text[-1] in ",.?" else "O" for word in after.words]
    assert marks == [TOKENS[word][0] for word in words]


def test_words_beyond_what_the_model_reads_have_no_marks(folder: Path) -> None:
    long = " ".join(["går" + 20 * "s"] * 50)  # 21 tokens each
    after = Punctuator(str(folder))(said(f"godt {long} hej"))
    assert (after.words[0].text, after.words[-1].text) == ("Godt.", "hej")


def test_silence_stays_silent(folder: Path) -> None:
    assert not Punctuator(str(folder))(Transcript(3.0, [])).segments


def test_what_is_no_model_of_punctuation_is_refused(tmp_path: Path) -> None:
    other = save_model(tmp_path, ("B-PER", "OU", ",O", ".O", "?O", "I-PER"))
    with pytest.raises(DanishAsrError, match="B-PER, I-PER"):
        Punctuator(str(other))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(DanishAsrError, match="cannot be loaded"):
        Punctuator(str(other))
