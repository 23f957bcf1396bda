"""Check the files of a built dataset that are no shards against its manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from danish_asr.conversion.inventory import Inventory
from danish_asr.conversion.verify.shard import sha256_of
from danish_asr.regular_file import regular_file
from danish_asr.schema import (
    INVENTORY_FILE,
    LANGUAGE,
    LEDGER_FILE,
    LEDGER_SCHEMA,
    STATISTICS_FILE,
    VERSION_DIR,
)

_COLUMNS: Final = ["corpus", "language", "hours"]
_ROUNDING: Final = 1e-6
"""Hours; the file has six decimals."""


def manifest_faults(manifest: Inventory) -> Iterator[str]:
    """Tell where the manifest contradicts itself."""
    rows = sum(file.rows for file in manifest.files)
    if rows != manifest.source_rows:
        yield (
            f"{INVENTORY_FILE}: its source files have {rows} rows, and the source has "
            f"{manifest.source_rows}"
        )
    files = {file.file for file in manifest.files}
    for shard in manifest.shards:
        for stranger in sorted(set(shard.files) - files):
            yield f"{INVENTORY_FILE}: {shard.path} is made from {stranger}, which is no source file"
    for path, times in Counter(shard.path for shard in manifest.shards).items():
        if times > 1:
            yield f"{INVENTORY_FILE}: names {path} {times} times"


def stray_files(root: Path, known: set[str]) -> Iterator[str]:
    """Tell the files among the shards that are none of them, and that readers would take for one.

    Upstream reads every file whose name begins with neither ``.`` nor ``_``; we read ``*.parquet``.
    """
    for path in sorted((root / VERSION_DIR).rglob("*")):
        place = path.relative_to(root).as_posix()
        is_read = path.suffix == ".parquet" or not path.name.startswith((".", "_"))
        if is_read and place not in known and (path.is_symlink() or not path.is_dir()):
            yield f"{place}: is not in the manifest, and would be read with it; remove it"


def ledger_faults(
    root: Path, manifest: Inventory | None, positions: dict[str, NDArray[np.int64]]
) -> Iterator[str]:
    """Check the ledger; what it says is put into ``positions``: rows by source file."""
    path = regular_file(root / LEDGER_FILE)
    told = manifest.ledger_sha256 if manifest is not None else None
    if told is not None and sha256_of(path) != told:
        yield f"{LEDGER_FILE}: its sha256 is not that of the manifest"
    with pq.ParquetFile(path) as ledger:
        rows = ledger.metadata.num_rows
        if manifest is not None and manifest.rows + rows != manifest.source_rows:
            yield (
                f"{LEDGER_FILE}: {manifest.rows} rows written and {rows} in the ledger do not make "
                f"up the {manifest.source_rows} rows of the source"
            )
        if not ledger.schema_arrow.equals(LEDGER_SCHEMA):
            yield f"{LEDGER_FILE}: its columns are not those of the contract"
            return
        table = ledger.read(use_threads=False)
    sources = table["source"].combine_chunks().dictionary_encode()
    codes, numbers = sources.indices.to_numpy(), table["row"].to_numpy()
    for code, name in enumerate(sources.dictionary.to_pylist()):
        positions[name] = numbers[codes == code]
    yield from _drop_faults(table, manifest)


def _drop_faults(table: pa.Table, manifest: Inventory | None) -> Iterator[str]:
    counts = table.group_by(["reason", "dialect"]).aggregate([([], "count_all")]).to_pylist()
    found = Counter({(row["reason"], row["dialect"]): row["count_all"] for row in counts})
    if any(not reason.strip() for reason, _ in found):
        yield f"{LEDGER_FILE}: has rows without a reason"
    if manifest is None:
        return
    told = Counter({(drop.reason, drop.dialect): drop.rows for drop in manifest.dropped})
    for reason, dialect in sorted(found.keys() | told.keys(), key=str):
        here, there = found[reason, dialect], told[reason, dialect]
        if here != there:
            yield (
                f"{LEDGER_FILE}: rows of {dialect or 'no dialect'} with reason '{reason}': {here}, "
                f"and {there} in the manifest"
            )


def statistics_faults(root: Path, hours: Mapping[str, float]) -> Iterator[str]:
    """Check the statistics against the hours of training audio of all corpora that have any."""
    text = regular_file(root / STATISTICS_FILE).read_text(encoding="utf-8")
    header, *lines = text.split("\n")
    if header.split("\t") != _COLUMNS:
        found = ", ".join(header.split("\t"))
        yield f"{STATISTICS_FILE}: its columns are '{found}'; expected '{', '.join(_COLUMNS)}'"
        return
    missing = dict(hours)
    for number, line in enumerate(lines, start=2):
        if line.strip():
            for fault in _line_faults(line.split("\t"), hours, missing):
                yield f"{STATISTICS_FILE}: line {number} {fault}"
    for corpus, value in missing.items():
        yield f"{STATISTICS_FILE}: has no line for {corpus}, {value:.6f} h of training audio"


def _line_faults(
    cells: Sequence[str], hours: Mapping[str, float], missing: dict[str, float]
) -> Iterator[str]:
    """Check a line, and take its corpus out of ``missing``."""
    if len(cells) != len(_COLUMNS):
        yield f"has {len(cells)} columns, not {len(_COLUMNS)}"
        return
    corpus, language, stated = cells
    if corpus not in hours or language != LANGUAGE:
        yield f"names {corpus} in {language}, of which the dataset has no training audio"
        return
    if missing.pop(corpus, None) is None:
        yield f"is another line of {corpus}; expected is one, with its training hours"
    try:
        wrong = not abs(float(stated) - hours[corpus]) <= _ROUNDING
    except ValueError:
        wrong = True
    if wrong:
        yield f"gives {corpus} {stated} hours; it has {hours[corpus]:.6f} of training audio"
