from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from danish_asr.base.schema import LEDGER_SCHEMA, SUSPECTS_SCHEMA
from tests.hostile import HOSTILE, _row
from tests.shards import flac, write_inventory, write_shard


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dataset")
    train = [
        _row(0, "train", text="Hej med Dig!", speaker_id="s1", audio_bytes=flac(8_000, 7)),
        _row(1, "train", text="god dag", speaker_id="s1", dialect=HOSTILE, gender=HOSTILE),
        _row(2, "train", text=f"{HOSTILE} ž", speaker_id="s2", dialect=None, age_group=None),
    ]
    # Test: a sentence and a speaker of the training data, and one of its recordings.
    test = [_row(n, "test", text="vi ses", speaker_id=f"t{n}", gender="female") for n in range(8)]
    test[0] |= {"text": "hej, med dig", "speaker_id": "s1", "audio_bytes": flac(8_000, 7)}
    test[1] |= {"dialect": "Østjysk"}
    write_shard(root, train)
    write_shard(root, test, split="test")
    ledger = {"source": "a", "row": 0, "id": "a", "dialect": None, "reason": HOSTILE}
    pq.write_table(pa.Table.from_pylist([ledger] * 3, LEDGER_SCHEMA), root / "ledger.parquet")
    suspect = {"corpus": "a", "split": "test", "id": "a-test-7", "dialect": "Fynsk"}
    suspects = [suspect | {"reason": "seconds of silence", "value": 4.5678}] * 6
    pq.write_table(pa.Table.from_pylist(suspects, SUSPECTS_SCHEMA), root / "suspects.parquet")
    write_inventory(root)
    return root
