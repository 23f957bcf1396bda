"""Write what describes a built dataset to its readers: the hours per corpus and the asset cards."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from danish_asr.conversion.char_tokenizer import build_char_tokenizer
from danish_asr.files import publish, publish_text
from danish_asr.schema import CARDS_DIR, LANGUAGE, STATISTICS_FILE, VERSION_DIR
from danish_asr.yaml_text import to_yaml

_DATASET_FAMILY: Final = "mixture_parquet_asr_dataset"
_TOKENIZER_FAMILY: Final = "char_tokenizer"


def write_statistics(root: Path, train_hours: Mapping[str, float]) -> None:
    """Write ``language_distribution_0.tsv``: one row per corpus, with its hours of TRAIN audio.

    Sampling weights are made from these hours, so a row per split would distort them.
    """
    rows = [f"{corpus}\t{LANGUAGE}\t{hours:.6f}" for corpus, hours in sorted(train_hours.items())]
    publish_text(root / STATISTICS_FILE, "\n".join(["corpus\tlanguage\thours", *rows, ""]))


def write_cards(root: Path, name: str, characters: AbstractSet[str]) -> None:
    """Write the fairseq2 cards of a dataset, and the character tokenizer with its card.

    Args:
        root: The built dataset.
        name: Name of the dataset; the tokenizer is called ``<name>_char``.
        characters: All that stand in the training text. Without any there is no tokenizer.
    """
    cards = root / CARDS_DIR
    card = {
        "name": name,
        "dataset_family": _DATASET_FAMILY,
        "dataset_config": {"data": str((root / VERSION_DIR).resolve())},
    }
    if characters:
        tokenizer = f"{name}_char"
        model = f"{tokenizer}.model"
        with publish(cards / model) as stream:
            stream.write(build_char_tokenizer(characters))
        # fairseq2 finds a relative path beside the card.
        _write_card(
            cards / f"{tokenizer}.yaml",
            {"name": tokenizer, "tokenizer_family": _TOKENIZER_FAMILY, "tokenizer": model},
        )
        card["tokenizer_ref"] = tokenizer
    _write_card(cards / f"{name}.yaml", card)


def _write_card(path: Path, card: Mapping[str, object]) -> None:
    publish_text(path, to_yaml(card))
