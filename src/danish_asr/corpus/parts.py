"""The datasets that are combined to one, and what is compared between them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from danish_asr.base.errors import DatasetError
from danish_asr.base.excluded import read_excluded
from danish_asr.base.files import sha256_of
from danish_asr.base.progress import watch
from danish_asr.base.schema import INVENTORY_FILE, SAMPLE_RATE
from danish_asr.base.workers import run_in_processes
from danish_asr.corpus.leaks import compared_rows
from danish_asr.corpus.shard_check import CONVENTIONS, ShardFindings, check_shard, few
from danish_asr.corpus.shards import Inventory, read_inventory
from danish_asr.corpus.texts import text_profiles

_NEGLIGIBLE: Final = 0.001
"""A share of the rows below which a part does not have a convention."""

_APART: Final = 0.2
"""Shares of the rows further apart than this are those of two conventions."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A built dataset that is combined with others."""

    root: Path
    inventory: Inventory
    sha256: str  # of its inventory
    excluded: Mapping[str, str]  # reasons by id

    @property
    def name(self) -> str:
        """The name of its card."""
        return self.inventory.name

    @property
    def languages(self) -> list[str]:
        """Of its rows."""
        return sorted({shard.partition("language") for shard in self.inventory.shards})


def read_parts(roots: Iterable[Path]) -> list[Part]:
    """Read the inventories of datasets, in the order of their names.

    Raises:
        DatasetError: One is not finished, two have the same name, or languages differ.
    """
    parts = [
        Part(
            root=root,
            inventory=read_inventory(root),
            sha256=sha256_of(root / INVENTORY_FILE),
            excluded=read_excluded(root),
        )
        for root in roots
    ]
    parts.sort(key=lambda part: part.name)
    for name, count in Counter(part.name for part in parts).items():
        if count > 1:
            own = " and ".join(str(part.root) for part in parts if part.name == name)
            raise DatasetError(
                f"{own} have the same name '{name}'; convert one again with another --name"
            )
    if len({language for part in parts for language in part.languages}) > 1:
        languages = ", ".join(f"{part.name} has {'/'.join(part.languages)}" for part in parts)
        raise DatasetError(f"a dataset has one language, and these have several: {languages}")
    return parts


Findings = Mapping[str, Sequence[ShardFindings]]
"""What the shards of each part hold, by the part's name and in the order of their paths."""


def examine(
    parts: Iterable[Part],
    excluded: Mapping[str, str],
    workers: int,
    known: Findings | None = None,
) -> Findings:
    """Read all parts without decoding their audio, and compare their checksums.

    Shards that are ``known`` already are read again if ids of theirs are now excluded.

    Raises:
        DatasetError: A part is damaged.
    """
    findings, ids = {}, pa.array(excluded, pa.string())
    for part in parts:
        kept = [
            shard
            for shard in (known or {}).get(part.name, ())
            if not pc.any(pc.is_in(shard.compared["id"], ids)).as_py()
        ]
        paths = {shard.entry.path for shard in kept}
        tasks = [(entry, 0) for entry in part.inventory.shards if entry.path not in paths]
        check = partial(check_shard, root=part.root, excluded=frozenset(excluded))
        results: Iterable[ShardFindings] = run_in_processes(check, tasks, workers)
        if tasks:
            results = watch(
                f"read {part.name}:",
                results,
                lambda shard: (shard.entry.rows, round(shard.entry.seconds * SAMPLE_RATE)),
                sum(entry.rows for entry, _ in tasks),
            )
        findings[part.name] = sorted([*kept, *results], key=lambda shard: shard.entry.path)
        faults = [*chain.from_iterable(shard.faults for shard in findings[part.name])]
        if faults:
            more = f" and {len(faults) - 1:,} more faults" if len(faults) > 1 else ""
            raise DatasetError(
                f"{part.root}: is damaged ({faults[0]}{more}); `danish-asr verify {part.root}` "
                "lists all"
            )
    return findings


