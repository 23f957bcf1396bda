"""The scored rows of a predictions file as integer counts, and their sums per group."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.metrics import Denominator, ErrorCounts, count_errors, split_words
from danish_asr.scoring.groupings import (
    COLUMNS,
    MEASURES,
    Bands,
    columns_of,
    fixed_bands,
    groups_of_numbers,
    name_of,
)
from danish_asr.scoring.mapsswe import error_places
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.settings import ROW_FILTERS, Settings

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

Values = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsUsed:
    """Which rows of a split are scored."""

    scored: int
    in_file: int
    in_split: int | None
    left_out: Mapping[str, int]  # by the row filter, per reason
    partial: bool  # the file has fewer rows than the split
    splits: Sequence[str]  # names of the splits that the rows are from
    where: str | None = None  # the condition of an evaluation of some rows of the split

    def of_split(self) -> str:
        """Return of how many rows the scored ones are, which, and why not the others."""
        total = "" if self.in_split is None else f" of {self.in_split:,} in the split"
        where = f", where {self.where}" if self.where else ""
        return total + where + self.why_left_out()

    def partial_warning(self, what: str = "the predictions are") -> str:
        """Return that the file lacks rows of its split, or an empty string."""
        if not self.partial:
            return ""
        where = f", where {self.where}" if self.where else ""
        return (
            f"{what} partial: {self.in_file:,} of {self.in_split:,} rows of the split{where}; "
            "these scores are not the split's scores"
        )

    def why_left_out(self) -> str:
        """Return numbers of excluded rows and the reasons in brackets, or an empty string."""
        reasons = "; ".join(f"{count} left out: {why}" for why, count in self.left_out.items())
        return f" ({reasons})" if reasons else ""


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Counts of one group; rows of unknown speakers are one line, as if of one person."""

    group: Mapping[str, str | None]  # values of the columns
    speakers: tuple[str | None, ...]
    sums: IntArray | FloatArray  # (speakers, 9); of paired runs (speakers, 18) or more
    rows: Sequence[tuple[int, ...]]  # the counts of each row
    missing: str = "unknown"  # label of a missing value

    @property
    def known_speakers(self) -> int:
        """Speakers with a name."""
        return sum(speaker is not None for speaker in self.speakers)

    @property
    def label(self) -> str:
        """The values for display; characters that cannot be printed are escaped."""
        label = " · ".join(
            self.missing if value is None else value for value in self.group.values()
        )
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in label or "all")


class ScoredRow(NamedTuple):
    """A row, as far as groups and comparison need it."""

    id: str
    line: int
    reference: int  # hash of the raw text
    values: Values
    counts: tuple[int, ...]
    errors_at: tuple[int, ...] = ()  # see `error_places`, if requested


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """The rows that the row filter keeps, in the order of the file."""

    groupings: Mapping[str, tuple[str, ...]]  # columns of each grouping
    columns: tuple[str, ...]  # those of ``ScoredRow.values``
    rows: Sequence[ScoredRow]
    left_out: Mapping[str, int]
    orders: Mapping[str, Sequence[str]]  # labels of columns of numbers, by size
    splits: Sequence[str]

    def used(self, in_split: int | None, where: str | None = None) -> RowsUsed:
        """Return which rows of a split these are; ``where`` selected those of the file."""
        in_file = len(self.rows) + sum(self.left_out.values())
        return RowsUsed(
            scored=len(self.rows),
            in_file=in_file,
            in_split=in_split,
            left_out=self.left_out,
            partial=in_split is not None and in_file < in_split,
            splits=self.splits,
            where=where,
        )

    def groups(self, columns: Sequence[str] = ()) -> list[GroupSums]:
        """Sum the counts per group and speaker, in alphabetical order or by size of a number."""
        of_cell = (*columns, "speaker_id")
        indices = [self.columns.index(column) for column in of_cell]
        counts_of: defaultdict[Values, list[tuple[int, ...]]] = defaultdict(list)
        for row in self.rows:
            counts_of[tuple([row.values[index] for index in indices])].append(row.counts)
        orders = [self.orders.get(column, ()) for column in of_cell]
        cells = sorted(counts_of, key=lambda cell: list(map(_order, orders, cell)))
        texts = {value for cell in cells for value in cell[:-1]}
        missing = "unknown (no value)" if "unknown" in texts else "unknown"
        groups: list[GroupSums] = []
        for values, members in groupby(cells, key=lambda cell: cell[:-1]):
            of_speakers = list(members)
            numbers = (zip(*counts_of[cell], strict=True) for cell in of_speakers)
            sums = np.array([[*map(sum, columns_of_cell)] for columns_of_cell in numbers])
            group = dict(zip(map(name_of, columns), values, strict=True))
            names = tuple(cell[-1] for cell in of_speakers)
            rows = list(chain.from_iterable(counts_of[cell] for cell in of_speakers))
            groups.append(GroupSums(group, names, sums, rows, missing))
        return groups


