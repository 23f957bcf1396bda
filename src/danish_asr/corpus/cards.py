"""Write what readers of a dataset need: hours per corpus, asset cards, a character tokenizer."""

import io
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

import sentencepiece

from danish_asr.base.files import publish, publish_text, to_yaml
from danish_asr.base.schema import CARDS_DIR, SAMPLE_RATE, VERSION_DIR
from danish_asr.corpus.inventory import ShardEntry

SPECIAL_SYMBOLS: Final = ("<s>", "<pad>", "</s>", "<unk>")
"""In the order of their indices, which are those of fairseq and omniASR. CTC's blank is 0: ``<s>``
can share that index because encoding a text never gives it."""

_RESERVED: Final = {" ", "▁", "▅"}  # the space, and SentencePiece's own signs


def alphabet_of(characters: Iterable[str]) -> list[str]:
    """The characters that become symbols, sorted; space and non-printing ones do not."""
    return sorted({char for char in characters if char.isprintable()} - _RESERVED)


def build_char_tokenizer(characters: Iterable[str]) -> bytes:
    """Return a SentencePiece model with a symbol per character, for ``char_tokenizer`` of fairseq2.

    Texts are encoded as they are (no normalisation, no leading space), so that decoding gives the
    text back if single spaces separate its words.
    """
    alphabet = alphabet_of(characters)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(alphabet)]),
        model_writer=model,
        model_type="char",
        vocab_size=len(SPECIAL_SYMBOLS) + 1 + len(alphabet),
        character_coverage=1.0,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        bos_id=0,
        pad_id=1,
        eos_id=2,
        unk_id=3,
        unk_surface="⁇",
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def statistics(shards: Iterable[ShardEntry]) -> str:
    """Text of ``language_distribution_0.tsv``: one row per corpus, with its hours of TRAIN audio.

    Sampling weights are computed from these hours, so a row per split would distort them.
    """
    samples: Counter[tuple[str, str]] = Counter()
    for shard in shards:
        if shard.partition("split") == "train":
            key = shard.partition("corpus"), shard.partition("language")
            samples[key] += round(shard.seconds * SAMPLE_RATE)
    rows = [
        f"{corpus}\t{language}\t{count / SAMPLE_RATE / 3600:.6f}"
        for (corpus, language), count in sorted(samples.items())
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
