"""What readers of a dataset need beside its shards: cards, a tokenizer, hours and ``README.md``."""

import io
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import sentencepiece

from danish_asr.base.files import publish, publish_text, sweep, to_yaml
from danish_asr.base.schema import (
    CARDS_DIR,
    README_FILE,
    SAMPLE_RATE,
    SPLITS,
    STATISTICS_FILE,
    UTTERANCE_SCHEMA,
    VERSION_DIR,
)
from danish_asr.corpus import DANISH
from danish_asr.corpus.shards import Inventory, ShardEntry

SPECIAL_SYMBOLS: Final = ("<s>", "<pad>", "</s>", "<unk>")
"""In the order of their indices, which are those of fairseq and omniASR. CTC's blank is 0: ``<s>``
can share that index because encoding a text never gives it."""

SPACE: Final = "▁"
"""SentencePiece's sign for a space."""

_RESERVED: Final = {" ", SPACE, "▅"}  # the space, and SentencePiece's own signs

ALL_CORPORA: Final = "all"  # the configuration that `load_dataset` takes by default

_HUB_CODES: Final = {  # the hub prefers codes of two letters
    DANISH: "da",
    "nob_Latn": "nb",
    "nno_Latn": "nn",
    "swe_Latn": "sv",
    "fao_Latn": "fo",
    "isl_Latn": "is",
    "kal_Latn": "kl",
    "deu_Latn": "de",
    "eng_Latn": "en",
}

_TEXT: Final = """\
# {name}

Speech ({languages}) for automatic speech recognition: {rows:,} utterances, {total}, made by
`danish-asr {command}` from `{source}`. {dropped:,} of {source_rows:,} source rows were not
converted; `ledger.parquet` has the reason of each.

{table}

The audio is FLAC, mono, 16 kHz (`audio_bytes`); `audio_size` is its number of samples,
`encoded_size` its number of bytes. Corpus and split are in the path of each file.

## Licence

That of the source; add it to the metadata above before you publish this dataset. CoRal has the
licence OpenRAIL-D, which excludes speech synthesis and biometric identification: read its page on
Hugging Face.

## Use

`ROOT` is the directory of this file.

```python
datasets.load_dataset("ROOT")                      # all corpora, by split
datasets.load_dataset("ROOT", "{corpus}", split="{split}")
pandas.read_parquet("ROOT/{version}")              # with the columns corpus and split
polars.scan_parquet("ROOT/{version}")
duckdb.sql("SELECT corpus, split, count(*) FROM 'ROOT/{version}/**/*.parquet' GROUP BY ALL")
```

`load_dataset` gives audio as encoded bytes; `cast_column("audio_bytes", datasets.Audio())` decodes
it. `danish-asr verify ROOT` checks the dataset.
"""


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


def write_small_files(root: Path, inventory: Inventory, characters: Collection[str]) -> None:
    """Write what readers need beside the shards, from the characters of the training text."""
    publish_text(root / STATISTICS_FILE, statistics(inventory.shards))
    write_cards(root, inventory.name, characters)
    publish_text(root / README_FILE, readme(root, inventory))
    sweep(root)


def readme(root: Path, inventory: Inventory) -> str:
    """Return the text; reads dialects and lengths of all shards."""
    shards = inventory.shards
    corpora, languages = _values(shards, "corpus"), _values(shards, "language")
    text = _TEXT.format(
        name=inventory.name,
        command="combine" if inventory.parts else "convert",
        languages=", ".join(languages) or "no language",
        rows=inventory.rows,
        total=duration(inventory.hours * 3600),
        source=inventory.source,
        dropped=inventory.dropped_rows,
        source_rows=inventory.source_rows,
        table=_table(root, shards),
        corpus=corpora[0] if corpora else ALL_CORPORA,
        split=next(iter(splits_of(shards)), "train"),
        version=VERSION_DIR,
    )
    return f"---\n{to_yaml(_metadata(inventory))}---\n\n{text}"


def _values(shards: Iterable[ShardEntry], key: str) -> list[str]:
    return sorted({shard.partition(key) for shard in shards})


def _metadata(inventory: Inventory) -> dict[str, Any]:
    """What `datasets` and the hub read at the top of ``README.md``."""
    shards = inventory.shards
    by_config = {ALL_CORPORA: shards} | {
        corpus: [shard for shard in shards if shard.partition("corpus") == corpus]
        for corpus in _values(shards, "corpus")
    }
    return {
        "pretty_name": inventory.name,
        "language": [hub_code(name) for name in _values(shards, "language")],
        "task_categories": ["automatic-speech-recognition"],
        "configs": [
            {
                "config_name": name,
                "default": name == ALL_CORPORA,
                "data_files": [
                    {
                        "split": split,
                        "path": f"{VERSION_DIR}/corpus={'*' if name == ALL_CORPORA else name}/"
                        f"split={split}/**/*.parquet",
                    }
                    for split in splits_of(entries)
                ],
            }
            for name, entries in by_config.items()
        ],
        "dataset_info": [{"config_name": name, "features": _features()} for name in by_config],
    }


def hub_code(language: str) -> str:
    """A language of omniASR, such as ``nob_Latn``, as the hub writes it."""
    return _HUB_CODES.get(language, language.partition("_")[0])


def splits_of(shards: Iterable[ShardEntry]) -> list[str]:
    """The splits that have rows, in the order of `SPLITS`."""
    present = {shard.partition("split") for shard in shards}
    return [split for split in SPLITS if split in present]


def unit_of(seconds: float) -> tuple[str, int]:
    """The unit that suits a total length, and its seconds."""
    if seconds >= 3600:
        return "hours", 3600
    if seconds >= 60:
        return "minutes", 60
    return "seconds", 1


def duration(seconds: float) -> str:
    """A length with its unit, such as ``3.2 minutes``."""
    unit, size = unit_of(seconds)
    return f"{seconds / size:,.1f} {unit}"


def _features() -> list[dict[str, Any]]:
    audio = {"audio": {"sampling_rate": SAMPLE_RATE, "decode": False}}
    return [
        {"name": field.name, "dtype": audio if pa.types.is_binary(field.type) else str(field.type)}
        for field in UTTERANCE_SCHEMA
    ]


def _table(root: Path, shards: Sequence[ShardEntry]) -> str:
    rows: Counter[tuple[str, str]] = Counter()
    samples: Counter[tuple[str, str]] = Counter()
    for shard in shards:
        with pq.ParquetFile(root / shard.path) as parquet:
            table = parquet.read(["dialect", "audio_size"])
        split = shard.partition("split")
        for row in table.to_pylist():
            for name in ("all", row["dialect"] or "not given"):
                rows[name, split] += 1
                samples[name, split] += row["audio_size"]
    splits = splits_of(shards)
    dialects = sorted({dialect for dialect, _ in rows} - {"all"})
    lines = [["dialect", *splits], ["---"] * (1 + len(splits))]
    for name in (*dialects, "all"):
        keys = [(name, split) for split in splits]
        cells = [
            f"{rows[key]:,} ({duration(samples[key] / SAMPLE_RATE)})" if rows[key] else ""
            for key in keys
        ]
        lines.append([name.replace("|", r"\|"), *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
