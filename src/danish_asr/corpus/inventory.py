"""The inventory of a built dataset, ``manifest.json``: its source, and what it must contain."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from danish_asr.base.errors import DatasetError
from danish_asr.base.schema import INVENTORY_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardEntry:
    """One shard."""

    path: str  # below the root
    rows: int
    seconds: float
    sha256: str
    fingerprint: str  # changes with the source rows
    files: list[str]  # of the source

    def partition(self, key: str) -> str:
        """Value of ``corpus``, ``split`` or ``language`` in the path; empty if it is not there."""
        return dict(part.partition("=")[::2] for part in self.path.split("/")).get(key, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Content of a built dataset."""

    name: str  # of its card
    source: str  # in the user's words
    key: str  # digest of source and options
    source_rows: int
    dropped: list[dict[str, Any]]  # reason, dialect and rows in the ledger, most frequent first
    unmapped_dialects: dict[str, int]  # rows per dialect name that maps to no dialect
    files: list[dict[str, Any]]  # file, rows and fingerprint of the source files
    shards: list[ShardEntry]  # in the order of the plan
    ledger_sha256: str
    suspects_sha256: str
    countries: dict[str, int] = field(default_factory=dict)  # rows per "Danmark -> DK"
    suspects: dict[str, int] = field(default_factory=dict)  # rows per reason to listen to them
    notes: list[str] = field(default_factory=list)  # for people: how rows were divided, unread ages

    @property
    def rows(self) -> int:
        """Rows written."""
        return sum(shard.rows for shard in self.shards)

    @property
    def dropped_rows(self) -> int:
        """Rows in the ledger."""
        return sum(entry["rows"] for entry in self.dropped)

    @property
    def hours(self) -> float:
        """Hours of audio written."""
        return sum(shard.seconds for shard in self.shards) / 3600


def read_inventory(root: Path) -> Inventory:
    """Read the inventory of a dataset; raises `DatasetError` if it is missing or damaged."""
    path = root / INVENTORY_FILE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        shards = [ShardEntry(**shard) for shard in values["shards"]]
        return Inventory(**values | {"shards": shards})
    except (FileNotFoundError, NotADirectoryError):
        raise DatasetError(
            f"{root}: not a finished dataset, {INVENTORY_FILE} is missing; `danish-asr convert` "
            "starts or continues one"
        ) from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DatasetError(
            f"{path}: cannot be read as the inventory of a built dataset ({error}); restore it "
            "from a copy, or delete the dataset and convert it again"
        ) from error
