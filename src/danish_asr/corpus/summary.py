"""What a conversion read: per column its rows and most frequent values, and what was read as what.

Comes in: all rows and the ledger. Goes out: a mapping for ``manifest.json``, and tables of it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from danish_asr.base.schema import SUSPECTS_FILE
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
        "read_as": _read_as(written, language),
        "ignored": [*source.ignored],
        "counts": dict(source.counts),
        "sample_rates": {rate: rates[rate] for rate in sorted(rates, key=int)},
    }


def _columns(source: Source, rows: pa.Table) -> Iterator[dict[str, Any]]:
    for name in _COLUMNS:
        values = rows[name].drop_null()
        if name == "start":
            values = rows.filter(pc.invert(rows["uncut"]))[name]
        if name == "audio" and not len(values):
            values = rows["id"]  # it is embedded
        if not len(values) and name not in source.columns:
            continue
        counts = pc.value_counts(values)
        order = pc.array_sort_indices(counts.field("counts"), order="descending")[:_MOST]
        yield {
            "column": name,
            "read": source.columns.get(name, ""),
            "rows": len(values),
            "distinct": len(counts),
            "values": {
                str(value["values"])[:60]: value["counts"]
                for value in counts.take(order).to_pylist()
                if name not in _ONE_EACH and (name != "text" or value["counts"] > 1)
            },
        }


def _read_as(rows: pa.Table, language: str) -> list[dict[str, Any]]:
    """Values of the corpus that became others, the unreadable ones first."""
    read: list[dict[str, Any]] = []
    for column, own, ours in (
        ("age", "own_age", "age"),
        ("gender", "own_gender", "gender"),
        ("country_birth", "country_birth", "country"),
        ("dialect", "sub_dialect", "dialect"),
    ):
        counted = rows.group_by([own, ours]).aggregate([([], "count_all")])
        for value, made, count in zip(*counted.to_pydict().values(), strict=True):
            is_unknown = column == "dialect" and language == DANISH and made not in DIALECTS
            to = "" if made is None or (is_unknown and made == value) else str(made)
            if value is not None and to != value:
                read.append({"column": column, "from": value, "to": to, "rows": count})
    return sorted(
        read, key=lambda row: (row["to"] != "", row["column"], -row["rows"], row["from"], row["to"])
    )


def print_summary(inventory: Inventory, console: Console) -> None:
    """Print what was read, and what is in the ledger and why."""
    summary = inventory.summary
    table = Table("column", "read from", "rows", "distinct", "most frequent")
    for own in summary["columns"]:
        values = ", ".join(f"{value} ({rows:,})" for value, rows in own["values"].items())
        counts = f"{own['rows']:,}", f"{own['distinct']:,}"
        table.add_row(own["column"], own["read"], *counts, Text(values))
    console.print(table)
    for value in summary["read_as"][:_READ_AS]:
        column, read = value["column"], value["to"] or "no known value"
        if column == "dialect" and not value["to"]:
            read = "no known dialect, kept as it is"
        console.print(f"{column}: {value['from']} is read as {read} ({value['rows']:,} rows)")
    if summary["ignored"]:
        console.print(f"not read: {', '.join(summary['ignored'])} (--column OURS=THEIRS takes one)")
    for what, count in summary["counts"].items():
        console.print(f"{what}: {count:,}")
    total = sum(summary["sample_rates"].values())
    for rate, rows in summary["sample_rates"].items():
        console.print(
            f"sample rate of the source: {int(rate):,} Hz, {rows / total:.0%} of the rows"
        )
    if inventory.dropped:
        table = Table("reason", "dialect", "rows", title="Rows in the ledger")
        for entry in inventory.dropped:
            table.add_row(entry["reason"], entry["dialect"] or "not given", f"{entry['rows']:,}")
        console.print(table)
    for reason, rows in inventory.suspects.items():
        console.print(f"suspect, see {SUSPECTS_FILE}: {reason} ({rows:,} rows)")
    print_total(inventory, console)


def print_total(inventory: Inventory, console: Console) -> None:
    """Print how much a dataset has."""
    console.print(
        f"{inventory.name}: {inventory.rows:,} rows, {duration(inventory.hours * 3600)}; "
        f"{inventory.dropped_rows:,} of {inventory.source_rows:,} source rows are in the ledger"
    )
