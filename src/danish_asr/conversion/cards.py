"""Write what describes a built dataset to its readers: the hours per corpus and the asset cards."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final

from danish_asr.conversion.char_tokenizer import build_char_tokenizer
from danish_asr.files import publish, publish_text
from danish_asr.schema import CARDS_DIR, LANGUAGE, STATISTICS_FILE, VERSION_DIR
from danish_asr.yaml_text import to_yaml

_DATASET_FAMILY: Final = "mixture_parquet_asr_dataset"
_TOKENIZER_FAMILY: Final = "char_tokenizer"


def write_statistics(root: Path, train_hours: Mapping[str, float]) -> None:
    """Write ``language_distribution_0.tsv``: one row per corpus, with its hours of TRAIN audio.

    Sampling weights are made from these hours, so a row per split would distort them. A corpus
    without training audio has no row: there is nothing to weigh, and readers refuse it.
    """
    rows = [
        f"{corpus}\t{LANGUAGE}\t{hours:.6f}"
        for corpus, hours in sorted(train_hours.items())
        if hours
    ]
    publish_text(root / STATISTICS_FILE, "\n".join(["corpus\tlanguage\thours", *rows, ""]))


def dataset_card(root: Path, name: str, *, with_tokenizer: bool) -> dict[str, Any]:
    """The fairseq2 card of a dataset."""
    card = {
        "name": name,
        "dataset_family": _DATASET_FAMILY,
        "dataset_config": {"data": str((root / VERSION_DIR).resolve())},
    }
    return card | {"tokenizer_ref": tokenizer_card(name)["name"]} if with_tokenizer else card


def tokenizer_card(name: str) -> dict[str, str]:
    """The fairseq2 card of the tokenizer of the dataset ``name``."""
    # fairseq2 finds a relative path beside the card.
    return {
        "name": f"{name}_char",
        "tokenizer_family": _TOKENIZER_FAMILY,
        "tokenizer": f"{name}_char.model",
    }


def write_cards(root: Path, name: str, characters: AbstractSet[str]) -> None:
    """Write the fairseq2 cards of a dataset, and the character tokenizer with its card.

    Args:
        root: The built dataset.
        name: Name of the dataset; the tokenizer is called ``<name>_char``.
        characters: All that stand in the training text. Without any there is no tokenizer.
    """
    cards = root / CARDS_DIR
    if characters:
        tokenizer = tokenizer_card(name)
        with publish(cards / tokenizer["tokenizer"]) as stream:
            stream.write(build_char_tokenizer(characters))
        publish_text(cards / f"{tokenizer['name']}.yaml", to_yaml(tokenizer))
    card = dataset_card(root, name, with_tokenizer=bool(characters))
    publish_text(cards / f"{name}.yaml", to_yaml(card))
