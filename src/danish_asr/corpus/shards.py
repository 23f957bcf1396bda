"""The shards of a built dataset: as ``manifest.json`` lists them, and as their paths name them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from danish_asr.base.errors import DatasetError
from danish_asr.base.schema import INVENTORY_FILE, SPLITS, VERSION_DIR


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardEntry:
    """One shard."""

    path: str  # below the root
    rows: int
    seconds: float
    sha256: str

    def partition(self, key: str) -> str:
        """Value of ``corpus``, ``split`` or ``language`` in the path; empty if it is not there."""
        return dict(part.partition("=")[::2] for part in self.path.split("/")).get(key, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Content of a built dataset, as ``manifest.json`` has it."""

    name: str  # of its card
    source: str  # in the user's words
    key: str  # digest of source and options; "combine NAME" if it is combined
    source_rows: int
    dropped: dict[str, int]  # rows per reason in the ledger, most frequent first
    suspects: dict[str, int]  # rows per reason to listen to them
    shards: list[ShardEntry]  # by path
    ledger_sha256: str
    suspects_sha256: str
    summary: dict[str, Any]  # what was read, see `summary.summary_of`; empty if it is combined
    parts: list[str] = field(default_factory=list)  # names, of a combined dataset

    @property
    def rows(self) -> int:
        """Rows of the shards."""
        return sum(shard.rows for shard in self.shards)

    @property
    def dropped_rows(self) -> int:
        """Rows in the ledger."""
        return sum(self.dropped.values())

    @property
    def hours(self) -> float:
        """Hours of these rows."""
        return sum(shard.seconds for shard in self.shards) / 3600


def read_inventory(root: Path) -> Inventory:
    """Read the inventory of a dataset; raises `DatasetError` if it is missing or damaged."""
    try:
        values = json.loads((root / INVENTORY_FILE).read_text(encoding="utf-8"))
        shards = [ShardEntry(**shard) for shard in values["shards"]]
        return Inventory(**values | {"shards": shards})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DatasetError(
            f"{root}: not a finished dataset, {INVENTORY_FILE} is missing or damaged "
            f"({error}); run `danish-asr convert`"
        ) from error


class Shard(NamedTuple):
    """One Parquet file with the keys of its path."""

    path: Path
    keys: Mapping[str, str]


def find_shards(path: Path) -> list[Shard]:
    """All shards below a dataset's ROOT or ``ROOT/version=0``, sorted by path.

    Raises:
        DatasetError: There is none.
    """
    root = path / VERSION_DIR if (path / VERSION_DIR).is_dir() else path
    shards = []
    for file in sorted(root.rglob("*.parquet")):
        keys = dict(part.split("=", 1) for part in file.relative_to(root).parts if "=" in part)
        if keys.keys() >= {"corpus", "split", "language"}:
            shards.append(Shard(file, keys))
    if not shards:
        raise DatasetError(
            f"{path}: no dataset, whose shards are {VERSION_DIR}/corpus=<corpus>/split=<split>/"
            "language=<language>/*.parquet; `danish-asr convert` writes them"
        )
    return shards


def shards_of_split(path: Path, split: str) -> list[Shard]:
    """The shards of ``<split>`` or ``<split>_<corpus>``; no file is opened.

    Raises:
        DatasetError: There is no dataset, or it has no such split.
    """
    shards = find_shards(path)
    name, _, corpus = split.partition("_")
    chosen = [
        shard
        for shard in shards
        if shard.keys["split"] == name and corpus in ("", shard.keys["corpus"])
    ]
    if not chosen:
        names = split_names(shards)
        listed = ", ".join(names) + splitting_hint(split, names)
        raise DatasetError(f"split '{split}' has no rows; the dataset has: {listed}")
    return chosen


def split_names(shards: Iterable[Shard]) -> list[str]:
    """Every name that :func:`shards_of_split` takes: splits, then ``<split>_<corpus>``."""
    pairs = {(shard.keys["split"], shard.keys["corpus"]) for shard in shards}
    splits = sorted({split for split, _ in pairs})
    return splits + sorted(f"{split}_{corpus}" for split, corpus in pairs)


def splitting_hint(split: str, names: Iterable[str]) -> str:
    """How to get a split of a dataset that has only training rows; empty for other datasets."""
    if split in SPLITS and all(name.startswith("train") for name in names):
        return "; `danish-asr convert ... --split-by-speaker 80/10/10` makes dev and test too"
    return ""
