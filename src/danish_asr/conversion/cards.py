"""Write the files that describe a built dataset to its readers: hours per corpus, asset cards."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from danish_asr.conversion.char_tokenizer import build_char_tokenizer
from danish_asr.files import publish, publish_text
from danish_asr.schema import CARDS_DIR, LANGUAGE, VERSION_DIR
from danish_asr.yaml_text import to_yaml


def statistics(train_hours: Mapping[str, float]) -> str:
    """Text of ``language_distribution_0.tsv``: one row per corpus, with its hours of TRAIN audio.

    Sampling weights are computed from these hours, so a row per split would distort them. A corpus
    without training audio has no row.
    """
    rows = [f"{corpus}\t{LANGUAGE}\t{hours:.6f}" for corpus, hours in sorted(train_hours.items())]
    return "\n".join(["corpus\tlanguage\thours", *rows, ""])


def dataset_card(root: Path, name: str, *, with_tokenizer: bool) -> dict[str, Any]:
    """The fairseq2 card of a dataset."""
    card = {
        "name": name,
        "dataset_family": "mixture_parquet_asr_dataset",
        "dataset_config": {"data": str((root / VERSION_DIR).resolve())},
    }
    return card | {"tokenizer_ref": tokenizer_card(name)["name"]} if with_tokenizer else card


def tokenizer_card(name: str) -> dict[str, str]:
    """The fairseq2 card of the tokenizer of the dataset ``name``."""
    return {
        "name": f"{name}_char",
        "tokenizer_family": "char_tokenizer",
        "tokenizer": f"{name}_char.model",  # fairseq2 looks for it beside the card
    }


def write_cards(root: Path, name: str, characters: Collection[str]) -> None:
    """Write the fairseq2 cards of a dataset, and the character tokenizer with its card.

    Args:
        root: The built dataset.
        name: Name of the dataset; the tokenizer's is ``<name>_char``.
        characters: Those of the training text. Without any there is no tokenizer.
    """
    cards = root / CARDS_DIR
    if characters:
        tokenizer = tokenizer_card(name)
        with publish(cards / tokenizer["tokenizer"]) as stream:
            stream.write(build_char_tokenizer(characters))
        publish_text(cards / f"{tokenizer['name']}.yaml", to_yaml(tokenizer))
    card = dataset_card(root, name, with_tokenizer=bool(characters))
    publish_text(cards / f"{name}.yaml", to_yaml(card))
