"""``manifest.json``: what a built dataset was made from, and what it must contain.

It is written last, so that its presence says that the dataset is complete. Nothing in it depends on
when or by how many processes it was made.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from danish_asr.errors import DatasetError
from danish_asr.files import publish_text
from danish_asr.regular_file import regular_file
from danish_asr.schema import MANIFEST_FILE, SAMPLE_RATE

_MOST: Final = 1 << 53
_LONGEST: Final = 60
"""Characters of a wrong value that are told."""

_JSON: Final[dict[Any, str]] = {
    tuple: "a list",
    dict: "an object",
    int: "a whole number from 0",
    float: "a number from 0",
    str: "a text",
    UnionType: "a text or null",
}
"""What types are in the file."""


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
        ledger_sha256: Digest of the ledger; None where an earlier build did not tell it.
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
    try:
        document = json.loads(regular_file(path).read_bytes().decode())
        manifest: Manifest = _build(Manifest, document, "manifest")
    except (FileNotFoundError, NotADirectoryError):
        raise DatasetError(
            f"{root}: no finished dataset, {MANIFEST_FILE} is missing; `danish-asr convert` begins "
            "or continues one"
        ) from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: not a manifest of this program ({error})") from error
    return manifest


def _build(kind: Any, value: Any, where: str) -> Any:
    """Build a value of a type of this module from what JSON gave.

    Raises:
        ValueError: It does not fit.
    """
    types, items = _fields(kind), get_args(kind)
    if types and isinstance(value, dict):
        if types.keys() >= value.keys() >= _needed(kind):
            return kind(**{key: _build(types[key], value[key], f"{where}.{key}") for key in value})
    elif get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_build(items[0], item, f"{where}[{at}]") for at, item in enumerate(value))
    elif get_origin(kind) is dict and isinstance(value, dict):
        return {key: _build(items[1], item, f"{where}.{key}") for key, item in value.items()}
    elif kind in {int, float}:
        # Whatever is counted here: NaN and infinity are none, and neither is what a float blurs.
        if type(value) in {int, kind} and 0 <= value < _MOST:
            return value
    elif get_origin(kind) in {None, UnionType} and isinstance(value, kind):
        return value
    expected = f"an object with {', '.join(types)}" if types else _JSON[get_origin(kind) or kind]
    raise ValueError(f"{where}: expected {expected}, found {json.dumps(value)[:_LONGEST]}")


@cache
def _fields(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields; of any other type it has none."""
    return get_type_hints(kind) if is_dataclass(kind) else {}


@cache
def _needed(kind: Any) -> set[str]:
    """The fields of a dataclass that have no default."""
    return {field.name for field in fields(kind) if field.default is MISSING}


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
