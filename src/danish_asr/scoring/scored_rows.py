"""The scored rows of a predictions file, as columns of integers.

A row costs about a hundred bytes whatever its texts are, so a million rows fit in memory. All that
is told about a group comes from sums of these columns.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from danish_asr.errors import ConfigError, PredictionsError
from danish_asr.scoring.counts import Denominator, ErrorCounts, count_errors
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.row_filters import RowsUsed, row_filter_reason
from danish_asr.text.profiles import normalizer

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

GroupKey = tuple[str | None, ...]
"""One value per column of a grouping; None where the row does not know it."""

COUNT_COLUMNS: Final = 9
"""Rows, then hits, substitutions, deletions, insertions in words, then in characters."""

COLUMNS: Final = ("corpus", "split", "speaker_id", "dialect", "age_group", "gender")
"""What rows can be grouped by, beside the bands below and what a file holds in ``extra``."""


@dataclass(frozen=True, slots=True)
class Bands:
    """A measure cut into bands; a value on an edge belongs to the band above it.

    ``labels`` runs from the lowest band to the highest.
    """

    edges: tuple[float, ...]
    unit: str
    labels: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        inner = [f"{low:g}–{high:g}" for low, high in zip(self.edges, self.edges[1:], strict=False)]
        spans = [f"under {self.edges[0]:g}", *inner, f"{self.edges[-1]:g} and more"]
        object.__setattr__(self, "labels", tuple(f"{span} {self.unit}" for span in spans))

    def label(self, value: float) -> str:
        """Return the band of a value."""
        return self.labels[bisect_right(self.edges, value)]


BANDS: Final[Mapping[str, Bands]] = {
    "duration": Bands((1, 2, 4, 6, 10, 20), "s"),
    "words_per_second": Bands((1, 1.5, 2, 2.5, 3, 4), "words/s"),
}
"""Groupings by a measure: length of the audio, and words of the reference per second of it."""


@dataclass(slots=True)
class _Factor:
    """A column of labels as codes, which are given in order of appearance."""

    codes: array[int] = field(default_factory=lambda: array("i"))
    code_of: dict[str | None, int] = field(default_factory=dict)

    def add(self, label: str | None) -> None:
        self.codes.append(self.code_of.setdefault(label, len(self.code_of)))

    @property
    def labels(self) -> tuple[str | None, ...]:
        return tuple(self.code_of)


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Counts of one group: one line per speaker, with the columns of ``COUNT_COLUMNS``.

    Rows whose speaker is unknown are one line together, as if one person spoke them all.
    """

    values: GroupKey
    speakers: tuple[str | None, ...]
    sums: IntArray

    @property
    def known_speakers(self) -> int:
        """Speakers that have a name."""
        return sum(speaker is not None for speaker in self.speakers)

    @property
    def errors(self) -> ErrorCounts:
        """The sum over all speakers."""
        return ErrorCounts.from_tuple(self.sums.sum(axis=0).tolist())


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """Rows in the order of the file, those that the row filter left out excepted.

    Attributes:
        counts: (rows, 9), see ``COUNT_COLUMNS``; two runs side by side have 18 columns.
        ids: Of each row.
        lines: In the file, of each row, counted from 1.
        fingerprints: A hash of each row's raw reference, valid within this process.
        left_out: Rows that the filter left out, by reason.
    """

    counts: IntArray
    ids: tuple[str, ...]
    lines: IntArray
    fingerprints: IntArray
    left_out: Mapping[str, int]
    factors: Mapping[str, _Factor]

    def used(self, rows_in_split: int | None) -> RowsUsed:
        """Tell which rows of a split these are."""
        return RowsUsed(scored=len(self.ids), left_out=self.left_out, in_split=rows_in_split)

    def groups(self, columns: Sequence[str]) -> list[GroupSums]:
        """Sum the counts per group and speaker; bands in their order, names by alphabet.

        Speakers are in order of their names, so that nothing depends on the order of the rows.
        """
        if not self.ids:
            return []
        speakers, speaker_of_row = self._speakers()
        group_of_row = self._numbered(columns)
        # The speaker is the last digit of a cell, so a group's cells are neighbours.
        cells, cell_of_row = np.unique(
            group_of_row * len(speakers) + speaker_of_row, return_inverse=True
        )
        sums = np.stack(
            [np.bincount(cell_of_row, weights=column) for column in self.counts.T], axis=1
        ).astype(np.int64)
        group_of_cell, speaker_of_cell = np.divmod(cells, len(speakers))
        begins = np.flatnonzero(np.diff(group_of_cell, prepend=-1)).tolist()
        groups = [
            GroupSums(
                values=values,
                speakers=tuple(speakers[speaker] for speaker in speaker_of_cell[begin:end]),
                sums=sums[begin:end],
            )
            for values, begin, end in zip(
                self._labels(columns, group_of_row), begins, [*begins[1:], None], strict=True
            )
        ]
        return sorted(groups, key=lambda group: _sort_key(columns, group.values))

    def _speakers(self) -> tuple[tuple[str | None, ...], IntArray]:
        """Return all speakers in order, and each row's place among them."""
        labels = self.factors["speaker_id"].labels
        order = sorted(range(len(labels)), key=lambda code: _place("speaker_id", labels[code]))
        return tuple(labels[code] for code in order), np.argsort(order)[self._codes("speaker_id")]

    def _numbered(self, columns: Sequence[str]) -> IntArray:
        """Number the combinations that occur, column by column, so that no product overflows."""
        numbers = np.zeros(len(self.ids), np.int64)
        for column in columns:
            pairs = numbers * len(self.factors[column].code_of) + self._codes(column)
            numbers = np.unique(pairs, return_inverse=True)[1]
        return numbers

    def _labels(self, columns: Sequence[str], group_of_row: IntArray) -> Iterator[GroupKey]:
        """Yield the values of each group, as one of its rows has them."""
        labels_of = [self.factors[column].labels for column in columns]
        codes_of = [self.factors[column].codes for column in columns]
        _, example_rows = np.unique(group_of_row, return_index=True)
        for row in example_rows.tolist():
            pairs = zip(labels_of, codes_of, strict=True)
            yield tuple(labels[codes[row]] for labels, codes in pairs)

    def _codes(self, column: str) -> IntArray:
        return np.asarray(self.factors[column].codes, np.int64)


