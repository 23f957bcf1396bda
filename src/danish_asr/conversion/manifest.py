"""``manifest.json``: what a built dataset was made from, and what it must contain.

It is written last, so that its presence says that the dataset is complete. Nothing in it depends on
when or by how many processes it was made.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from danish_asr.errors import DatasetError
from danish_asr.files import publish_text
from danish_asr.schema import MANIFEST_FILE, SAMPLE_RATE


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardEntry:
    """One shard: its path below the root, its content, and what it was made from.

    ``fingerprint`` changes with the source rows; ``files`` are those that they stand in.
    """

    path: str
    rows: int
    seconds: float
    sha256: str
    fingerprint: str
    files: tuple[str, ...]


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
class Manifest:
    """A built dataset's content.

    Attributes:
        name: Name of its card.
        source: What it was converted from, in the user's words.
        key: Digest of source and options.
        source_rows: Rows in the source.
        dropped: The ledger, summed up.
        unmapped_dialects: Dialect names that no dialect is known for, and their rows.
        files: The source files.
        shards: The shards, in the order of the plan.
    """

    name: str
    source: str
    key: str
    source_rows: int
    dropped: tuple[DropEntry, ...]
    unmapped_dialects: dict[str, int]
    files: tuple[FileEntry, ...]
    shards: tuple[ShardEntry, ...]

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


def write_manifest(root: Path, manifest: Manifest) -> None:
    """Write the manifest of a dataset atomically."""
    text = json.dumps(asdict(manifest), ensure_ascii=False, indent=1)
    publish_text(root / MANIFEST_FILE, text + "\n")


def read_manifest(root: Path) -> Manifest:
    """Read the manifest of a dataset.

    Raises:
        DatasetError: There is none, so that the dataset is unfinished or no dataset; or it is not
            of our making.
    """
    path = root / MANIFEST_FILE
    if not path.is_file():
        raise DatasetError(
            f"{root}: no finished dataset, {MANIFEST_FILE} is missing; `danish-asr convert` begins "
            "or continues one"
        )
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Manifest(
            **values
            | {
                "dropped": tuple(DropEntry(**entry) for entry in values["dropped"]),
                "files": tuple(FileEntry(**entry) for entry in values["files"]),
                "shards": tuple(
                    ShardEntry(**entry | {"files": tuple(entry["files"])})
                    for entry in values["shards"]
                ),
            }
        )
    except (ValueError, TypeError, KeyError) as error:
        raise DatasetError(f"{path}: not a manifest of this program ({error})") from error


def count_drops(drops: Sequence[tuple[str, str | None]]) -> tuple[DropEntry, ...]:
    """Sum up (reason, dialect) pairs, the most frequent first."""
    counts = Counter(drops)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or ""))
    return tuple(
        DropEntry(reason=reason, dialect=dialect, rows=rows) for (reason, dialect), rows in ordered
    )


def seconds(samples: int) -> float:
    """Samples of a built dataset as seconds."""
    return samples / SAMPLE_RATE
