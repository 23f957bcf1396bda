"""What a conversion read: per column its rows and most frequent values; what dialects became.

Comes in: all rows and the ledger. Goes out: a mapping for ``manifest.json``.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from danish_asr.corpus import DANISH
from danish_asr.corpus.people import DIALECTS
from danish_asr.corpus.rows import Source

_COLUMNS: Final = (
    *("audio", "text", "speaker_id", "dialect", "age", "gender", "country_birth"),
    *("start", "seconds", "channel"),
)
_DISTINCT: Final = frozenset(("audio", "start", "seconds"))
"""Columns whose values tell nothing."""

_MOST: Final = 4  # values of a column


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
                if name not in _DISTINCT and (name != "text" or value["counts"] > 1)
            },
        }


def _read_as(rows: pa.Table, language: str) -> list[dict[str, Any]]:
    """Names of dialects that became others, the unknown ones first."""
    read: list[dict[str, Any]] = []
    counted = rows.group_by(["sub_dialect", "dialect"]).aggregate([([], "count_all")])
    for value, made, count in zip(*counted.to_pydict().values(), strict=True):
        is_unknown = language == DANISH and made == value and made not in DIALECTS
        if value is not None and (is_unknown or made != value):
            to = "" if is_unknown else made
            read.append({"column": "dialect", "from": value, "to": to, "rows": count})
    return sorted(read, key=lambda row: (row["to"] != "", -row["rows"], row["from"], row["to"]))
