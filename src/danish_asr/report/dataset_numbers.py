"""What the columns of a dataset tell: sums per group, gaps, leaks, words and characters."""

import hashlib
import unicodedata
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from danish_asr.base.errors import DatasetError
from danish_asr.base.schema import MIN_SPEAKERS
from danish_asr.corpus.sources.metadata import DIALECTS
from danish_asr.report.dataset_rows import UNKNOWN, Rows, order

FEW_HOURS: Final = 1.0
"""Training data below this is reported as little."""

_MAX_COMPARED: Final = 2_000
"""Audio files that are read to find identical ones."""


class Group(NamedTuple):
    """Sums over the rows with these values."""

    names: tuple[str, ...]
    hours: float = 0.0
    rows: int = 0
    speakers: int = 0


def groups(table: pa.Table, *keys: str) -> list[Group]:
    """Sums per combination of values that occurs, in the order of tables."""
    sums = [("seconds", "sum"), ("id", "count"), ("speaker_id", "count_distinct")]
    summed = table.select([*keys, *(name for name, _ in sums)]).group_by(keys).aggregate(sums)
    made = [
        Group(
            names=tuple(line[key] for key in keys),
            hours=line["seconds_sum"] / 3600,
            rows=line["id_count"],
            speakers=line["speaker_id_count_distinct"],
        )
        for line in summed.to_pylist()
    ]
    return sorted(made, key=lambda group: [_place(name) for name in group.names])


def _place(name: str) -> tuple[bool, int, str]:
    return name == UNKNOWN, order(name), name


def cross(table: pa.Table, row: str, column: str) -> dict[str, Any]:
    """Sums per pair of values (``cells``), their ``rows`` and ``columns``, the ``most`` hours."""
    cells = {group.names: group for group in groups(table, row, column)}
    rows, columns = (sorted(set(names), key=_place) for names in zip(*cells, strict=True))
    most = max(cell.hours for cell in cells.values())
    return {"rows": rows, "columns": columns, "cells": cells, "most": most}


class Gap(NamedTuple):
    """A group that is too small to learn from or to be scored."""

    label: str
    faults: str
    train: Group
    test: Group


def gaps(table: pa.Table, *keys: str) -> list[Gap]:
    """Groups without test data, with too few test speakers for an interval, or with few hours.

    Without keys all rows are the group. A split that the dataset does not have is not missed.
    """
    parts = defaultdict[str, dict[tuple[str, ...], Group]](dict)
    for group in groups(table, "split", *keys):
        parts[group.names[0]][group.names[1:]] = group
    names = {name for part in parts.values() for name in part if UNKNOWN not in name}
    if keys == ("dialect",) and names & {(name,) for name in DIALECTS}:
        names |= {(name,) for name in DIALECTS}
    lacking = []
    for name in sorted(names):
        train, test = (parts.get(split, {}).get(name, Group(name)) for split in ("train", "test"))
        faults = {
            "no test data": "test" in parts and not test.rows,
            "unknown test speakers": test.rows and not test.speakers,
            "few test speakers": 0 < test.speakers < MIN_SPEAKERS,
            "no training data": "train" in parts and not train.rows,
            "little training data": 0 < train.hours < FEW_HOURS,
        }
        if any(faults.values()):
            text = ", ".join(fault for fault, is_so in faults.items() if is_so)
            lacking.append(Gap(" · ".join(name) or "all rows", text, train, test))
    return lacking


class Leak(NamedTuple):
    """What two splits share, and the rows of the other split with it."""

    what: str
    one: str
    other: str
    shared: int
    rows: int
    share: float
    examples: list[str]


def leaks(rows: Rows) -> list[Leak]:
    """Speakers and sentences of three words or more that splits share."""
    table, leaks = rows.table, []
    long = pc.greater_equal(pc.count_substring(table["plain"], " "), 2)
    sentences = pc.if_else(long, table["plain"], pa.scalar(None, pa.string()))
    for what, column in (("speakers", table["speaker_id"]), ("sentences", sentences)):
        parts = {name: column.filter(pc.equal(table["split"], name)) for name in rows.splits}
        values = {name: part.unique().drop_null() for name, part in parts.items()}
        for one, other in combinations(rows.splits, 2):
            common = values[other].filter(pc.is_in(values[other], values[one]))
            if len(common):
                affected = pc.sum(pc.is_in(parts[other], common)).as_py()
                share = affected / len(parts[other])
                examples = common[:3].to_pylist()
                leaks.append(Leak(what, one, other, len(common), affected, share, examples))
    return leaks


