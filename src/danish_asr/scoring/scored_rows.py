"""The scored rows of a predictions file as integer counts, and their sums per group."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from danish_asr.errors import ConfigError
from danish_asr.metrics import Denominator, ErrorCounts, count_errors
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.settings import ROW_FILTERS, Settings

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

Values = tuple[str | None, ...]

COLUMNS: Final = ("corpus", "split", "speaker_id", "dialect", "age_group", "gender")
"""What rows can be grouped by, besides the bands below and the extra keys of a file."""

_EDGES: Final = {"duration": (1, 2, 4, 6, 10, 20), "words_per_second": (1, 1.5, 2, 2.5, 3, 4)}


def _bands(column: str, unit: str) -> list[str]:
    edges = _EDGES[column]
    inner = [f"{low:g}–{high:g}" for low, high in pairwise(edges)]
    spans = [f"under {edges[0]:g}", *inner, f"{edges[-1]:g} and more"]
    return [f"{span} {unit}" for span in spans]


BANDS: Final[Mapping[str, Sequence[str]]] = {
    "duration": _bands("duration", "s"),
    "words_per_second": _bands("words_per_second", "words/s"),
}
"""Groupings by numbers; a value on an edge belongs to the band above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsUsed:
    """Which rows of a split are scored."""

    scored: int
    in_file: int
    in_split: int | None
    left_out: Mapping[str, int]  # by the row filter, per reason
    partial: bool  # the file has fewer rows than the split

    def why_left_out(self) -> str:
        """Return numbers of excluded rows and the reasons in brackets, or an empty string."""
        reasons = "; ".join(f"{count} left out: {why}" for why, count in self.left_out.items())
        return f" ({reasons})" if reasons else ""


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Counts of one group; rows of unknown speakers are one line, as if of one person."""

    group: Mapping[str, str | None]  # values of the columns
    speakers: tuple[str | None, ...]
    sums: IntArray  # (speakers, 9), or (speakers, 18) for two paired runs

    @property
    def known_speakers(self) -> int:
        """Speakers with a name."""
        return sum(speaker is not None for speaker in self.speakers)

    @property
    def label(self) -> str:
        """The values for display; characters that cannot be printed are escaped."""
        label = " · ".join("unknown" if value is None else value for value in self.group.values())
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in label or "all")


class ScoredRow(NamedTuple):
    """A row, as far as groups and comparison need it."""

    id: str
    line: int
    reference: int  # hash of the raw text
    values: Values
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """The rows that the row filter keeps, in the order of the file."""

    groupings: Mapping[str, tuple[str, ...]]  # columns of each grouping
    columns: tuple[str, ...]  # those of ``ScoredRow.values``
    rows: Sequence[ScoredRow]
    left_out: Mapping[str, int]

    def used(self, in_split: int | None) -> RowsUsed:
        """Return which rows of a split these are."""
        in_file = len(self.rows) + sum(self.left_out.values())
        return RowsUsed(
            scored=len(self.rows),
            in_file=in_file,
            in_split=in_split,
            left_out=self.left_out,
            partial=in_split is not None and in_file < in_split,
        )

    def groups(self, columns: Sequence[str] = ()) -> list[GroupSums]:
        """Sum the counts per group and speaker, in alphabetical order or by size of a band."""
        of_cell = (*columns, "speaker_id")
        indices = [self.columns.index(column) for column in of_cell]
        counts_of: defaultdict[Values, list[tuple[int, ...]]] = defaultdict(list)
        for row in self.rows:
            counts_of[tuple([row.values[index] for index in indices])].append(row.counts)
        cells = sorted(counts_of, key=lambda cell: list(map(_order, of_cell, cell)))
        groups: list[GroupSums] = []
        for values, members in groupby(cells, key=lambda cell: cell[:-1]):
            of_speakers = list(members)
            sums = np.array([np.sum(counts_of[cell], axis=0) for cell in of_speakers])
            group = dict(zip(columns, values, strict=True))
            groups.append(GroupSums(group, tuple(cell[-1] for cell in of_speakers), sums))
        return groups


def score_rows(
    predictions: Iterable[Prediction], *, by: Iterable[str], settings: Settings
) -> ScoredRows:
    """Count the errors of each row, and keep the columns of each grouping, e.g. "age_group,gender".

    Raises:
        ConfigError: A column is unknown.
    """
    normalize = settings.normalizer()
    reason_of = ROW_FILTERS[settings.row_filter]
    groupings = {
        name: tuple(dict.fromkeys(column.strip() for column in name.split(","))) for name in by
    }
    columns = tuple({"speaker_id": None} | dict.fromkeys(chain.from_iterable(groupings.values())))
    extra: set[str] = set()
    left_out: Counter[str] = Counter()
    rows: list[ScoredRow] = []
    for line, row in enumerate(predictions, start=1):
        extra |= row.extra.keys()
        if reason := reason_of(row):
            left_out[reason] += 1
            continue
        errors = count_errors(normalize(row.reference), normalize(row.hypothesis))
        values = tuple([_value(row, column, errors) for column in columns])
        rows.append(ScoredRow(row.id, line, hash(row.reference), values, errors.to_tuple()))
    known = [*COLUMNS, *BANDS, *sorted(extra)]
    if unknown := sorted(set(columns) - set(known)):
        raise ConfigError(
            [f"by: unknown column '{column}'; available: {', '.join(known)}" for column in unknown]
        )
    return ScoredRows(groupings, columns, rows, dict(left_out))


def _value(row: Prediction, column: str, errors: ErrorCounts) -> str | None:
    if column in BANDS:
        value = row.duration
        if column == "words_per_second":
            if not row.duration:
                return None
            value = errors.words.reference_length / row.duration
        return BANDS[column][bisect_right(_EDGES[column], value)]
    label: str | None = getattr(row, column) if column in COLUMNS else row.extra.get(column)
    return label


def _order(column: str, label: str | None) -> tuple[bool, int, str]:
    band = BANDS[column].index(label) if label and column in BANDS else 0
    return label is None, band, label or ""


def rates(sums: IntArray | FloatArray, denominator: Denominator) -> FloatArray:
    """Return WER and CER, (2, ...), of sums of shape (..., 9), by the rule of `Counts.rate`."""
    counts = sums[..., 1:].reshape(*sums.shape[:-1], 2, 4)
    hits, substitutions, deletions, insertions = np.moveaxis(counts, (-1, -2), (0, 1))
    length = hits + substitutions + deletions + (insertions if denominator == "coral" else 0)
    return np.asarray((substitutions + deletions + insertions) / np.maximum(length, 1))
