"""The data contract as code: names of columns and splits, the Parquet schema, the dataset's layout.

A built dataset looks like this (``data/README.md`` describes the same in prose)::

    ROOT/version=0/corpus=<corpus>/split=<train|dev|test>/language=dan_Latn/part-*.parquet
    ROOT/language_distribution_0.tsv
    ROOT/ledger.parquet
    ROOT/manifest.json
    ROOT/cards/<name>.yaml
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

SAMPLE_RATE: Final = 16_000
"""Hz. The rate that omniASR models were trained on, and the only rate a built dataset holds."""

LANGUAGE: Final = "dan_Latn"
"""omniASR's code for Danish in Latin script."""

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

UTTERANCE_SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("audio_bytes", pa.binary(), nullable=False),
        pa.field("audio_size", pa.int64(), nullable=False),
        pa.field("speaker_id", pa.string()),
        pa.field("dialect", pa.string()),
        pa.field("sub_dialect", pa.string()),
        pa.field("age", pa.int64()),
        pa.field("age_group", pa.string()),
        pa.field("gender", pa.string()),
        pa.field("country_birth", pa.string()),
        pa.field("source_id", pa.string()),
    ]
)
"""Columns inside a shard. ``audio_bytes`` is FLAC, mono, 16 kHz; ``audio_size`` is its samples.
``sub_dialect`` is the corpus's own dialect name, ``dialect`` what it was mapped to. The partition
keys (corpus, split, language) live in the path only."""

LEDGER_SCHEMA: Final = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("id", pa.string()),
        pa.field("dialect", pa.string()),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
"""One row per source row that was not written: ``source`` is the file, ``row`` its position."""

VERSION_DIR: Final = "version=0"
STATISTICS_FILE: Final = "language_distribution_0.tsv"
LEDGER_FILE: Final = "ledger.parquet"
INVENTORY_FILE: Final = "manifest.json"
CARDS_DIR: Final = "cards"


def partition_dir(root: Path, corpus: str, split: str) -> Path:
    """The directory of one Hive partition below a dataset's root."""
    return root / VERSION_DIR / f"corpus={corpus}" / f"split={split}" / f"language={LANGUAGE}"
