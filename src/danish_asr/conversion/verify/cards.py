"""Check the fairseq2 cards of a built dataset, and its character tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import sentencepiece

from danish_asr.conversion.cards import dataset_card, tokenizer_card
from danish_asr.conversion.char_tokenizer import SPECIAL_SYMBOLS
from danish_asr.conversion.verify.damage import guarded
from danish_asr.conversion.verify.shard import few
from danish_asr.regular_file import regular_file
from danish_asr.schema import CARDS_DIR, VERSION_DIR
from danish_asr.yaml_text import from_yaml


def card_names(root: Path) -> list[str]:
    """The datasets that have a card here, for want of a manifest; at least a name to ask for."""
    cards = sorted(path.stem for path in (root / CARDS_DIR).glob("*.yaml"))
    return [name for name in cards if not name.endswith("_char")] or ["NAME"]


def card_faults(root: Path, name: str, characters: AbstractSet[str] | None) -> Iterator[str]:
    """Check the card of a dataset, and card and model of its tokenizer.

    Args:
        root: The dataset.
        name: Its name.
        characters: Those of its training text, as far as they are known. None: there is no such
            text, and no tokenizer.
    """
    ours = dataset_card(root, name, with_tokenizer=characters is not None)
    place = f"{CARDS_DIR}/{name}.yaml"
    yield from guarded(place, _card_faults(root, place, ours))
    if characters is not None:
        tokenizer = tokenizer_card(name)
        place = f"{CARDS_DIR}/{tokenizer['name']}.yaml"
        yield from guarded(place, _card_faults(root, place, tokenizer))
        place = f"{CARDS_DIR}/{tokenizer['tokenizer']}"
        yield from guarded(place, _model_faults(root, place, characters))


def _card_faults(root: Path, place: str, ours: Mapping[str, Any]) -> Iterator[str]:
    card = from_yaml(regular_file(root / place).read_text(encoding="utf-8"))
    if not isinstance(card, dict):
        yield f"{place}: expected a mapping, found {type(card).__name__}"
        return
    for key, value in ours.items():
        if key == "dataset_config":
            yield from _place_faults(root, place, card.get(key))
        elif card.get(key) != value:
            yield f"{place}: expected {key} {value}, found {card.get(key)}"


def _place_faults(root: Path, place: str, config: object) -> Iterator[str]:
    data = config.get("data") if isinstance(config, dict) else None
    ours = (root / VERSION_DIR).resolve()
    if not isinstance(data, str) or not Path(data).is_absolute() or Path(data).resolve() != ours:
        yield (
            f"{place}: its dataset_config.data is {data}, and the dataset is in {ours}; if it was "
            "moved, put that path into the card"
        )


def _model_faults(root: Path, place: str, characters: AbstractSet[str]) -> Iterator[str]:
    content = regular_file(root / place).read_bytes()
    model = sentencepiece.SentencePieceProcessor()
    try:
        model.LoadFromSerializedProto(content)
    except RuntimeError:
        yield f"{place}: is no SentencePiece model"
        return
    symbols = [model.id_to_piece(index) for index in range(model.get_piece_size())]
    if tuple(symbols[: len(SPECIAL_SYMBOLS)]) != SPECIAL_SYMBOLS:
        yield f"{place}: its first symbols are not {' '.join(SPECIAL_SYMBOLS)}"
    alphabet = {character for character in characters if character.isprintable()} - {" ", "▁"}
    if lacking := sorted(alphabet - set(symbols)):
        yield f"{place}: lacks symbols of the training text: {few(lacking, len(lacking))}"
        return
    text = " ".join(sorted(alphabet))
    if model.decode(model.encode(text)) != text:
        yield f"{place}: does not give back the text that it encodes"