def score_rows(
    predictions: Iterable[Prediction],
    *,
    by: Iterable[str],
    settings: Settings,
    places: bool = False,
) -> ScoredRows:
    """Count the errors of each row, and keep the columns of each grouping, e.g. "age_group,gender".

    Raises:
        ConfigError: A column is unknown, or has bands and is no column of numbers.
        PredictionsError: No reference has a word.
    """
    normalize = settings.normalizer()
    reason_of = ROW_FILTERS[settings.row_filter]
    groupings = {grouping: columns_of(grouping) for grouping in by}
    columns = tuple({"speaker_id": None} | dict.fromkeys(chain.from_iterable(groupings.values())))
    bands = {column: fixed_bands(column) for column in columns}
    values_of = [(name_of(column), bands[column]) for column in columns]
    extra: set[str] = set()
    splits: set[str] = set()
    left_out: Counter[str] = Counter()
    rows: list[ScoredRow] = []
    words = 0
    for line, row in enumerate(predictions, start=1):
        extra |= row.extra.keys()
        splits |= {row.split} if row.split else set()
        reference = normalize(row.reference)
        if reason := reason_of(row, reference):
            left_out[reason] += 1
            continue
        hypothesis = normalize(row.hypothesis)
        errors = count_errors(reference, hypothesis)
        words += errors.words.reference_length
        values = tuple([_value(row, name, errors, banded) for name, banded in values_of])
        found = error_places(split_words(reference), split_words(hypothesis)) if places else ()
        rows.append(ScoredRow(row.id, line, hash(row.reference), values, errors.to_tuple(), found))
    known = [*COLUMNS, *MEASURES, *sorted(extra)]
    if unknown := sorted({name for name, _ in values_of} - set(known)):
        raise ConfigError(
            [f"by: unknown column '{column}'; available: {', '.join(known)}" for column in unknown]
        )
    if rows and not words:
        raise PredictionsError(
            f"no word to recognise in the references of {len(rows)} rows under profile "
            f"{settings.profile}; without one there is no error rate"
        )
    orders: dict[str, Sequence[str]] = {}
    for at, (column, banded) in enumerate(bands.items()):
        if name_of(column) in MEASURES and isinstance(banded, Bands):
            orders[column] = banded.labels
            continue
        groups = groups_of_numbers(column, banded, Counter(row.values[at] for row in rows))
        orders[column] = list(dict.fromkeys(groups.values()))
        if orders[column] != list(groups):
            rows = [_in_group(row, at, groups) for row in rows]
    return ScoredRows(groupings, columns, rows, dict(left_out), orders, sorted(splits))


def _value(
    row: Prediction, name: str, errors: ErrorCounts, bands: Bands | int | None
) -> str | None:
    if name not in MEASURES:
        label: str | None = getattr(row, name) if name in COLUMNS else row.extra.get(name)
        return label
    number = row.duration
    if name == "words_per_second" and number is not None:
        number = errors.words.reference_length / number if number else None
    if number is None:
        return None
    return bands.label(number) if isinstance(bands, Bands) else str(number)


def _in_group(row: ScoredRow, at: int, groups: Mapping[str, str]) -> ScoredRow:
    values = list(row.values)
    values[at] = groups.get(values[at] or "")
    return row._replace(values=tuple(values))


def _order(labels: Sequence[str], label: str | None) -> tuple[bool, int, str]:
    return label is None, labels.index(label) if label in labels else 0, label or ""


def rates(sums: IntArray | FloatArray, denominator: Denominator) -> FloatArray:
    """Return WER and CER, (2, ...), of sums of shape (..., 9); NaN without a reference word."""
    counts = sums[..., 1:].reshape(*sums.shape[:-1], 2, 4)
    hits, substitutions, deletions, insertions = np.moveaxis(counts, (-1, -2), (0, 1))
    reference = hits + substitutions + deletions
    length = reference + (insertions if denominator == "coral" else 0)
    errors = substitutions + deletions + insertions
    return np.where(reference > 0, errors / np.maximum(length, 1), np.nan)
