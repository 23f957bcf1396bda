from __future__ import annotations

import re
from pathlib import Path

import pytest

from danish_asr.conversion.inventory import read_inventory
from danish_asr.errors import DatasetError
from tests.spoiled import Spoil, change_manifest, content, manifest, shard, text

FAULTS: list[tuple[Spoil, str]] = [
    (shard(rows="4"), "rows: expected int, found '4'"),
    (shard(rows=None), "rows: expected int, found None"),
    (shard(seconds="1"), "seconds: expected float"),
    (shard(sha256=None), "sha256: expected str, found None"),
    (shard(more=1), "more"),
    (shard(files=None), "not iterable"),
    (manifest(shards=None), "not iterable"),
    (manifest(unmapped_dialects=[]), "unmapped_dialects: expected dict"),
    (text("manifest.json", '{"name": "x"}'), "shards"),
    (text("manifest.json", "[1]"), "list"),
    (text("manifest.json", "{"), "Expecting"),
    (text("manifest.json", "[" * 100_000), "recursion"),
    (content("manifest.json", lambda _: b"\xff"), "utf-8"),
]


@pytest.mark.parametrize(("spoil", "reason"), FAULTS)
def test_a_damaged_inventory_is_refused_with_its_name(
    root: Path, spoil: Spoil, reason: str
) -> None:
    spoil(root)
    with pytest.raises(DatasetError, match=rf"{re.escape(str(root))}/manifest\.json: .*{reason}"):
        read_inventory(root)


def test_a_dataset_without_an_inventory_is_not_finished(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"manifest\.json is missing; .danish-asr convert"):
        read_inventory(tmp_path)


def test_an_inventory_of_an_earlier_version_is_read(root: Path) -> None:
    change_manifest(root, lambda inventory: inventory.pop("ledger_sha256"))
    assert read_inventory(root).ledger_sha256 is None


def test_training_hours_are_those_of_the_train_split(root: Path) -> None:
    assert read_inventory(root).train_hours() == {
        "coral_read_aloud": pytest.approx((0.5 * 8 + 0.1 * 13) / 3600)
    }