def _sort_key(columns: Sequence[str], values: GroupKey) -> list[tuple[bool, int, str]]:
    return [_place(column, value) for column, value in zip(columns, values, strict=True)]


def _place(column: str, value: str | None) -> tuple[bool, int, str]:
    if value is None:
        return True, 0, ""
    return False, BANDS[column].labels.index(value) if column in BANDS else 0, value


def score_rows(
    predictions: Iterable[Prediction],
    *,
    columns: Iterable[str],
    profile: str = "coral",
    row_filter: str = "all",
    remove_fillers: bool = False,
) -> ScoredRows:
    """Count the errors of each row, and keep the given columns to group by.

    Raises:
        ConfigError: There is no such profile, row filter or column.
        PredictionsError: An id occurs twice; or passed on from ``predictions``.
    """
    normalise = normalizer(profile, remove_fillers=remove_fillers)
    reason_of = row_filter_reason(row_filter)
    factors = {column: _Factor() for column in ("speaker_id", *columns)}
    unseen = set(factors) - set(COLUMNS) - set(BANDS)
    extra: set[str] = set()
    counts, lines, fingerprints = array("i"), array("i"), array("q")
    ids: list[str] = []
    left_out: Counter[str] = Counter()
    for line, row in enumerate(predictions, start=1):
        if row.extra:
            extra |= row.extra.keys()
        if reason := reason_of(row):
            left_out[reason] += 1
            continue
        errors = count_errors(normalise(row.reference), normalise(row.hypothesis))
        counts.extend(errors.to_tuple())
        ids.append(row.id)
        lines.append(line)
        fingerprints.append(hash(row.reference))
        for column, factor in factors.items():
            factor.add(_value(row, column, errors))
    if unknown := sorted(unseen - extra):
        raise _unknown_columns(unknown, extra)
    if len(set(ids)) < len(ids):
        (twice, _), *_ = Counter(ids).most_common(1)
        raise PredictionsError(f"id {twice!r} occurs twice; every utterance may be scored once")
    return ScoredRows(
        counts=np.array(counts, np.int64).reshape(-1, COUNT_COLUMNS),
        ids=tuple(ids),
        lines=np.array(lines, np.int64),
        fingerprints=np.array(fingerprints, np.int64),
        left_out=left_out,
        factors=factors,
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


def _unknown_columns(unknown: Sequence[str], extra: Iterable[str]) -> ConfigError:
    known = ", ".join([*COLUMNS, *BANDS, *sorted(extra)])
    return ConfigError(
        [f"by: '{column}' is no column of the predictions; they have {known}" for column in unknown]
    )


def rates(sums: IntArray | FloatArray, denominator: Denominator) -> tuple[FloatArray, FloatArray]:
    """Return WER and CER of sums of shape (..., 9), by the same rule as `Counts.rate`."""
    return _rate(sums[..., 1:5], denominator), _rate(sums[..., 5:9], denominator)


def _rate(counts: IntArray | FloatArray, denominator: Denominator) -> FloatArray:
    hits, substitutions, deletions, insertions = np.moveaxis(counts, -1, 0)
    length = hits + substitutions + deletions + (insertions if denominator == "coral" else 0)
    return np.asarray((substitutions + deletions + insertions) / np.maximum(length, 1))
