"""Two runs side by side, row by row; runs that scored different rows are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from danish_asr.errors import PredictionsError
from danish_asr.scoring.scored_rows import ScoredRows

_LISTED: Final = 10
"""Rows of either run that a refusal names."""


def pair_rows(a: ScoredRows, b: ScoredRows, names: tuple[str, str]) -> ScoredRows:
    """Return A's rows with the counts of both runs side by side, A's columns first.

    Raises:
        PredictionsError: The runs scored different rows, or rows with different references; each
            such row is named by file (``names``) and line.
    """
    row_of = {name: row for row, name in enumerate(b.ids)}
    in_a = set(a.ids)
    only_a = [
        f"{names[0]}:{line}: id {name!r} is not in {names[1]}"
        for name, line in zip(a.ids, a.lines.tolist(), strict=True)
        if name not in row_of
    ]
    only_b = [
        f"{names[1]}:{line}: id {name!r} is not in {names[0]}"
        for name, line in zip(b.ids, b.lines.tolist(), strict=True)
        if name not in in_a
    ]
    _refuse(only_a, only_b, "the runs scored different rows")
    if not a.ids:
        raise PredictionsError(f"{names[0]}: the row filter leaves no row to compare")
    order = np.array([row_of[name] for name in a.ids])
    changed = np.flatnonzero(a.fingerprints != b.fingerprints[order])
    texts = [
        f"{names[1]}:{b.lines[order[row]]}: the reference of id {a.ids[row]!r} is not the one in "
        f"{names[0]}:{a.lines[row]}"
        for row in changed.tolist()
    ]
    _refuse(texts, [], "the runs scored different references")
    return replace(a, counts=np.hstack([a.counts, b.counts[order]]))


def require_one_split(rows_in_split: tuple[int | None, int | None], names: tuple[str, str]) -> None:
    """Refuse runs whose splits, where both are told, have different sizes.

    Raises:
        PredictionsError: They have.
    """
    a, b = rows_in_split
    if None not in (a, b) and a != b:
        raise PredictionsError(
            f"{names[0]} is of a split of {a} rows, {names[1]} of one of {b}; compare runs over "
            "one split: evaluate both again on the same dataset"
        )


def _refuse(first: Sequence[str], second: Sequence[str], what: str) -> None:
    if not first and not second:
        return
    lines = [f"  {fault}" for part in (first, second) for fault in part[:_LISTED]]
    if hidden := len(first) + len(second) - len(lines):
        lines.append(f"  and {hidden} more")
    message = f"{what} ({len(first) + len(second)} of them); compare runs over one split and filter"
    raise PredictionsError("\n".join([f"{message}:", *lines]))
