"""What a conversion read: per column its rows and most frequent values, and what was read as what.

Comes in: all rows and the ledger. Goes out: a mapping for ``manifest.json``, and tables of it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from danish_asr.base.schema import SPLITS, SUSPECTS_FILE
from danish_asr.corpus import DANISH
from danish_asr.corpus.cards import duration
from danish_asr.corpus.people import DIALECTS
from danish_asr.corpus.rows import Source
from danish_asr.corpus.shards import Inventory

_COLUMNS: Final = (
    *("audio", "text", "speaker_id", "dialect", "age", "gender", "country_birth"),
    *("start", "seconds", "channel"),
)
_ONE_EACH: Final = frozenset(("audio", "start", "seconds"))
"""Columns whose values tell nothing."""

_MOST: Final = 4  # values of a column
_READ_AS: Final = 30  # of those


def summary_of(
    source: Source, rows: pa.Table, ledger: pa.Table, rates: Mapping[str, int], language: str
) -> dict[str, Any]:
    """The summary of the rows that are not in the ledger; ``rates`` are rows by sample rate."""
    dropped = pc.binary_join_element_wise(ledger["source"], ledger["row"].cast(pa.string()), "\t")
    places = pc.binary_join_element_wise(rows["file"], rows["row"].cast(pa.string()), "\t")
    written = rows.filter(pc.invert(pc.is_in(places, dropped.combine_chunks())))
    return {
        "columns": [*_columns(source, written)],
        "read_as": [*_read_as(written, language)],
        "ignored": [*source.ignored],
        "counts": dict(source.counts),
        "sample_rates": {rate: rates[rate] for rate in sorted(rates, key=int)},
        "splits": {
            split: {"rows": len(own), "speakers": pc.count_distinct(own["speaker_id"]).as_py()}
            for split in SPLITS
            if len(own := written.filter(pc.equal(written["split"], split)))
        },
    }


def _columns(source: Source, rows: pa.Table) -> Iterator[dict[str, Any]]:
    for name in _COLUMNS:
        values = rows[name].drop_null()
        if name == "start":
            values = rows.filter(pc.invert(rows["whole"]))[name]
        if name == "audio" and not len(values):
            values = rows["id"]  # it is embedded
        if not len(values) and name not in source.columns:
            continue
        counts = pc.value_counts(values)
        order = pc.array_sort_indices(counts.field("counts"), order="descending")[: 3 * _MOST]
        most = {
            str(value["values"])[:60]: value["counts"]
            for value in counts.take(order).to_pylist()
            if name not in _ONE_EACH and (name != "text" or value["counts"] > 1)
        }
        ranked = sorted(most.items(), key=lambda item: (-item[1], item[0]))[:_MOST]
        yield {
            "column": name,
            "read": source.columns.get(name, ""),
            "rows": len(values),
            "distinct": len(counts),
            "values": dict(ranked),
        }


def _read_as(rows: pa.Table, language: str) -> Iterator[dict[str, Any]]:
    """Values of the corpus that became others, the unreadable ones first."""
    found: Counter[tuple[str, str, str]] = Counter()
    for column, own, ours in (
        ("age", "own_age", None),
        ("gender", "own_gender", "gender"),
        ("country_birth", "country_birth", "country"),
        ("dialect", "sub_dialect", "dialect"),
    ):
        pairs = rows.select([own, *([ours] if ours else [])])
        pairs = pairs.filter(pc.is_valid(pairs[own]))
        counted = pairs.group_by(pairs.column_names).aggregate([([], "count_all")])
        for row in counted.to_pylist():
            value = row[ours] if ours else None
            is_unknown = column == "dialect" and value == row[own] and value not in DIALECTS
            is_unknown = is_unknown and language == DANISH
            if value != row[own] or is_unknown:
                found[column, row[own], "" if is_unknown else value or ""] += row["count_all"]
    order = sorted(
        found.items(), key=lambda item: (item[0][2] != "", item[0][0], -item[1], item[0])
    )
    for (column, own, ours), count in order:
        yield {"column": column, "from": own, "to": ours, "rows": count}


def print_summary(inventory: Inventory, console: Console) -> None:
    """Print what was read, and what is in the ledger and why."""
    if inventory.summary:
        _print_columns(inventory.summary, console)
    if inventory.dropped:
        table = Table("reason", "dialect", "rows", title="Rows in the ledger")
        for entry in inventory.dropped:
            table.add_row(entry["reason"], entry["dialect"] or "not given", f"{entry['rows']:,}")
        console.print(table)
    for reason, rows in inventory.suspects.items():
        console.print(f"suspect, see {SUSPECTS_FILE}: {reason} ({rows:,} rows)")
    console.print(
        f"{inventory.name}: {inventory.rows:,} rows, {duration(inventory.hours * 3600)}; "
        f"{inventory.dropped_rows:,} of {inventory.source_rows:,} source rows are in the ledger"
    )


def _print_columns(summary: Mapping[str, Any], console: Console) -> None:
    console.print(_table_of_columns(summary))
    for value in summary["read_as"][:_READ_AS]:
        read = value["to"] or "no known value"
        if value["column"] == "dialect" and not value["to"]:
            read = "no known dialect, kept as it is"
        console.print(
            f"{value['column']}: {value['from']} is read as {read} ({value['rows']:,} rows)"
        )
    if summary["ignored"]:
        console.print(f"not read: {', '.join(summary['ignored'])} (--column OURS=THEIRS takes one)")
    for what, count in summary["counts"].items():
        console.print(f"{what}: {count:,}")
    if rates := summary["sample_rates"]:
        total = sum(rates.values())
        listed = ", ".join(
            f"{int(rate):,} Hz {100 * rows / total:.0f} %" for rate, rows in rates.items()
        )
        console.print(f"sample rates of the source: {listed}")
    for split, own in summary["splits"].items():
        console.print(f"{split}: {own['rows']:,} rows of {own['speakers']:,} known speakers")


def _table_of_columns(summary: Mapping[str, Any]) -> Table:
    table = Table("column", "read from", "rows", "distinct", "most frequent")
    for column in summary["columns"]:
        values = ", ".join(f"{value} ({rows:,})" for value, rows in column["values"].items())
        name, read = column["column"], column["read"]
        table.add_row(name, read, f"{column['rows']:,}", f"{column['distinct']:,}", Text(values))
    return table
