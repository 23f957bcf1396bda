from __future__ import annotations

import re
from pathlib import Path

import pytest

from danish_asr.conversion.char_tokenizer import build_char_tokenizer
from tests.spoiled import (
    CARD,
    MODEL,
    TOKENIZER,
    Spoil,
    card,
    content,
    faults_of,
    remove,
    text,
)

FAULTS: list[tuple[Spoil, str]] = [
    (remove(CARD), f"{CARD}: is missing"),
    (text(CARD, ""), f"{CARD}: expected a mapping, found NoneType"),
    (text(CARD, "- name: tiny"), f"{CARD}: expected a mapping, found list"),
    (text(CARD, "{: ["), f"{CARD}: cannot be read .while parsing"),
    (text(CARD, "%YAML 1.9\n---\nname: 1"), f"{CARD}: cannot be read"),
    (content(CARD, lambda _: b"\xff\xfe"), f"{CARD}: cannot be read .'utf-8'"),
    (text(CARD, "name: tiny"), f"{CARD}: its dataset_config.data is None"),
    (card(dataset_config=[1]), f"{CARD}: its dataset_config.data is None"),
    (card(dataset_config={"data": 3}), f"{CARD}: its dataset_config.data is 3"),
    (
        card(dataset_config={"data": "version=0"}),
        "data is version=0, .*put that path into the card",
    ),
    (card(dataset_config={"data": "/elsewhere"}), "data is /elsewhere, and the dataset is in /"),
    (card(name="huge"), f"{CARD}: expected name tiny, found huge"),
    (card(dataset_family="x"), "expected dataset_family mixture_parquet_asr_dataset, found x"),
    (card(tokenizer_ref=None), f"{CARD}: expected tokenizer_ref tiny_char, found None"),
    (remove(TOKENIZER), f"{TOKENIZER}: is missing"),
    (text(TOKENIZER, "{"), f"{TOKENIZER}: cannot be read"),
    (card(TOKENIZER, tokenizer="x.model"), "expected tokenizer tiny_char.model, found x.model"),
    (card(TOKENIZER, tokenizer_family="x"), "expected tokenizer_family char_tokenizer, found x"),
    (remove(MODEL), f"{MODEL}: is missing"),
    (text(MODEL, ""), f"{MODEL}: is no SentencePiece model"),
    (text(MODEL, "x"), f"{MODEL}: is no SentencePiece model"),
    (content(MODEL, lambda old: old[:-200]), f"{MODEL}: is no SentencePiece model"),
    (
        content(MODEL, lambda old: old.replace(b"<pad>", b"<PAD>")),
        f"{MODEL}: its first symbols are not <s> <pad>",
    ),
    (content(MODEL, lambda _: build_char_tokenizer("abeginst")), f"{MODEL}: lacks symbols .*: 0, "),
]


@pytest.mark.parametrize(("spoil", "fault"), FAULTS)
def test_every_fault_of_cards_and_tokenizer_is_found(root: Path, spoil: Spoil, fault: str) -> None:
    spoil(root)
    told = faults_of(root)
    assert re.search(fault, told, re.MULTILINE), told
