"""Read a built dataset back and report all faults at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, combinations, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
import sentencepiece
from numpy.typing import NDArray

from danish_asr.conversion.cards import dataset_card, statistics, tokenizer_card
from danish_asr.conversion.char_tokenizer import SPECIAL_SYMBOLS, alphabet_of
from danish_asr.conversion.inventory import Inventory, read_inventory, seconds
from danish_asr.conversion.progress import watch
from danish_asr.conversion.verify_shard import (
    ShardFindings,
    check_shard,
    digest,
    few,
    guarded,
    sha256_of,
)
from danish_asr.schema import (
    CARDS_DIR,
    LEDGER_FILE,
    LEDGER_SCHEMA,
    SPLITS,
    STATISTICS_FILE,
    VERSION_DIR,
)
from danish_asr.text.profiles import normalize
from danish_asr.workers import run_in_processes
from danish_asr.yaml_text import from_yaml

LEAKS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "speakers": ("speaker_id", str),
    "sentences": ("text", lambda text: normalize(text, "coral")),
}
"""What splits should not share: its column, and the form of the values that is digested."""


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The result of reading a dataset back.

    Attributes:
        faults: What breaks the contract, a line each; none in a good dataset.
        notes: Leaks that were allowed.
        hours: Hours per split and dialect.
    """

    faults: tuple[str, ...]
    notes: tuple[str, ...]
    hours: dict[tuple[str, str | None], float]


def verify(
    root: Path,
    *,
    sample: int | None = None,
    workers: int = 1,
    allow_shared: Collection[str] = (),
) -> Verification:
    """Check a built dataset.

    Every file is compared with its sha256 in the inventory; shards that are as they were written
    are then checked for their columns, ids, leaks between splits and audio.

    Args:
        root: The dataset.
        sample: Rows whose audio is decoded, spread over all shards; None for all rows.
        workers: Processes.
        allow_shared: Which `LEAKS` are not faults.

    Raises:
        DatasetError: There is no finished dataset, or its inventory is damaged.
    """
    inventory = read_inventory(root)
    findings = _check_shards(root, inventory, sample, workers)
    faults = [fault for found in findings for fault in found.faults]
    faults += guarded(VERSION_DIR, _stray_files(root, inventory))
    faults += guarded(VERSION_DIR, _repeated_ids(root, findings))
    faults += guarded(LEDGER_FILE, _ledger_faults(root, inventory))
    faults += guarded(STATISTICS_FILE, _statistics_faults(root, inventory))
    faults += _card_faults(root, inventory, findings)
    leaks = {kind: list(guarded(VERSION_DIR, _shared(root, findings, kind))) for kind in LEAKS}
    faults += [leak for kind in LEAKS if kind not in allow_shared for leak in leaks[kind]]
    notes = [leak for kind in LEAKS if kind in allow_shared for leak in leaks[kind]]
    samples: Counter[tuple[str, str | None]] = Counter()
    for found in findings:
        for dialect, count in found.samples.items():
            samples[found.split, dialect] += count
    return Verification(
        faults=tuple(map(_one_line, faults)),
        notes=tuple(map(_one_line, notes)),
        hours={key: seconds(count) / 3600 for key, count in samples.items()},
    )


def _check_shards(
    root: Path, inventory: Inventory, sample: int | None, workers: int
) -> list[ShardFindings]:
    """Check all shards; their findings, in the order of the paths."""
    rows = [entry.rows for entry in inventory.shards]
    checks = [
        partial(check_shard, root, entry, decoded)
        for entry, decoded in zip(inventory.shards, spread(rows, sample), strict=True)
    ]
    workers = min(workers, len(checks))
    results = run_in_processes(_call, checks, workers) if workers > 1 else map(_call, checks)
    watched = watch("verified", results, ShardFindings.measure, sum(rows))
    return sorted(watched, key=lambda found: found.path)


def _call(check: partial[ShardFindings]) -> ShardFindings:
    return check()


