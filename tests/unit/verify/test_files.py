from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.schema import LEDGER_SCHEMA
from tests.spoiled import (
    LEDGER,
    TSV,
    Spoil,
    change_manifest,
    content,
    faults_of,
    read_rows,
    remove,
    text,
)


def ledger(**values: Any) -> Spoil:
    """Change the only row of the ledger."""

    def spoil(root: Path) -> None:
        (row,) = read_rows(root / LEDGER)
        table = pa.Table.from_pylist([row | values], LEDGER_SCHEMA)
        pq.write_table(table, root / LEDGER)

    return spoil


def ledger_without(column: str) -> Spoil:
    def spoil(root: Path) -> None:
        table = pa.Table.from_pylist(read_rows(root / LEDGER), LEDGER_SCHEMA)
        pq.write_table(table.drop_columns([column]), root / LEDGER)

    return spoil


HEAD = "corpus\tlanguage\thours\n"
LINE = "coral_read_aloud\tdan_Latn\t0.001472\n"

FAULTS: list[tuple[Spoil, str]] = [
    (remove(LEDGER), f"{LEDGER}: is missing"),
    (text(LEDGER, ""), f"{LEDGER}: cannot be read .Parquet file size is 0 bytes"),
    (content(LEDGER, lambda old: old[:-9]), f"{LEDGER}: cannot be read"),
    (ledger_without("dialect"), f"{LEDGER}: its columns are not those of the contract"),
    (ledger(row=3), f"{LEDGER}: rows of train.parquet that stand neither there nor in a shard: 8"),
    (ledger(source="x"), "rows of train.parquet that stand neither there nor in a shard: 8"),
    (ledger(reason="lost"), "rows of Fynsk with reason 'empty text': 0, and 1 in the manifest"),
    (ledger(dialect=None), "rows of no dialect with reason 'empty text': 1, and 0 in the manifest"),
    (ledger(reason=" "), "has rows without a reason"),
    (ledger(id="rec_train_9"), f"{LEDGER}: its sha256 is not that of the manifest"),
    (remove(TSV), f"{TSV}: is missing"),
    (text(TSV, ""), f"{TSV}: its columns are ''; expected 'corpus, language, hours'"),
    (text(TSV, "corpus\thours\nx\t1\n"), f"{TSV}: its columns are 'corpus, hours'"),
    (text(TSV, HEAD), f"{TSV}: has no line for coral_read_aloud, 0.001472 h of training audio"),
    (text(TSV, HEAD + LINE + LINE), f"{TSV}: line 3 is another line of coral_read_aloud"),
    (text(TSV, HEAD + LINE + "mls\tdan_Latn\t1\n"), "line 3 names mls in dan_Latn, of which the"),
    (text(TSV, HEAD + LINE.replace("dan", "swe")), "names coral_read_aloud in swe_Latn, of which"),
    (text(TSV, HEAD + "coral_read_aloud\tdan_Latn\n"), f"{TSV}: line 2 has 2 columns, not 3"),
    (text(TSV, HEAD + LINE.replace("0.001472", "7")), "coral_read_aloud 7 hours; it has 0.001472"),
    (text(TSV, HEAD + LINE.replace("0.001472", "abc")), "coral_read_aloud abc hours; it has"),
    (text(TSV, HEAD + LINE.replace("0.001472", "nan")), "coral_read_aloud nan hours; it has"),
    (text(TSV, HEAD + LINE.replace("0.001472", "-inf")), "coral_read_aloud -inf hours; it has"),
    (content(TSV, lambda old: old + b"\xe6\n"), f"{TSV}: cannot be read .'utf-8'"),
]


@pytest.mark.parametrize(("spoil", "fault"), FAULTS)
def test_every_fault_beside_the_shards_is_found(root: Path, spoil: Spoil, fault: str) -> None:
    spoil(root)
    told = faults_of(root)
    assert re.search(fault, told, re.MULTILINE), told


def test_a_manifest_of_an_earlier_build_tells_no_checksum_of_the_ledger(root: Path) -> None:
    change_manifest(root, lambda manifest: manifest.pop("ledger_sha256"))
    assert faults_of(root) == ""
    ledger(id="rec_train_9")(root)
    assert faults_of(root) == ""