def check_ids(findings: Findings) -> None:
    """Raise `DatasetError` if an id is in several parts."""
    tables = {name: compared_rows(own) for name, own in findings.items()}
    for one, other in combinations(tables, 2):
        own, others = tables[one], tables[other]
        shared = own["id"].filter(pc.is_in(own["id"], others["id"].combine_chunks()))
        if not shared:
            continue
        audio = zip(*(_audio_of(table, shared) for table in (own, others)), strict=True)
        same = sum(first == second for first, second in audio)
        raise DatasetError(
            f"{one} and {other} share {len(shared):,} ids: {few(shared.to_pylist())}; the audio of "
            f"{same:,} of them is the same. Leave out a part whose rows the other has. Different "
            "recordings need ids of their own: convert one of the parts again with --column id=... "
            "or from a file or folder of another name"
        )


def _audio_of(rows: pa.Table, ids: pa.ChunkedArray) -> list[bytes | None]:
    audio = dict(zip(rows["id"].to_pylist(), rows["audio"].to_pylist(), strict=True))
    return [audio[name] for name in ids.to_pylist()]


def check_name(name: str, parts: Iterable[Part]) -> None:
    """Raise `DatasetError` for the name of a part: fairseq2 refuses two cards of one name."""
    for part in parts:
        if part.name == name:
            raise DatasetError(
                f"--name {name}: is the name of the part {part.root}, and training refuses two "
                "cards of one name; choose another"
            )


def corpora_of_several(parts: Sequence[Part]) -> Iterator[str]:
    """Say which corpora are in several parts, and so have one weight and one row in tables."""
    names = defaultdict(list)
    for part in parts:
        for corpus in sorted({shard.partition("corpus") for shard in part.inventory.shards}):
            names[corpus].append(part.name)
    for corpus, own in names.items():
        if len(own) > 1:
            yield f"corpus {corpus} is in {' and '.join(own)}: they are one corpus"


class Conventions(NamedTuple):
    """What the transcripts of the parts look like, and under which text profiles they agree."""

    shares: dict[str, dict[str, float]]  # of the rows, by part with rows and by `CONVENTIONS`
    equal_under: list[str]
    differ: bool

    def advice(self) -> str:
        """A line for people."""
        if not self.differ:
            return "the transcripts of all parts follow the same conventions"
        if not self.equal_under:
            return "no text profile makes the transcripts of all parts equal; write one of your own"
        profiles = " or ".join(self.equal_under)
        return f"the transcripts differ; dataset.text_profile={profiles} makes them equal"


def conventions_of(findings: Findings) -> Conventions:
    """Count capitals, digits and punctuation in the transcripts of each part."""
    shares: dict[tuple[str, str], dict[str, float]] = {}
    profiles = ["raw"]
    rows_of = {part: sum(len(shard.compared) for shard in own) for part, own in findings.items()}
    compared = {part: findings[part] for part, rows in rows_of.items() if rows}
    for part, own in compared.items():
        rows = rows_of[part]
        counts = sum((shard.conventions for shard in own), Counter[tuple[str, str]]())
        for shard in own[:1]:
            profiles = ["raw", *text_profiles(shard.entry.partition("language"))]
        for profile in profiles:
            shares[profile, part] = {name: counts[profile, name] / rows for name in CONVENTIONS}
    raw = {part: shares["raw", part] for part in compared}
    of_property = [[own[name] for own in raw.values()] for name in CONVENTIONS]
    equal = [
        profile
        for profile in profiles[1:]
        if all(max(shares[profile, part].values()) < _NEGLIGIBLE for part in compared)
    ]
    differ = len(raw) > 1 and any(
        max(own) - min(own) > _APART or min(own) < _NEGLIGIBLE < max(own) for own in of_property
    )
    return Conventions(raw, equal, differ=differ)