def spread(rows: Sequence[int], sample: int | None) -> list[int]:
    """Rows of each shard that make up a sample, spread evenly over the rows of all shards."""
    total = max(1, sum(rows))
    share = total if sample is None else min(sample, total)
    ends = (end * share // total for end in accumulate(rows, initial=0))
    return [end - begin for begin, end in pairwise(ends)]


def _stray_files(root: Path, inventory: Inventory) -> Iterator[str]:
    """Files among the shards that readers would read with them.

    Upstream reads every file whose name begins with neither ``.`` nor ``_``; we read ``*.parquet``.
    """
    shards = {entry.path for entry in inventory.shards}
    for path in sorted((root / VERSION_DIR).rglob("*")):
        place = path.relative_to(root).as_posix()
        is_read = path.suffix == ".parquet" or not path.name.startswith((".", "_"))
        if is_read and place not in shards and (path.is_symlink() or not path.is_dir()):
            yield f"{place}: is not in manifest.json, but readers would read it; remove it"


def _repeated_ids(root: Path, findings: Sequence[ShardFindings]) -> Iterator[str]:
    values, counts = np.unique(_joined(found.ids for found in findings), return_counts=True)
    if not (repeated := set(values[counts > 1].tolist())):
        return
    places: defaultdict[str, list[str]] = defaultdict(list)
    for found in findings:
        if not repeated.isdisjoint(found.ids):
            for id_ in _values(root / found.path, "id"):
                if id_ is not None and digest(id_) in repeated:
                    places[id_].append(found.path)
    names = (f"{id_} (in {' and '.join(dict.fromkeys(paths))})" for id_, paths in places.items())
    yield f"{VERSION_DIR}: ids that occur more than once: {few(names, len(places))}"


def _shared(root: Path, findings: Sequence[ShardFindings], kind: str) -> Iterator[str]:
    """What two splits share, for each two splits that share any of a kind of `LEAKS`."""
    column, form = LEAKS[kind]
    of_split = {
        split: np.unique(_joined(getattr(f, kind) for f in findings if f.split == split))
        for split in SPLITS
    }
    for one, other in combinations(SPLITS, 2):
        common = np.intersect1d(of_split[one], of_split[other], assume_unique=True)
        if len(common):
            example = next(
                value
                for found in findings
                if found.split == other and int(common[0]) in getattr(found, kind)
                for value in _values(root / found.path, column)
                if value is not None and digest(form(value)) == common[0]
            )
            what = kind if len(common) > 1 else kind.removesuffix("s")
            yield (
                f"{one} and {other} share {len(common):,} {what}, such as '{example}'; use "
                f"--allow-shared {kind} if that is intended"
            )


def _joined(parts: Iterable[Any]) -> NDArray[np.uint64]:
    return np.concatenate([np.empty(0, np.uint64), *(np.frombuffer(p, np.uint64) for p in parts)])


def _values(path: Path, column: str) -> Iterator[str | None]:
    with pq.ParquetFile(path) as parquet:
        yield from parquet.read([column], use_threads=False)[column].to_pylist()


def _ledger_faults(root: Path, inventory: Inventory) -> Iterator[str]:
    path = root / LEDGER_FILE
    if inventory.ledger_sha256 is not None and sha256_of(path) != inventory.ledger_sha256:
        yield f"{LEDGER_FILE}: its sha256 differs from manifest.json"
        return
    with pq.ParquetFile(path) as ledger:
        if not ledger.schema_arrow.equals(LEDGER_SCHEMA):
            yield f"{LEDGER_FILE}: its columns differ from data/README.md"
        rows = ledger.metadata.num_rows
    if inventory.rows + rows != inventory.source_rows:
        yield (
            f"{LEDGER_FILE}: {inventory.rows} rows written and {rows} in the ledger are not the "
            f"{inventory.source_rows} rows of the source"
        )


def _statistics_faults(root: Path, inventory: Inventory) -> Iterator[str]:
    expected = statistics(inventory.train_hours())
    if (root / STATISTICS_FILE).read_text(encoding="utf-8") != expected:
        yield f"{STATISTICS_FILE}: differs from the training hours in manifest.json: {expected!r}"


def _card_faults(
    root: Path, inventory: Inventory, findings: Sequence[ShardFindings]
) -> Iterator[str]:
    """Check the card of the dataset, and card and model of its tokenizer."""
    name = inventory.name
    characters = {
        character for found in findings if found.split == "train" for character in found.characters
    }
    with_tokenizer = any(entry.partition("split") == "train" for entry in inventory.shards)
    cards = {f"{CARDS_DIR}/{name}.yaml": dataset_card(root, name, with_tokenizer=with_tokenizer)}
    if with_tokenizer:
        tokenizer = tokenizer_card(name)
        cards[f"{CARDS_DIR}/{tokenizer['name']}.yaml"] = tokenizer
        model = f"{CARDS_DIR}/{tokenizer['tokenizer']}"
        yield from guarded(model, _model_faults(root, model, alphabet_of(characters)))
    for place, expected in cards.items():
        yield from guarded(place, _differences(root, place, expected))


def _differences(root: Path, place: str, expected: Mapping[str, Any]) -> Iterator[str]:
    card = from_yaml((root / place).read_text(encoding="utf-8"))
    for key, value in expected.items():
        found = card.get(key) if isinstance(card, dict) else None
        if found != value:
            hint = "; a moved dataset needs its new path there" if key == "dataset_config" else ""
            yield f"{place}: expected {key} {value}, found {found}{hint}"


def _model_faults(root: Path, place: str, alphabet: Sequence[str]) -> Iterator[str]:
    content = (root / place).read_bytes()
    model = sentencepiece.SentencePieceProcessor()
    try:
        model.LoadFromSerializedProto(content)
    except RuntimeError:
        yield f"{place}: is not a SentencePiece model"
        return
    symbols = [model.id_to_piece(index) for index in range(model.get_piece_size())]
    if tuple(symbols[: len(SPECIAL_SYMBOLS)]) != SPECIAL_SYMBOLS:
        yield f"{place}: its first symbols are not {' '.join(SPECIAL_SYMBOLS)}"
    if missing := sorted(set(alphabet) - set(symbols)):
        yield f"{place}: lacks symbols of the training text: {few(missing, len(missing))}"


def _one_line(fault: str) -> str:
    """The fault on one line, whatever characters the names in it have."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in fault
    )
