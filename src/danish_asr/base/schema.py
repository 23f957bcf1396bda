"""The data contract as code, which ``data/README.md`` describes in prose."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

SAMPLE_RATE: Final = 16_000
"""Hz. The rate that omniASR models were trained on, and the only rate a built dataset holds."""

ROW_GROUP_SIZE: Final = 100
"""Rows per Parquet row group; upstream's loader streams and shuffles by row group."""

ROW_GROUP_BYTES: Final = 32 << 20
"""Audio after which a row group ends, however few its rows: its writer holds it in memory until
then, and Arrow copies it twice."""

SPLITS: Final = ("train", "dev", "test")

SPLIT_ALIASES: Final = {"val": "dev", "valid": "dev", "validation": "dev"}
"""Names that corpora use for our splits, in addition to the names themselves."""

METADATA_COLUMNS: Final = ("speaker_id", "dialect", "age_group", "gender")
"""Columns that travel with every batch and every prediction."""

MIN_SPEAKERS: Final = 8
"""Test speakers below which a rate has no interval (``benchmarks/intervals.py``)."""

MIN_EFFECTIVE: Final = 4
"""Effective speakers: with 4, no speaker has more than half of the words, and a limit is at most
3.2 deviations away (Student's t with 3 degrees of freedom); with 2 it would be 12.7."""

FLAC_MD5: Final = slice(26, 42)
"""The MD5 of its samples in a FLAC file: after a marker, a block header, the rest of STREAMINFO."""

LEDGER_SCHEMA: Final = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        ("corpus", pa.string()),
        ("id", pa.string()),
        ("dialect", pa.string()),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
"""One row per source row that was not written: ``source`` is the file, ``row`` its position."""

SUSPECTS_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("corpus", "split", "id")),
        ("dialect", pa.string()),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
"""One row per written utterance and reason to listen to it, with what was measured."""

VERSION_DIR: Final = "version=0"
STATISTICS_FILE: Final = "language_distribution_0.tsv"
LEDGER_FILE: Final = "ledger.parquet"
SUSPECTS_FILE: Final = "suspects.parquet"
INVENTORY_FILE: Final = "manifest.json"
WORK_DIR: Final = ".convert"  # the key and the records of an unfinished conversion
README_FILE: Final = "README.md"
CARDS_DIR: Final = "cards"


def partition_dir(root: Path, corpus: str, split: str, language: str) -> Path:
    """The directory of one Hive partition below a dataset's root."""
    return root / VERSION_DIR / f"corpus={corpus}" / f"split={split}" / f"language={language}"


def card_directories() -> list[Path]:
    """The directories of cards: ``data/parquet/cards``, and those in ``$DANISH_ASR_ASSETS``."""
    named = os.environ.get("DANISH_ASR_ASSETS", "").split(os.pathsep)
    default = Path("data", "parquet", CARDS_DIR)
    return without_nested([default, *(Path(name) for name in named if name)])


def without_nested(paths: Iterable[Path], searched: Sequence[Path] = ()) -> list[Path]:
    """Leave out directories inside others: fairseq2 refuses an asset that it finds twice."""
    directories = list(dict.fromkeys(path.expanduser().resolve() for path in paths))
    every = {*searched, *directories}
    return [path for path in directories if path not in searched and every.isdisjoint(path.parents)]
