"""What the columns of a dataset tell: sums per group, gaps, leaks, words and characters."""

import hashlib
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from danish_asr.base.errors import DatasetError
from danish_asr.base.schema import MIN_SPEAKERS
from danish_asr.corpus.verify import samples_md5
from danish_asr.report.dataset_rows import UNKNOWN, Rows, order

FEW_HOURS: Final = 1.0
"""Training data below this is reported as little."""

_MAX_COMPARED: Final = 10_000
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


class Line(NamedTuple):
    """A group of the dataset with its hours per split, and what it lacks to be learnt or scored."""

    name: str
    rows: int
    speakers: int
    test_speakers: int
    hours: dict[str, float]
    lacks: str  # empty if nothing


def lines(table: pa.Table, key: str) -> list[Line]:
    """A line per value of a column that occurs.

    What the whole dataset lacks, a split or hours or speakers, is not said of each group.
    """
    parts = defaultdict[str, dict[str, Group]](dict)
    for group in groups(table, key, "split"):
        parts[group.names[0]][group.names[1]] = group
    whole = {group.names[0]: group for group in groups(table, "split")}
    all_train, all_test = whole.get("train", Group(())), whole.get("test", Group(()))
    made = []
    for group in groups(table, key):
        (name,) = group.names
        own = parts[name]
        train, test = own.get("train", Group(())), own.get("test", Group(()))
        few = test.speakers < MIN_SPEAKERS <= all_test.speakers
        little = 0 < train.hours < FEW_HOURS <= all_train.hours
        faults = {
            "no test data": "test" in whole and not test.rows,
            "unknown test speakers": test.rows and not test.speakers,
            f"fewer than {MIN_SPEAKERS} test speakers": test.speakers and few,
            "no training data": "train" in whole and not train.rows,
            f"less than {FEW_HOURS:g} h of training": little,
        }
        lacks = ", ".join(fault for fault, is_so in faults.items() if is_so and name != UNKNOWN)
        hours = {split: part.hours for split, part in own.items()}
        made.append(Line(name, group.rows, group.speakers, test.speakers, hours, lacks))
    return made


def known(table: pa.Table, key: str) -> set[str]:
    """The values of a column that are known."""
    return {*table[key].unique().to_pylist()} - {None, UNKNOWN}


def identical_audio(rows: Rows) -> tuple[list[list[int]], int]:
    """Rows with the same samples, and how many rows of the same length were not compared.

    Those that also have the same speaker or text are compared first.
    """
    numbered = rows.table.append_column("row", pa.array(np.arange(len(rows.table))))
    candidates: dict[int, None] = {}
    for columns in (["seconds", "plain"], ["seconds", "speaker_id"], ["seconds"]):
        valid = numbered.filter(pc.is_valid(numbered[columns[-1]]))
        found = valid.group_by(columns).aggregate([("row", "list")])["row_list"]
        for same in found.filter(pc.greater(pc.list_value_length(found), 1)).to_pylist():
            candidates.update(dict.fromkeys(same))
    by_content = defaultdict[bytes, list[int]](list)
    for row in list(candidates)[:_MAX_COMPARED]:
        audio = rows.audio(row)
        content = samples_md5(audio) or hashlib.sha256(audio).digest()
        by_content[content].append(row)
    same = [sorted(each) for each in by_content.values() if len(each) > 1]
    return sorted(same), max(0, len(candidates) - _MAX_COMPARED)


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
    """Reason, dialect and rows of the ledger, the most frequent first."""
    columns = ["reason", "dialect"]
    counted = _read(path, columns).group_by(columns).aggregate([([], "count_all")])
    lines = [
        (line["reason"], line["dialect"] or UNKNOWN, line["count_all"])
        for line in counted.to_pylist()
    ]
    return sorted(lines, key=lambda line: (-line[2], line))


class Suspects(NamedTuple):
    """The rows of the conversion's list that have a reason."""

    rows: int
    first: list[tuple[int, str]]  # some of them, and what was measured


def suspects(path: Path, rows: Rows, most: int) -> dict[str, Suspects]:
    """The conversion's list by reason, the most frequent first, with up to ``most`` rows each."""
    found = defaultdict[str, list[tuple[str, float]]](list)
    for line in _read(path, ["reason", "id", "value"]).to_pylist():
        found[line["reason"]].append((line["id"], line["value"]))
    made = {}
    for reason, lines in sorted(found.items(), key=lambda item: -len(item[1])):
        places = [
            (pc.index(rows.table["id"], id_).as_py(), f"{value:.3g}") for id_, value in lines[:most]
        ]
        made[reason] = Suspects(len(lines), [place for place in places if place[0] >= 0])
    return made


def _read(path: Path, columns: list[str]) -> pa.Table:
    try:
        return pq.read_table(path, columns=columns).select(columns)
    except (OSError, KeyError, pa.ArrowException) as error:
        raise DatasetError(f"{path}: {error}; convert the dataset again") from error
