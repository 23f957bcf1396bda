"""Write the files that describe a built dataset to its readers: hours per corpus, asset cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from danish_asr.conversion.char_tokenizer import build_char_tokenizer
from danish_asr.conversion.inventory import ShardEntry
from danish_asr.files import publish, publish_text
from danish_asr.schema import CARDS_DIR, LANGUAGE, SAMPLE_RATE, VERSION_DIR
from danish_asr.yaml_text import to_yaml


def statistics(shards: Iterable[ShardEntry]) -> str:
    """Text of ``language_distribution_0.tsv``: one row per corpus, with its hours of TRAIN audio.

    Sampling weights are computed from these hours, so a row per split would distort them. A corpus
    without training audio has no row.
    """
    samples: Counter[str] = Counter()
    for shard in shards:
        if shard.partition("split") == "train":
            samples[shard.partition("corpus")] += round(shard.seconds * SAMPLE_RATE)
    rows = [
        f"{corpus}\t{LANGUAGE}\t{samples[corpus] / SAMPLE_RATE / 3600:.6f}"
        for corpus in sorted(samples)
    ]
    return "\n".join(["corpus\tlanguage\thours", *rows, ""])


def cards(root: Path, name: str, *, with_tokenizer: bool) -> dict[str, dict[str, Any]]:
    """The fairseq2 cards of a dataset and of its tokenizer, by their paths below the root."""
    dataset = {
        "name": name,
        "dataset_family": "mixture_parquet_asr_dataset",
        "dataset_config": {"data": str((root / VERSION_DIR).resolve())},
    }
    tokenizer = {
        "name": f"{name}_char",
        "tokenizer_family": "char_tokenizer",
        "tokenizer": f"{name}_char.model",  # fairseq2 looks for it beside the card
    }
    if not with_tokenizer:
        return {f"{CARDS_DIR}/{name}.yaml": dataset}
    dataset["tokenizer_ref"] = tokenizer["name"]
    return {f"{CARDS_DIR}/{name}_char.yaml": tokenizer, f"{CARDS_DIR}/{name}.yaml": dataset}


def write_cards(root: Path, name: str, characters: Collection[str]) -> None:
    """Write the cards of a dataset, and its tokenizer if there are characters of training text."""
    if characters:
        with publish(root / CARDS_DIR / f"{name}_char.model") as stream:
            stream.write(build_char_tokenizer(characters))
    for path, card in cards(root, name, with_tokenizer=bool(characters)).items():
        publish_text(root / path, to_yaml(card))
