"""The inventory of a built dataset, ``manifest.json``: its source, and what it must contain.

It is written last, so that its presence says that the dataset is complete. Nothing in it depends on
when the conversion ran or on how many processes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints

from danish_asr.errors import DatasetError
from danish_asr.files import publish_text
from danish_asr.schema import INVENTORY_FILE, SAMPLE_RATE

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardEntry:
    """One shard: its path below the root, its content, and the source files it was made from.

    ``fingerprint`` changes with the source rows.
    """

    path: str
    rows: int
    seconds: float
    sha256: str
    fingerprint: str
    files: tuple[str, ...]

    def partition(self, key: str) -> str:
        """Value of ``corpus``, ``split`` or ``language`` in the path; empty if it is not there."""
        return dict(part.partition("=")[::2] for part in self.path.split("/")).get(key, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One source file."""

    file: str
    rows: int
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropEntry:
    """How many rows of a dialect went to the ledger for a reason."""

    reason: str
    dialect: str | None
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Content of a built dataset.

    Attributes:
        name: Name of its card.
        source: What it was converted from, in the user's words.
        key: Digest of source and options.
        source_rows: Rows in the source.
        dropped: The ledger, summed up.
        unmapped_dialects: Dialect names of the source that map to no dialect, and their rows.
        files: The source files.
        shards: The shards, in the order of the plan.
        ledger_sha256: Digest of the ledger; None in datasets of earlier versions.
    """

    name: str
    source: str
    key: str
    source_rows: int
    dropped: tuple[DropEntry, ...]
    unmapped_dialects: dict[str, int]
    files: tuple[FileEntry, ...]
    shards: tuple[ShardEntry, ...]
    ledger_sha256: str | None = None

    @property
    def rows(self) -> int:
        """Rows written."""
        return sum(shard.rows for shard in self.shards)

    @property
    def dropped_rows(self) -> int:
        """Rows in the ledger."""
        return sum(entry.rows for entry in self.dropped)

    @property
    def hours(self) -> float:
        """Hours of audio written."""
        return sum(shard.seconds for shard in self.shards) / 3600

    def train_hours(self) -> dict[str, float]:
        """Hours of training audio by corpus, of the corpora that have any."""
        samples: Counter[str] = Counter()
        for shard in self.shards:
            if shard.partition("split") == "train":
                samples[shard.partition("corpus")] += round(shard.seconds * SAMPLE_RATE)
        return {corpus: seconds(count) / 3600 for corpus, count in samples.items()}


def write_inventory(root: Path, inventory: Inventory) -> None:
    """Write the inventory of a dataset atomically."""
    text = json.dumps(asdict(inventory), ensure_ascii=False, indent=1)
    publish_text(root / INVENTORY_FILE, text + "\n")


def read_inventory(root: Path) -> Inventory:
    """Read the inventory of a dataset.

    Raises:
        DatasetError: It is missing, so there is no finished dataset; or it is damaged.
    """
    path = root / INVENTORY_FILE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        for shard in values["shards"]:
            shard["files"] = tuple(shard["files"])
        for key, kind in (("dropped", DropEntry), ("files", FileEntry), ("shards", ShardEntry)):
            values[key] = tuple(_entry(kind, entry) for entry in values[key])
        return _entry(Inventory, values)
    except (FileNotFoundError, NotADirectoryError):
        raise DatasetError(
            f"{root}: not a finished dataset, {INVENTORY_FILE} is missing; `danish-asr convert` "
            "starts or continues one"
        ) from None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise DatasetError(
            f"{path}: cannot be read as the inventory of a built dataset ({error}); restore it "
            "from a copy, or delete the dataset and convert it again"
        ) from error


def _entry(kind: type[Entry], values: dict[str, Any]) -> Entry:
    """Build an entry from JSON.

    Raises:
        TypeError: A field is missing, unknown, or a text where a number belongs.
    """
    entry = kind(**values)
    for name, hint in get_type_hints(kind).items():
        expected, value = get_origin(hint) or hint, getattr(entry, name)
        if expected in {str, int, float, dict, tuple} and not isinstance(value, expected):
            raise TypeError(f"{name}: expected {expected.__name__}, found {value!r:.60}")
    return entry


def count_drops(rows: Iterable[dict[str, Any]]) -> tuple[DropEntry, ...]:
    """Count rows of the ledger by reason and dialect, the most frequent first."""
    counts = Counter((row["reason"], row["dialect"]) for row in rows)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or ""))
    return tuple(
        DropEntry(reason=reason, dialect=dialect, rows=rows) for (reason, dialect), rows in ordered
    )


def seconds(samples: int) -> float:
    """Samples of a built dataset as seconds."""
    return samples / SAMPLE_RATE
