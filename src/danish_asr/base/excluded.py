"""Rows that are left out of a dataset although its shards hold them: their ids, each with a reason.

A combined dataset shares its shards with its parts, so that no row can be taken out of them.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from danish_asr.base.errors import DanishAsrError, DatasetError
from danish_asr.base.tables import read_lines, read_valid_rows

EXCLUDED_FILE: Final = "excluded.csv"
"""At the root of a dataset. Training, evaluation and ``verify`` obey it; upstream's reader does
not know it."""

_LISTED: Final = "listed in "


def read_excluded(root: Path) -> dict[str, str]:
    """The reasons by id of a dataset; empty without the file. Raises `DatasetError`."""
    path = root / EXCLUDED_FILE
    return read_ids(path, DatasetError) if path.is_file() else {}


def read_ids(path: Path, error: type[DanishAsrError]) -> dict[str, str]:
    """The ids of a list, each with its reason: that of the row, or else the name of the file.

    A file that ends in ``.txt`` has an id on each line; any other is a table with a column ``id``
    and perhaps one ``reason``.

    Raises:
        error: The file cannot be read, or has no such column.
    """
    default = f"{_LISTED}{path.name}"
    if path.suffix.lower() == ".txt":
        return {line.strip(): default for line in read_lines(path, error) if line.strip()}
    reasons = {}
    for line, row in read_valid_rows(path, error):
        if row.get("id") in {None, ""}:
            raise error(
                f"{path}:{line}: expected a column id; found {', '.join(row)}. A list of ids alone "
                "is a .txt file"
            )
        reasons[str(row["id"])] = str(row.get("reason") or default)
    return reasons


def merged_reasons(lists: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The ids of all lists, each with the first reason that is more than the name of a file."""
    reasons: dict[str, str] = {}
    for ids in lists:
        for name, why in ids.items():
            if reasons.get(name, _LISTED).startswith(_LISTED):
                reasons[name] = why
    return reasons


def excluded_table(reasons: Mapping[str, str]) -> str:
    """The text of :data:`EXCLUDED_FILE`."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["id", "reason"])
    table.writerows(sorted(reasons.items()))
    return text.getvalue()
