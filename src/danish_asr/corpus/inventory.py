"""The shards of a built dataset: as ``manifest.json`` lists them, and as their paths name them.

Every reader of a dataset finds its shards here: one that was added or lost changes numbers.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from danish_asr.base.errors import DatasetError, IncompleteDatasetError
from danish_asr.base.files import AnyPath
from danish_asr.base.schema import (
    CARDS_DIR,
    INVENTORY_FILE,
    LEDGER_FILE,
    README_FILE,
    SPLITS,
    STATISTICS_FILE,
    SUSPECTS_FILE,
    VERSION_DIR,
    WORK_DIR,
)

_CONTENT: Final = (
    *(INVENTORY_FILE, VERSION_DIR, CARDS_DIR),
    *(LEDGER_FILE, SUSPECTS_FILE, STATISTICS_FILE, README_FILE),
)

KEY_FILE: Final = f"{WORK_DIR}/key"
"""Of a conversion that is not finished: the key of its work, and in the next line the command;
without one if Python has called it."""

_SHOWN: Final = 5  # faults in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedShard:
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
    shards: list[ListedShard]  # by path
    ledger_sha256: str
    suspects_sha256: str
    summary: list[str]  # lines about what was read; if it is combined, about ``--without``
    share_people: list[list[str]] = field(default_factory=list)  # see `people.persons_of`

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


def content_of(root: AnyPath) -> list[Path]:
    """The files and folders that a dataset at ``root`` has, its inventory first."""
    return [Path(root) / name for name in _CONTENT]


def read_inventory(root: Path) -> Inventory:
    """Read the inventory of a dataset; raises `DatasetError` if it is missing or damaged."""
    if not root.is_dir():
        what = "not a folder" if root.exists() else "no such folder"
        raise DatasetError(f"{root}: {what}; expected a dataset of `danish-asr convert`")
    try:
        values = json.loads((root / INVENTORY_FILE).read_text(encoding="utf-8"))
        shards = [ListedShard(**shard) for shard in values["shards"]]
        return Inventory(**values | {"shards": shards})
    except FileNotFoundError:
        raise DatasetError(
            _how_to_continue(root)
            or f"{root}: not a dataset, {INVENTORY_FILE} is missing; run `danish-asr convert`"
        ) from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DatasetError(
            f"{root}: {INVENTORY_FILE} is damaged ({error}); restore it from a copy, or delete the "
            "dataset and make it again"
        ) from error


def _how_to_continue(root: Path) -> str:
    """What to say of a dataset whose conversion was stopped; empty if there is none."""
    if not (root / KEY_FILE).is_file():
        return ""
    command = (root / KEY_FILE).read_text(encoding="utf-8", errors="replace").partition("\n")[2]
    return (
        f"{root}: not finished, as its conversion was stopped or still runs; the same command "
        f"continues it{command and f': {command}'}"
    )


class ShardFile(NamedTuple):
    """One Parquet file with the keys of its path."""

    path: Path
    keys: Mapping[str, str]


def find_shards(path: Path) -> list[ShardFile]:
    """All shards below a dataset's ROOT or ``ROOT/version=0``, sorted by path.

    Raises:
        DatasetError: There is none.
        IncompleteDatasetError: They are not those that ``manifest.json`` lists, or not finished. A
            dataset of another program has no such file.
    """
    files, root = files_of(path), root_of(path)
    if (root / INVENTORY_FILE).is_file():
        check_listed(root, read_inventory(root), files)
    elif unfinished := _how_to_continue(root):
        raise IncompleteDatasetError(unfinished)
    shards = []
    for place, file in files.items():
        keys = dict(part.split("=", 1) for part in place.split("/")[1:] if "=" in part)
        if keys.keys() >= {"corpus", "split", "language"}:
            shards.append(ShardFile(file, keys))
    if not shards:
        raise DatasetError(
            f"{path}: no dataset, whose shards are {VERSION_DIR}/corpus=<corpus>/split=<split>/"
            "language=<language>/*.parquet; `danish-asr convert` writes them"
        )
    return shards


def root_of(path: Path) -> Path:
    """The directory with the inventory and the cards, of a dataset's ROOT or ``ROOT/version=0``."""
    path = path.resolve()
    return path.parent if path.name == VERSION_DIR else path


def files_of(path: Path) -> dict[str, Path]:
    """The files below ROOT or ``ROOT/version=0``, sorted, by their paths in the inventory."""
    is_root = (path / VERSION_DIR).is_dir() or (path / INVENTORY_FILE).is_file()
    folder = path / VERSION_DIR if is_root else path
    files = sorted(folder.rglob("*.parquet"))
    return {f"{VERSION_DIR}/{file.relative_to(folder).as_posix()}": file for file in files}


def unlisted(inventory: Inventory, found: Collection[str]) -> list[str]:
    """What is wrong with the shards that were found, by their paths: some are stray, or missing."""
    listed = {shard.path for shard in inventory.shards}
    stray = [
        f"{place}: not in {INVENTORY_FILE}; move it out of the dataset"
        for place in sorted({*found} - listed)
    ]
    missing = [
        f"{place}: missing, and in {INVENTORY_FILE}; restore it, or delete the dataset and convert "
        "or combine again"
        for place in sorted(listed - {*found})
    ]
    return [*stray, *missing]


def check_listed(root: Path, inventory: Inventory, found: Collection[str]) -> None:
    """Raise `IncompleteDatasetError` if the shards that were found are not those listed."""
    faults = unlisted(inventory, found)
    if faults:
        more = ["..."] if len(faults) > _SHOWN else []
        lines = [f"{root}: shards that differ from {INVENTORY_FILE}: {len(faults):,}"]
        raise IncompleteDatasetError("\n  - ".join([*lines, *faults[:_SHOWN], *more]))


def name_of(path: Path) -> str:
    """The name of a dataset, of its folder without inventory; raises `DatasetError` as below."""
    root = root_of(path)
    return read_inventory(root).name if (root / INVENTORY_FILE).is_file() else root.resolve().name


def share_people_of(path: Path) -> list[list[str]]:
    """Which corpora of a dataset share people, see `people.persons_of`; without inventory none.

    Raises:
        DatasetError: The inventory is damaged.
    """
    root = root_of(path)
    return read_inventory(root).share_people if (root / INVENTORY_FILE).is_file() else []


def splits_of(path: Path) -> dict[str, list[ShardFile]]:
    """The shards of every split, ``<split>``, and of its part of a corpus, ``<split>_<corpus>``.

    Raises:
        DatasetError: There is no dataset.
    """
    splits = defaultdict[str, list[ShardFile]](list)
    for shard in find_shards(path):
        split, corpus = shard.keys["split"], shard.keys["corpus"]
        splits[split].append(shard)
        splits[f"{split}_{corpus}"].append(shard)
    return dict(splits)


def shards_of_split(path: Path, split: str) -> list[ShardFile]:
    """The shards of one name of `splits_of`; raises `DatasetError` if it is not there."""
    splits = splits_of(path)
    if split not in splits:
        raise DatasetError(missing_split(split, splits))
    return splits[split]


def missing_split(split: str, names: Collection[str]) -> str:
    """What to say of a split that a dataset has not, and how it gets one beside train."""
    hint = ""
    if split in SPLITS and all(name.startswith("train") for name in names):
        hint = "; `danish-asr convert ... --split-by-speaker 80/10/10` makes dev and test too"
    return f"no split '{split}'; the dataset has: {', '.join(sorted(names))}{hint}"
