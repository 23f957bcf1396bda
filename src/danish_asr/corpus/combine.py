"""Combine built datasets to one, without copying audio.

The dataset has a hard link to each shard of its parts, below the same corpus and split, and small
files of its own. It is whole: it can be moved, and its parts deleted. The inventory is removed
first and written last, so that a combination that was stopped is none; the same command ends it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from danish_asr.base.errors import DatasetError
from danish_asr.base.excluded import (
    EXCLUDED_FILE,
    excluded_table,
    merged_reasons,
    read_excluded,
    read_ids,
)
from danish_asr.base.files import publish, publish_json, publish_text, sha256_of, sweep
from danish_asr.base.schema import (
    INVENTORY_FILE,
    LEDGER_FILE,
    LEDGER_SCHEMA,
    README_FILE,
    SPLITS,
    STATISTICS_FILE,
    SUSPECTS_FILE,
    SUSPECTS_SCHEMA,
    VERSION_DIR,
)
from danish_asr.corpus.cards import readme, statistics, write_cards
from danish_asr.corpus.convert import locked
from danish_asr.corpus.leaks import LEAKS, Leak, by_split, leaks_of
from danish_asr.corpus.links import check_links, placed, remove_other_shards
from danish_asr.corpus.lost import added
from danish_asr.corpus.parts import (
    Conventions,
    Findings,
    Part,
    check_ids,
    check_name,
    conventions_of,
    corpora_of_several,
    examine,
    read_parts,
)
from danish_asr.corpus.people import people_notes
from danish_asr.corpus.shard_check import ShardFindings
from danish_asr.corpus.shards import Inventory, ShardEntry, read_inventory
from danish_asr.corpus.tasks import OURS, WORK_DIR, digest

MARK: Final = ".combine"
"""A file that an unfinished combination has, with the name of the dataset."""


@dataclass(frozen=True, kw_only=True)
class CombineOptions:
    """Options of a combination, with the defaults of ``danish-asr combine``."""

    without: tuple[Path, ...] = ()  # lists of ids to leave out
    drop_shared: tuple[str, ...] = ()  # kinds of `LEAKS`: rows that a later split has are left out
    copy: bool = False  # copy the shards instead of linking them


@dataclass(frozen=True, kw_only=True)
class Combination:
    """A dataset that was combined, and what to say about it."""

    inventory: Inventory
    conventions: Conventions
    leaks: list[Leak]
    changes: list[str]  # what is not as in the earlier combination


def combine(
    parts: Sequence[Path],
    out: Path,
    *,
    name: str,
    options: CombineOptions | None = None,
    workers: int = 1,
) -> Combination:
    """Combine datasets below ``out``, or change the parts of an earlier combination there.

    Raises:
        DatasetError: A part is unfinished or damaged, parts share a name or ids, ``out`` holds
            something else, or shards cannot be linked to it.
    """
    options = options or CombineOptions()
    _check_out(out, parts, name)
    sources = read_parts(parts)
    check_name(name, sources)
    lists = {path: read_ids(path, DatasetError) for path in options.without}
    listed = merged_reasons(lists.values())
    excluded = merged_reasons([*(part.excluded for part in sources), listed])
    findings = examine(sources, excluded, workers)
    check_ids(findings)
    notes = _unknown_ids(findings, listed)
    if dropped := _shared_rows(findings, options.drop_shared):
        excluded |= dropped
        findings = examine(sources, excluded, workers, findings)
    shards = list(chain.from_iterable(findings.values()))
    excluded = {name: excluded[name] for shard in shards for name in shard.excluded}
    notes += [*corpora_of_several(sources), *_exclusion_notes(shards)]
    notes += people_notes(by_split(shards))
    changes = [f"{path}: has no ids" for path, ids in lists.items() if not ids]
    plan = _Plan(out, name, sources, findings, excluded, notes)
    with locked(out):
        _check_out(out, parts, name)
        sweep(out)
        if not options.copy:
            check_links(out, sources)
        changes += _returned(out, shards)
        inventory = _write(plan, copy=options.copy)
    return Combination(
        inventory=inventory,
        conventions=conventions_of(findings),
        leaks=[leak for kind in LEAKS for leak in leaks_of(shards, kind)],
        changes=changes,
    )


class _Plan(NamedTuple):
    """What is written."""

    out: Path
    name: str
    parts: list[Part]
    findings: Findings
    excluded: Mapping[str, str]
    notes: list[str]


def _check_out(out: Path, parts: Sequence[Path], name: str) -> None:
    """Refuse a directory that holds anything but a combination of this name."""
    for part in parts:
        if part.resolve() in {out.resolve(), *out.resolve().parents}:
            found = "one of the parts" if part.resolve() == out.resolve() else f"inside {part}"
            raise DatasetError(f"{out}: is {found}; choose another --out")
    if (out / MARK).is_file():
        own = (out / MARK).read_text(encoding="utf-8")
    elif (out / INVENTORY_FILE).is_file():
        inventory = read_inventory(out)
        if not inventory.parts:
            raise DatasetError(
                f"{out}: holds the dataset '{inventory.name}' of `danish-asr convert`; choose "
                "another --out, a new folder"
            )
        own = inventory.name
    else:
        present = [place for place in (VERSION_DIR, WORK_DIR, *OURS) if (out / place).exists()]
        if present:
            raise DatasetError(
                f"{out}: holds {', '.join(present)}, which `danish-asr combine` did not write and "
                "would overwrite; choose another --out, a new folder"
            )
        if others := sorted(path.name for path in out.glob("[!.]*")):
            raise DatasetError(
                f"{out}: holds {others[0]}, which is not part of a dataset; choose another --out, "
                "a new folder"
            )
        return
    if own != name:
        raise DatasetError(
            f"{out}: holds the combined dataset '{own}'; change it with --name {own}, or choose "
            "another --out"
        )


def _returned(out: Path, shards: Iterable[ShardFindings]) -> Iterator[str]:
    """Say how many rows the earlier combination left out and this one has."""
    earlier = pa.array(read_excluded(out), pa.string())
    ids = (shard.compared["id"] for shard in shards)
    if rows := sum(pc.sum(pc.is_in(own, earlier)).as_py() or 0 for own in ids):
        yield f"{rows:,} rows that were left out before come back"


def _unknown_ids(findings: Findings, listed: Mapping[str, str]) -> list[str]:
    """Say how many ids of the lists are in no part; raises `DatasetError` if none is in one."""
    left_out = chain.from_iterable(shard.excluded for own in findings.values() for shard in own)
    unknown = listed.keys() - left_out
    if listed and len(unknown) == len(listed):
        raise DatasetError(
            f"--without: none of the {len(listed):,} ids is in the parts, such as "
            f"{next(iter(listed))!r}; expected those of the column id"
        )
    count = f"{len(unknown):,} of {len(listed):,}"
    return [f"{count} ids of --without are in no part"] if unknown else []


def _shared_rows(findings: Findings, kinds: Iterable[str]) -> dict[str, str]:
    """The rows whose speaker, sentence or audio a later split has, with the reason."""
    shards = list(chain.from_iterable(findings.values()))
    return {
        name: f"{kind} shared with another split"
        for kind in kinds
        for leak in leaks_of(shards, kind)
        for name in leak.ids
    }


def _exclusion_notes(shards: Iterable[ShardFindings]) -> Iterator[str]:
    """Say how many rows of each split are left out; raises `DatasetError` if all of one are."""
    rows, all_rows = Counter[str](), Counter[str]()
    for shard in shards:
        rows[shard.split] += len(shard.excluded)
        all_rows[shard.split] += shard.entry.rows
    if empty := [split for split in all_rows if rows[split] == all_rows[split]]:
        raise DatasetError(
            f"--without and --drop-shared leave no row of {' and '.join(empty)}; leave fewer rows "
            "out, or divide the rows anew: convert the parts again with --split-by-speaker 80/10/10"
        )
    for split in SPLITS:
        if rows[split]:
            other = "; scores are those of the other rows" if split == "test" else ""
            yield f"{rows[split]:,} rows of {split} are left out, see {EXCLUDED_FILE}{other}"


def _write(plan: _Plan, *, copy: bool) -> Inventory:
    """Write the dataset, its inventory last."""
    out, findings, excluded = plan.out, plan.findings, plan.excluded
    publish_text(out / MARK, plan.name)
    (out / INVENTORY_FILE).unlink(missing_ok=True)
    shards = [
        placed(part, shard, out, copy=copy) for part in plan.parts for shard in findings[part.name]
    ]
    remove_other_shards(out, {entry.path for entry in shards})
    _write_tables(plan)
    if excluded:
        publish_text(out / EXCLUDED_FILE, excluded_table(excluded))
    else:
        (out / EXCLUDED_FILE).unlink(missing_ok=True)
    publish_text(out / STATISTICS_FILE, statistics(shards))
    training = (shard for own in findings.values() for shard in own if shard.split == "train")
    write_cards(out, plan.name, set[str]().union(*(shard.characters for shard in training)))
    inventory = _inventory(plan, shards)
    publish_text(out / README_FILE, readme(out, inventory))
    sweep(out)
    publish_json(out / INVENTORY_FILE, asdict(inventory))
    (out / MARK).unlink()
    return inventory


def _write_tables(plan: _Plan) -> None:
    """Write the ledgers and the suspects of all parts, without suspects that are left out."""
    excluded = pa.array(plan.excluded, pa.string())
    ledgers, suspects = [LEDGER_SCHEMA.empty_table()], [SUSPECTS_SCHEMA.empty_table()]
    for part in plan.parts:
        ledger = pq.read_table(part.root / LEDGER_FILE)
        names = pc.binary_join_element_wise(part.name, ledger["source"], "/")
        ledger = ledger.set_column(ledger.column_names.index("source"), "source", names)
        ledgers.append(ledger.cast(LEDGER_SCHEMA))
        rows = pq.read_table(part.root / SUSPECTS_FILE).cast(SUSPECTS_SCHEMA)
        suspects.append(rows.filter(pc.invert(pc.is_in(rows["id"], excluded))))
    for place, tables in ((LEDGER_FILE, ledgers), (SUSPECTS_FILE, suspects)):
        with publish(plan.out / place) as stream:
            pq.write_table(pa.concat_tables(tables), stream)


def _inventory(plan: _Plan, shards: list[ShardEntry]) -> Inventory:
    out, parts, excluded = plan.out, plan.parts, plan.excluded
    own = [part.inventory for part in parts]
    suspects = Counter(pq.read_table(out / SUSPECTS_FILE)["reason"].to_pylist())
    contents = [(part.name, part.sha256) for part in parts]
    return Inventory(
        name=plan.name,
        source=", ".join(part.name for part in parts),
        key=digest([plan.name, contents, sorted(excluded.items())]),
        source_rows=sum(inventory.source_rows for inventory in own),
        dropped=_dropped(own),
        unmapped_dialects=dict(sorted(added(each.unmapped_dialects for each in own).items())),
        files=[
            file | {"file": f"{part.name}/{file['file']}"}
            for part in parts
            for file in part.inventory.files
        ],
        shards=shards,
        ledger_sha256=sha256_of(out / LEDGER_FILE),
        suspects_sha256=sha256_of(out / SUSPECTS_FILE),
        countries=dict(sorted(added(inventory.countries for inventory in own).items())),
        suspects=dict(sorted(suspects.items())),
        notes=plan.notes,
        parts=[
            {"name": part.name, "source": part.inventory.source, "sha256": part.sha256}
            for part in parts
        ],
        excluded_sha256=sha256_of(out / EXCLUDED_FILE) if excluded else "",
    )


def _dropped(inventories: Iterable[Inventory]) -> list[dict[str, Any]]:
    rows: Counter[tuple[str, str | None]] = Counter()
    for inventory in inventories:
        for entry in inventory.dropped:
            rows[entry["reason"], entry["dialect"]] += entry["rows"]
    ordered = sorted(rows.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or ""))
    return [
        {"reason": reason, "dialect": dialect, "rows": count}
        for (reason, dialect), count in ordered
    ]
