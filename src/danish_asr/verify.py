"""Read a built dataset back and tell all that breaks its contract at once.

::

    danish-asr verify data/parquet --sample 1000
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow.parquet as pq
import sentencepiece
from rich.console import Console
from rich.progress import track
from rich.table import Table

from danish_asr.conversion.manifest import Manifest, read_manifest, seconds
from danish_asr.conversion.verify_shard import ShardFindings, check_shard
from danish_asr.conversion.workers import run_in_processes
from danish_asr.errors import DatasetError
from danish_asr.schema import (
    CARDS_DIR,
    LANGUAGE,
    LEDGER_FILE,
    LEDGER_SCHEMA,
    SPLITS,
    STATISTICS_FILE,
    VERSION_DIR,
)
from danish_asr.yaml_text import from_yaml

LEAKAGE: Final = ("speakers", "sentences")
"""What splits should not share."""

_SECONDS_PER_HOUR: Final = 3600


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What reading a dataset back gave.

    Attributes:
        faults: What breaks the contract; none in a good dataset.
        notes: What was allowed.
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

    Args:
        root: The dataset.
        sample: Rows whose audio is decoded to its end, spread over all shards; None for all rows.
            Of every row the header is read.
        workers: Processes to share the work.
        allow_shared: Which `LEAKAGE` is known and no fault.

    Raises:
        DatasetError: There is no finished dataset.
    """
    manifest = read_manifest(root)
    findings = _check_shards(root, manifest, sample, workers)
    faults = [fault for found in findings for fault in found.faults]
    faults += _stray_shards(root, manifest)
    faults += _repeated_ids(findings)
    faults += _check_ledger(root, manifest)
    faults += _check_statistics(root, findings)
    faults += _check_cards(root, manifest)
    leaks = {kind: list(_shared(findings, kind)) for kind in LEAKAGE}
    faults += [leak for kind in LEAKAGE if kind not in allow_shared for leak in leaks[kind]]
    hours: Counter[tuple[str, str | None]] = Counter()
    for found in findings:
        for dialect, samples in found.samples.items():
            hours[found.split, dialect] += samples
    return Verification(
        faults=tuple(faults),
        notes=tuple(leak for kind in LEAKAGE if kind in allow_shared for leak in leaks[kind]),
        hours={key: seconds(samples) / _SECONDS_PER_HOUR for key, samples in hours.items()},
    )


def verify_command(
    root: Path, *, sample: int | None, workers: int, allow_shared: Sequence[str]
) -> None:
    """Verify a dataset, print hours and notes, and raise with all faults if there are any.

    Raises:
        DatasetError: There are faults, or there is no finished dataset.
    """
    if unknown := [kind for kind in allow_shared if kind not in LEAKAGE]:
        raise DatasetError(f"--allow-shared {unknown[0]}: expected one of {', '.join(LEAKAGE)}")
    result = verify(root, sample=sample, workers=workers, allow_shared=allow_shared)
    console = Console()
    console.print(_hours_table(result.hours))
    for note in result.notes:
        console.print(f"allowed: {note}", highlight=False, soft_wrap=True)
    if result.faults:
        count = "one fault" if len(result.faults) == 1 else f"{len(result.faults)} faults"
        lines = [f"{root} has {count}:", *(f"  - {fault}" for fault in result.faults)]
        raise DatasetError("\n".join(lines))
    console.print(f"{root}: in order", highlight=False, soft_wrap=True)


def _check_shards(
    root: Path, manifest: Manifest, sample: int | None, workers: int
) -> list[ShardFindings]:
    share = 1.0 if sample is None else sample / max(1, manifest.rows)
    checks = [
        partial(check_shard, root, shard, math.ceil(shard.rows * share))
        for shard in manifest.shards
    ]
    console = Console(stderr=True)
    results = (
        run_in_processes(_call, checks, min(workers, len(checks)))
        if min(workers, len(checks)) > 1
        else map(_call, checks)
    )
    found = track(
        results, "verifying", len(checks), console=console, disable=not console.is_terminal
    )
    return sorted(found, key=lambda findings: findings.path)


def _call(check: partial[ShardFindings]) -> ShardFindings:
    return check()


def _stray_shards(root: Path, manifest: Manifest) -> Iterator[str]:
    known = {shard.path for shard in manifest.shards}
    for path in sorted((root / VERSION_DIR).rglob("*.parquet")):
        if path.relative_to(root).as_posix() not in known:
            yield f"{path.relative_to(root)}: is not in the manifest, and would be read with it"


