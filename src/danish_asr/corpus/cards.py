"""What a dataset has beside its shards: ledger, suspects, cards, tokenizer, hours, README.

Comes in: what a conversion or a combination has written. Goes out: `complete` ends it.
"""

import io
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import sentencepiece

from danish_asr.base.files import publish, publish_json, publish_text, sha256_of, to_yaml
from danish_asr.base.schema import (
    CARDS_DIR,
    INVENTORY_FILE,
    LEDGER_FILE,
    README_FILE,
    SPLITS,
    STATISTICS_FILE,
    SUSPECTS_FILE,
    VERSION_DIR,
)
from danish_asr.corpus import DANISH
from danish_asr.corpus.inventory import Inventory, ListedShard

SPECIAL_SYMBOLS: Final = ("<s>", "<pad>", "</s>", "<unk>")
"""In the order of their indices, which are those of fairseq and omniASR. CTC's blank is 0: ``<s>``
can share that index because encoding a text never gives it."""

_RESERVED: Final = {" ", "▁", "▅"}  # the space, and SentencePiece's own signs

_TEXT: Final = """\
# {own.name}

Speech for automatic speech recognition, made by danish-asr from `{own.source}`: {own.rows:,}
utterances, {own.hours:.2f} hours of FLAC, mono, 16 kHz. {own.dropped_rows:,} rows were left out;
`ledger.parquet` says why.

`datasets.load_dataset("ROOT")`, with the directory of this file, loads all corpora by split;
`cast_column("audio_bytes", datasets.Audio())` decodes the audio.

## Licence

That of the source; add it to the metadata above before you publish this dataset. CoRal has the
licence OpenRAIL-D, which excludes speech synthesis and biometric identification.
"""


def complete(
    root: Path,
    *,
    ledger: pa.Table,
    suspects: pa.Table,
    characters: Collection[str],
    shards: Iterable[ListedShard],
    **values: Any,
) -> Inventory:
    """Write all that a dataset has beside its shards, ``manifest.json`` last; returns that.

    ``characters`` are those of the training text, ``values`` the other fields of `Inventory`.
    """
    for place, table in ((LEDGER_FILE, ledger), (SUSPECTS_FILE, suspects)):
        with publish(root / place) as stream:
            pq.write_table(table, stream)
    inventory = Inventory(
        dropped=dict(Counter(ledger["reason"].to_pylist()).most_common()),
        suspects=dict(sorted(Counter(suspects["reason"].to_pylist()).items())),
        shards=sorted(shards, key=lambda shard: shard.path),
        ledger_sha256=sha256_of(root / LEDGER_FILE),
        suspects_sha256=sha256_of(root / SUSPECTS_FILE),
        **values,
    )
    publish_text(root / STATISTICS_FILE, _statistics(inventory.shards))
    _write_cards(root, inventory.name, characters)
    publish_text(root / README_FILE, _readme(inventory))
    publish_json(root / INVENTORY_FILE, asdict(inventory))
    return inventory


def build_char_tokenizer(characters: Iterable[str]) -> bytes:
    """Return a SentencePiece model with a symbol per character, for ``char_tokenizer`` of fairseq2.

    Space and characters that do not print are no symbols. Texts are encoded as they are (no
    normalisation, no leading space), so that decoding gives the text back if single spaces separate
    its words.
    """
    alphabet = sorted({char for char in characters if char.isprintable()} - _RESERVED)
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


def _statistics(shards: Iterable[ListedShard]) -> str:
    """Text of ``language_distribution_0.tsv``: one row per corpus, with its hours of TRAIN audio.

    Sampling weights are computed from these hours, so a row per split would distort them.
    """
    seconds = defaultdict[str, float](float)
    for shard in shards:
        if shard.partition("split") == "train":
            seconds[f"{shard.partition('corpus')}\t{shard.partition('language')}"] += shard.seconds
    rows = [f"{name}\t{seconds[name] / 3600:.6f}" for name in sorted(seconds)]
    return "\n".join(["corpus\tlanguage\thours", *rows, ""])


def _write_cards(root: Path, name: str, characters: Collection[str]) -> None:
    """Write fairseq2's card of the dataset, and a tokenizer if there is training text."""
    dataset = {
        "name": name,
        "dataset_family": "mixture_parquet_asr_dataset",
        "dataset_config": {"data": str((root / VERSION_DIR).resolve())},
    }
    folder = root / CARDS_DIR
    if characters:
        tokenizer = {
            "name": f"{name}_char",
            "tokenizer_family": "char_tokenizer",
            "tokenizer": f"{name}_char.model",  # fairseq2 looks for it beside the card
        }
        dataset["tokenizer_ref"] = tokenizer["name"]
        with publish(folder / tokenizer["tokenizer"]) as stream:
            stream.write(build_char_tokenizer(characters))
        publish_text(folder / f"{name}_char.yaml", to_yaml(tokenizer))
    publish_text(folder / f"{name}.yaml", to_yaml(dataset))


def _readme(inventory: Inventory) -> str:
    """Text of ``README.md``; the configuration at its top is read by `datasets` and the hub."""
    languages = sorted({shard.partition("language") for shard in inventory.shards})
    splits = {shard.partition("split") for shard in inventory.shards}
    files = [
        {"split": split, "path": f"{VERSION_DIR}/*/split={split}/**/*.parquet"}
        for split in SPLITS
        if split in splits
    ]
    metadata = {
        "language": [hub_code(name) for name in languages],
        "task_categories": ["automatic-speech-recognition"],
        "configs": [{"config_name": "default", "data_files": files}],
    }
    return f"---\n{to_yaml(metadata)}---\n\n{_TEXT.format(own=inventory)}"


def hub_code(language: str) -> str:
    """A language of omniASR, such as ``nob_Latn``, as the hub writes it."""
    return "da" if language == DANISH else language.partition("_")[0]
