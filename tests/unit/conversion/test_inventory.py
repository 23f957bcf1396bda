import re
from pathlib import Path

import pytest

from danish_asr.base.errors import DatasetError
from danish_asr.corpus.shards import read_inventory
from tests.spoiled import Spoil, content, manifest, shard, text

FAULTS: list[tuple[Spoil, str]] = [
    (shard(more=1), "more"),
    (manifest(shards=None), "not iterable"),
    (text("manifest.json", '{"name": "x"}'), "shards"),
    (text("manifest.json", "[1]"), "list"),
    (text("manifest.json", "{"), "Expecting"),
    (content("manifest.json", lambda _: b"\xff"), "utf-8"),
]


@pytest.mark.parametrize(("spoil", "reason"), FAULTS)
def test_a_damaged_inventory_is_refused_with_its_name(
    root: Path, spoil: Spoil, reason: str
) -> None:
    spoil(root)
    with pytest.raises(DatasetError, match=rf"{re.escape(str(root))}/manifest\.json: .*{reason}"):
        read_inventory(root)
