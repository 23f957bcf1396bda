from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.spoiled import (
    FIRST,
    SECOND,
    Spoil,
    content,
    faults_of,
    manifest,
    remove,
    shard,
    text,
)

NUMBERS = "manifest.json: not a manifest of this program .manifest"

FAULTS: list[tuple[Spoil, str]] = [
    (manifest(source_rows=17), "11 rows written and 1 in the ledger do not make up the 17 rows"),
    (manifest(source_rows=17), "its source files have 12 rows, and the source has 17"),
    (shard(rows=7), "14 rows written and 1 in the ledger do not make up the 12 rows"),
    (shard(files=["x"]), "is made from x, which is no source file"),
    (shard(path=SECOND), f"{FIRST}: is not in the manifest"),
    (shard(path=SECOND), f"names {SECOND} 2 times"),
    (shard(path="../elsewhere.parquet"), "../elsewhere.parquet: is no place for a shard"),
    (shard(rows="4"), rf'{NUMBERS}.shards\[0\].rows: expected a whole number from 0, found "4"'),
    (shard(rows=-4), rf"{NUMBERS}.shards\[0\].rows: expected a whole number from 0, found -4"),
    (shard(rows=True), rf"{NUMBERS}.shards\[0\].rows: .* found true"),
    (shard(rows=10**300), rf"{NUMBERS}.shards\[0\].rows: .* found 10000"),
    (shard(seconds=float("nan")), rf"{NUMBERS}.shards\[0\].seconds: .* found NaN"),
    (shard(sha256=None), rf"{NUMBERS}.shards\[0\].sha256: expected a text, found null"),
    (shard(more=1), rf"{NUMBERS}.shards\[0\]: expected an object with path, rows, "),
    (manifest(shards=None), rf"{NUMBERS}.shards: expected a list, found null"),
    (manifest(dropped=[{"reason": 1, "dialect": 2, "rows": 3}]), r"dropped\[0\].reason: expected"),
    (manifest(unmapped_dialects={"x": 1.5}), "unmapped_dialects.x: expected a whole number"),
    (manifest(ledger_sha256=3), "ledger_sha256: expected a text or null, found 3"),
    (text("manifest.json", '{"name": "x"}'), "manifest: expected an object with name, source, "),
    (text("manifest.json", "{"), "manifest.json: not a manifest of this program .Expecting"),
    (text("manifest.json", "[" * 100_000), "manifest.json: not a manifest of .*recursion"),
    (text("manifest.json", "9" * 5000), "manifest.json: not a manifest of this program"),
    (content("manifest.json", lambda _: b"\xff"), "manifest.json: not a manifest of .*utf-8"),
    (remove("manifest.json"), "manifest.json: is missing, so what should be there is not known"),
]


@pytest.mark.parametrize(("spoil", "fault"), FAULTS)
def test_every_fault_of_the_manifest_is_found(root: Path, spoil: Spoil, fault: str) -> None:
    spoil(root)
    told = faults_of(root)
    assert re.search(fault, told, re.MULTILINE), told