def identical_audio(rows: Rows) -> tuple[list[list[int]], int]:
    """Rows with the same FLAC file, and how many candidates were too many to compare.

    Candidates have the same length, and the same speaker or text.
    """
    numbered = rows.table.append_column("row", pa.array(np.arange(len(rows.table))))
    candidates: set[int] = set()
    for column in ("speaker_id", "plain"):
        valid = numbered.filter(pc.is_valid(numbered[column]))
        lists = valid.group_by(["seconds", column]).aggregate([("row", "list")])["row_list"]
        for same in lists.filter(pc.greater(pc.list_value_length(lists), 1)).to_pylist():
            candidates.update(same)
    by_content = defaultdict[bytes, list[int]](list)
    for row in sorted(candidates)[:_MAX_COMPARED]:
        by_content[hashlib.sha256(rows.audio(row)).digest()].append(row)
    same = [each for each in by_content.values() if len(each) > 1]
    return same, max(0, len(candidates) - _MAX_COMPARED)


def vocabulary(rows: Rows) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Numbers of words per split, and the counts of all words."""
    counts = {name: Counter[str]() for name in rows.splits}
    for name, own in counts.items():
        for chunk in rows.table.filter(pc.equal(rows.table["split"], name))["plain"].chunks:
            own.update(" ".join(chunk.to_pylist()).split())
    lines = []
    for name, own in counts.items():
        line = {"split": name, "words": own.total(), "distinct": len(own), "unseen": None}
        if "train" in counts and name != "train" and own:
            new = sum(count for word, count in own.items() if word not in counts["train"])
            line["unseen"] = new / own.total()
        lines.append(line)
    return lines, sum(counts.values(), Counter[str]())


def characters(texts: pa.ChunkedArray) -> list[tuple[str, str, int]]:
    """Each character of raw texts with its Unicode name and count, the rarest first."""
    counts = np.zeros(0x110000, np.int64)
    for chunk in texts.chunks:
        whole = "".join(chunk.to_pylist()).encode("utf-32-le", "surrogatepass")
        found = np.bincount(np.frombuffer(whole, np.uint32))
        counts[: len(found)] += found
    codes = np.flatnonzero(counts)
    ordered = codes[np.argsort(counts[codes], kind="stable")]
    return [(chr(c), f"U+{c:04X} {unicodedata.name(chr(c), '')}", int(counts[c])) for c in ordered]


def reasons(path: Path) -> list[tuple[str, str, int]]:
    """Reason, dialect and rows of the ledger or of the suspects, the most frequent first."""
    columns = ["reason", "dialect"]
    counted = _read(path, columns).group_by(columns).aggregate([([], "count_all")])
    lines = [
        (line["reason"], line["dialect"] or UNKNOWN, line["count_all"])
        for line in counted.to_pylist()
    ]
    return sorted(lines, key=lambda line: (-line[2], line))


def suspects(path: Path, rows: Rows, most: int) -> dict[str, list[tuple[int, str]]]:
    """Rows that are suspect, up to ``most`` per reason, and what was measured."""
    suspects = defaultdict[str, list[tuple[int, str]]](list)
    for line in _read(path, ["reason", "id", "value"]).to_pylist():
        of_reason = suspects[line["reason"]]
        if len(of_reason) < most:
            row = pc.index(rows.table["id"], line["id"]).as_py()
            if row >= 0:
                of_reason.append((row, f"{line['value']:.3g}"))
    return suspects


def _read(path: Path, columns: list[str]) -> pa.Table:
    try:
        return pq.read_table(path, columns=columns).select(columns)
    except (OSError, KeyError, pa.ArrowException) as error:
        raise DatasetError(f"{path}: {error}; convert the dataset again") from error