def _repeated_ids(findings: Sequence[ShardFindings]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for found in findings:
        for id_ in found.ids:
            first = seen.setdefault(id_, found.path)
            if first is not found.path:
                yield f"{found.path}: id {id_} stands in {first} already"
        if len(set(found.ids)) < len(found.ids):
            repeated = [id_ for id_, times in Counter(found.ids).items() if times > 1]
            yield f"{found.path}: id {repeated[0]} and {len(repeated) - 1} others stand in it twice"


def _check_ledger(root: Path, manifest: Manifest) -> Iterator[str]:
    path = root / LEDGER_FILE
    if not path.is_file():
        yield f"{LEDGER_FILE}: is missing"
        return
    with pq.ParquetFile(path) as ledger:
        rows = ledger.metadata.num_rows
        if not ledger.schema_arrow.equals(LEDGER_SCHEMA):
            yield f"{LEDGER_FILE}: its columns are not those of the contract"
    if manifest.rows + rows != manifest.source_rows:
        yield (
            f"{LEDGER_FILE}: {manifest.rows} rows written and {rows} in the ledger do not make up "
            f"the {manifest.source_rows} rows of the source"
        )


def _check_statistics(root: Path, findings: Sequence[ShardFindings]) -> Iterator[str]:
    path = root / STATISTICS_FILE
    if not path.is_file():
        yield f"{STATISTICS_FILE}: is missing"
        return
    table = pd.read_csv(path, sep="\t")
    if list(table.columns) != ["corpus", "language", "hours"]:
        yield f"{STATISTICS_FILE}: its columns are {', '.join(table.columns)}"
        return
    samples = Counter({found.corpus: 0 for found in findings})
    for found in findings:
        if found.split == "train":
            samples[found.corpus] += found.samples.total()
    told = {
        (str(corpus), str(language)): float(hours)
        for corpus, language, hours in table.itertuples(index=False)
    }
    if len(told) < len(table):
        yield f"{STATISTICS_FILE}: a corpus has more than one row"
    for corpus, count in samples.items():
        hours = seconds(count) / _SECONDS_PER_HOUR
        stated = told.pop((corpus, LANGUAGE), None)
        if stated is None or abs(stated - hours) > 1e-5:
            yield f"{STATISTICS_FILE}: {corpus} has {hours:.6f} h of training audio, not {stated}"
    for corpus, language in told:
        yield f"{STATISTICS_FILE}: names {corpus} in {language}, which the dataset does not have"


def _check_cards(root: Path, manifest: Manifest) -> Iterator[str]:
    place = f"{CARDS_DIR}/{manifest.name}.yaml"
    if not (root / place).is_file():
        yield f"{place}: is missing"
        return
    card = from_yaml((root / place).read_text(encoding="utf-8"))
    data = (card.get("dataset_config") or {}).get("data")
    if card.get("name") != manifest.name:
        yield f"{place}: is the card of {card.get('name')}, not of {manifest.name}"
    if data != str((root / VERSION_DIR).resolve()):
        yield (
            f"{place}: its data is {data}, and the dataset is in {(root / VERSION_DIR).resolve()}; "
            "if it was moved, put that path into the card"
        )
    tokenizer = card.get("tokenizer_ref")
    if tokenizer is not None:
        model = root / CARDS_DIR / f"{tokenizer}.model"
        try:
            sentencepiece.SentencePieceProcessor(model_file=str(model))
        except (OSError, RuntimeError):
            yield f"{CARDS_DIR}/{tokenizer}.model: is missing or no SentencePiece model"


def _shared(findings: Sequence[ShardFindings], kind: str) -> Iterator[str]:
    """Tell what two splits share, for each two splits that share anything."""
    by_split: dict[str, set[str] | set[int]] = {split: set() for split in SPLITS}
    for found in findings:
        by_split[found.split] |= getattr(found, kind)
    for one, other in combinations(SPLITS, 2):
        if shared := by_split[one] & by_split[other]:
            example = f", such as {min(map(str, shared))}" if kind == "speakers" else ""
            yield f"{one} and {other} share {len(shared)} {kind}{example}"


def _hours_table(hours: dict[tuple[str, str | None], float]) -> Table:
    splits = [split for split in SPLITS if any(split == key[0] for key in hours)]
    table = Table("dialect", *splits, title="Hours")
    dialects = sorted({dialect for _, dialect in hours}, key=lambda name: name or "~")
    for dialect in dialects:
        cells = [f"{hours.get((split, dialect), 0.0):.2f}" for split in splits]
        table.add_row(dialect or "not said", *cells)
    table.add_section()
    totals = [sum(value for key, value in hours.items() if key[0] == split) for split in splits]
    table.add_row("all", *(f"{total:.2f}" for total in totals))
    return table
