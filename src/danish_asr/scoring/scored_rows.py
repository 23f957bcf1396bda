"""The scored rows of a predictions file as columns of integers, and their sums per group.

A row takes about a hundred bytes however long its texts are, so a million rows fit in memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from danish_asr.errors import ConfigError
from danish_asr.scoring.counts import Denominator, ErrorCounts, count_errors
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.settings import ROW_FILTERS, Settings

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

GroupKey = tuple[str | None, ...]
"""One value per column of a grouping; None where it is unknown."""

COUNT_COLUMNS: Final = 9
"""Numbers of `ErrorCounts.to_tuple`."""

COLUMNS: Final = ("corpus", "split", "speaker_id", "dialect", "age_group", "gender")
"""What rows can be grouped by, besides the bands below and the extra keys of a file."""


class Bands:
    """A measure divided into bands; a value on an edge belongs to the band above it."""

    def __init__(self, edges: Sequence[float], unit: str) -> None:
        inner = [f"{low:g}–{high:g}" for low, high in pairwise(edges)]
        spans = [f"under {edges[0]:g}", *inner, f"{edges[-1]:g} and more"]
        self.edges: Final = edges
        self.labels: Final = [f"{span} {unit}" for span in spans]

    def label(self, value: float) -> str:
        """Return the band of a value."""
        return self.labels[bisect_right(self.edges, value)]


BANDS: Final[Mapping[str, Bands]] = {
    "duration": Bands((1, 2, 4, 6, 10, 20), "s"),
    "words_per_second": Bands((1, 1.5, 2, 2.5, 3, 4), "words/s"),
}
"""Groupings by audio length, and by words of the reference per second of audio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsUsed:
    """Which rows of a split are scored; ``left_out`` counts those of the row filter by reason."""

    scored: int
    left_out: Mapping[str, int]
    in_split: int | None

    @property
    def in_file(self) -> int:
        """Rows scored and rows left out."""
        return self.scored + sum(self.left_out.values())

    @property
    def is_partial(self) -> bool:
        """Whether the file has fewer rows than the split."""
        return self.in_split is not None and self.in_file < self.in_split

    def why_left_out(self) -> str:
        """Return the numbers of excluded rows and the reasons in brackets, or an empty string."""
        reasons = "; ".join(f"{count} left out: {why}" for why, count in self.left_out.items())
        return f" ({reasons})" if reasons else ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "scored": self.scored,
            "in_file": self.in_file,
            "in_split": self.in_split,
            "left_out": dict(self.left_out),
            "partial": self.is_partial,
        }


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Counts of one group: (speakers, ``COUNT_COLUMNS``).

    Rows of unknown speakers are one line, as if one person spoke all of them.
    """

    values: GroupKey
    speakers: tuple[str | None, ...]
    sums: IntArray

    @property
    def known_speakers(self) -> int:
        """Speakers with a name."""
        return sum(speaker is not None for speaker in self.speakers)

    @property
    def errors(self) -> ErrorCounts:
        """The sum over all speakers."""
        return ErrorCounts.from_tuple(self.sums.sum(axis=0).tolist())


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """The rows that the row filter keeps, in the order of the file.

    Attributes:
        counts: (rows, 9), see ``COUNT_COLUMNS``; two paired runs have 18 columns.
        lines: Line number of each row, from 1.
        fingerprints: Hash of each row's raw reference, valid within this process.
        labels: The values of each column, sorted: names by alphabet, bands by size, None last.
        codes: For each column the indices into ``labels`` of the rows.
    """

    counts: npt.NDArray[np.int32]
    ids: Sequence[str]
    lines: IntArray
    fingerprints: IntArray
    left_out: Mapping[str, int]
    labels: Mapping[str, Sequence[str | None]]
    codes: Mapping[str, IntArray]

    def used(self, rows_in_split: int | None) -> RowsUsed:
        """Return which rows of a split these are."""
        return RowsUsed(scored=len(self.ids), left_out=self.left_out, in_split=rows_in_split)

    def groups(self, columns: Sequence[str]) -> list[GroupSums]:
        """Sum the counts per group and speaker, in the order of ``labels``.

        The result does not depend on the order of the rows.
        """
        if not self.ids:
            return []
        columns = (*columns, "speaker_id")
        order = np.lexsort([self.codes[column] for column in reversed(columns)])
        keys = np.stack([self.codes[column][order] for column in columns])
        changes = np.diff(keys, axis=1, prepend=-1) != 0
        starts = np.flatnonzero(changes.any(axis=0))
        sums = np.stack(
            [np.add.reduceat(c[order], starts, dtype=np.int64) for c in self.counts.T], axis=1
        )
        labels = [self.labels[column] for column in columns]
        cells = [
            tuple(names[code] for names, code in zip(labels, codes, strict=True))
            for codes in keys[:, starts].T.tolist()
        ]
        groups: list[GroupSums] = []
        for values, members in groupby(range(len(cells)), key=lambda cell: cells[cell][:-1]):
            own = list(members)
            groups.append(GroupSums(values, tuple(cells[cell][-1] for cell in own), sums[own]))
        return groups


def score_rows(
    predictions: Iterable[Prediction], *, columns: Iterable[str], settings: Settings
) -> ScoredRows:
    """Count the errors of each row, and keep the given columns to group by.

    Raises:
        ConfigError: A column is unknown.
        PredictionsError: Passed on from ``predictions``.
    """
    normalize = settings.normalizer()
    reason_of = ROW_FILTERS[settings.row_filter]
    columns = dict.fromkeys(["speaker_id", *columns])
    extra: set[str] = set()
    counts, lines, fingerprints = array("i"), array("i"), array("q")
    codes = {column: array("i") for column in columns}
    code_of: dict[str, dict[str | None, int]] = {column: {} for column in columns}
    ids: list[str] = []
    left_out: Counter[str] = Counter()
    for line, row in enumerate(predictions, start=1):
        if row.extra:
            extra |= row.extra.keys()
        if reason := reason_of(row):
            left_out[reason] += 1
            continue
        errors = count_errors(normalize(row.reference), normalize(row.hypothesis))
        counts.extend(errors.to_tuple())
        ids.append(row.id)
        lines.append(line)
        fingerprints.append(hash(row.reference))
        for column, known in code_of.items():
            codes[column].append(known.setdefault(_value(row, column, errors), len(known)))
    _require_columns(columns, extra)
    labels = {column: sorted(known, key=_order(column)) for column, known in code_of.items()}
    place_of = {
        column: np.argsort([code_of[column][label] for label in labels[column]])
        for column in columns
    }
    return ScoredRows(
        counts=np.array(counts, np.int32).reshape(-1, COUNT_COLUMNS),
        ids=ids,
        lines=np.array(lines, np.int64),
        fingerprints=np.array(fingerprints, np.int64),
        left_out=left_out,
        labels=labels,
        codes={column: place_of[column][np.asarray(codes[column])] for column in columns},
    )


def _value(row: Prediction, column: str, errors: ErrorCounts) -> str | None:
    if column == "duration":
        return BANDS[column].label(row.duration)
    if column == "words_per_second":
        words = errors.words.reference_length
        return BANDS[column].label(words / row.duration) if row.duration else None
    if column in COLUMNS:
        value: str | None = getattr(row, column)
        return value
    return row.extra.get(column)


def _order(column: str) -> Callable[[str | None], tuple[bool, int, str]]:
    place_of = {label: n for n, label in enumerate(BANDS[column].labels)} if column in BANDS else {}
    return lambda label: (label is None, place_of.get(label or "", 0), label or "")


def _require_columns(columns: Iterable[str], extra: Iterable[str]) -> None:
    known = [*COLUMNS, *BANDS, *sorted(extra)]
    if unknown := sorted(set(columns) - set(known)):
        raise ConfigError(
            [f"by: unknown column '{column}'; available: {', '.join(known)}" for column in unknown]
        )


def rates(sums: IntArray | FloatArray, denominator: Denominator) -> tuple[FloatArray, FloatArray]:
    """Return WER and CER of sums of shape (..., 9), by the rule of `Counts.rate`."""
    return _rate(sums[..., 1:5], denominator), _rate(sums[..., 5:9], denominator)


def _rate(counts: IntArray | FloatArray, denominator: Denominator) -> FloatArray:
    hits, substitutions, deletions, insertions = np.moveaxis(counts, -1, 0)
    length = hits + substitutions + deletions + (insertions if denominator == "coral" else 0)
    return np.asarray((substitutions + deletions + insertions) / np.maximum(length, 1))
