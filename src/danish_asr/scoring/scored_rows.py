"""The scored rows of a predictions file as integer counts, and their sums per group."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.metrics import NUMBERS_PER_METRIC, REFERENCE_WORDS, error_places, split_words
from danish_asr.scoring.digests import Digests, RowDigests
from danish_asr.scoring.groupings import (
    COLUMNS,
    MEASURES,
    Column,
    column_specs,
    group_column,
    name_of,
    requested_bands,
)
from danish_asr.scoring.predictions import MEASURES as MEASURED
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.settings import ROW_FILTERS, Settings
from danish_asr.text.labels import similar_labels

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


_SLOWEST: Final = 0.05
"""Words per second of a whole file; speech has 2 to 4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsUsed:
    """Which rows of a split are scored."""

    scored: int
    in_file: int
    in_split: int | None
    left_out: Mapping[str, int]  # by the row filter, per reason
    partial: bool  # the file has fewer rows than the split
    splits: Sequence[str]  # names of the splits that the rows are from
    predictions_sha256: str  # of all rows in the file, see `danish_asr.scoring.digests`
    references_sha256: str
    empty_hypotheses: int  # of the scored rows, where the reference has a word
    similar_labels: Sequence[str]  # labels of a column that may mean the same
    words_per_second: float | None  # of the scored rows with a duration
    where: str | None = None  # the condition of an evaluation of some rows of the split

    @property
    def digests(self) -> Digests:
        """Both hashes."""
        return Digests(self.predictions_sha256, self.references_sha256)

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

    def warnings(self, name: str = "") -> list[str]:
        """Return what is suspicious about the rows; ``name`` is that of the file."""
        partial = self.partial_warning(f"{name} is") if name else self.partial_warning()
        lines = [partial] if partial else []
        prefix = f"{name}: " if name else ""
        if self.empty_hypotheses:
            lines.append(
                f"{prefix}{self.empty_hypotheses:,} of {self.scored:,} hypotheses are empty: all "
                "their words count as deleted"
            )
        if self.words_per_second is not None and self.words_per_second < _SLOWEST:
            lines.append(
                f"{prefix}{self.words_per_second:.4f} words per second: expected durations in "
                "seconds, these may be milliseconds"
            )
        alike = f"{prefix}labels that may mean the same are groups of their own"
        return lines + [f"{alike}: {labels}" for labels in self.similar_labels]

    def why_left_out(self) -> str:
        """Return numbers of excluded rows and the reasons in brackets, or an empty string."""
        reasons = "; ".join(f"{count} left out: {why}" for why, count in self.left_out.items())
        return f" ({reasons})" if reasons else ""


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Counts of one group; rows of unknown speakers are one line, as if of one person.

    A line of counts is the number of rows, then hits, substitutions, deletions and insertions of
    each metric: with WER and CER nine numbers. `danish_asr.metrics` has the positions.
    """

    group: Mapping[str, str | None]  # values of the columns
    speakers: Sequence[str | None]
    sums: IntArray | FloatArray  # (speakers, counts)
    rows: IntArray | FloatArray  # (rows, counts)
    missing: str = "unknown"  # label of a missing value

    @property
    def known_speakers(self) -> int:
        """Speakers with a name."""
        return sum(speaker is not None for speaker in self.speakers)

    @property
    def label(self) -> str:
        """The values for display; characters that cannot be printed are escaped."""
        values = [self.missing if value is None else value for value in self.group.values()]
        label = " · ".join(values) or "all"
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in label)


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of a group, those of a speaker together; ``starts`` is where each speaker begins."""

    group: Mapping[str, str | None]
    speakers: Sequence[str | None]
    rows: IntArray
    starts: IntArray
    missing: str

    def sums(self, counts: IntArray | FloatArray) -> GroupSums:
        """Return the sums of ``counts``, (all rows, counts), over this group."""
        rows = counts[self.rows]
        sums = np.add.reduceat(rows, self.starts)
        return GroupSums(self.group, self.speakers, sums, rows, self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRows:
    """The rows that the row filter keeps, in the order of the file."""

    groupings: Mapping[str, Sequence[str]]  # the specs of each grouping's columns: "age:5"
    columns: Mapping[str, Column]  # by spec
    ids: Sequence[str]
    references: Sequence[int]  # hashes of the normalised texts
    counts: IntArray  # (rows, counts), see `GroupSums`
    errors_at: Sequence[Sequence[int]]  # see `error_places`; empty unless they are for MAPSSWE
    left_out: Mapping[str, int]
    splits: Sequence[str]
    digests: Digests
    empty_hypotheses: int
    words_per_second: float | None

    def used(self, in_split: int | None, where: str | None = None) -> RowsUsed:
        """Return which rows of a split these are; ``where`` selected those of the file."""
        in_file = len(self.ids) + sum(self.left_out.values())
        return RowsUsed(
            scored=len(self.ids),
            in_file=in_file,
            in_split=in_split,
            left_out=self.left_out,
            partial=in_split is not None and in_file < in_split,
            splits=self.splits,
            where=where,
            **self.digests._asdict(),
            empty_hypotheses=self.empty_hypotheses,
            words_per_second=self.words_per_second,
            similar_labels=[
                f"{name_of(spec)} {' and '.join(map(repr, labels))}"
                for spec, column in self.columns.items()
                for labels in similar_labels(column.labels, names=spec == "speaker_id")
            ],
        )

    def groups(self, specs: Sequence[str] = ()) -> list[Group]:
        """Return the groups of a grouping, in alphabetical order or by the size of a number."""
        if not self.ids:
            return []
        columns = [self.columns[spec] for spec in specs]
        speaker = self.columns["speaker_id"]
        codes = np.stack([column.codes for column in [*columns, speaker]])
        order = np.lexsort(codes[::-1])  # by the first column, rows of equal codes as in the file
        codes = codes[:, order]
        changed = codes[:, 1:] != codes[:, :-1]
        speaker_starts = np.flatnonzero([True, *changed.any(axis=0)])
        group_starts = np.flatnonzero([True, *changed[:-1].any(axis=0)])
        texts = {text for column in columns for text in column.labels}
        missing = "unknown (no value)" if "unknown" in texts else "unknown"
        groups: list[Group] = []
        for start, stop in zip(group_starts, [*group_starts[1:], len(order)], strict=True):
            inside = (start <= speaker_starts) & (speaker_starts < stop)
            starts = speaker_starts[inside]
            speakers = [speaker.labels[code] for code in codes[-1, starts]]
            group: dict[str, str | None] = {}
            for spec, column, code in zip(specs, columns, codes[:-1, start], strict=True):
                group[name_of(spec)] = column.labels[code]
            groups.append(Group(group, speakers, order[start:stop], starts - start, missing))
        return groups


def score_rows(
    predictions: Iterable[Prediction],
    *,
    by: Iterable[str],
    settings: Settings,
    for_mapsswe: bool = False,
    on_row: Callable[[Prediction, str, str], None] | None = None,
) -> ScoredRows:
    """Count the errors of each row, and keep the columns of each grouping, e.g. "age_group,gender".

    A spec is a column as a user writes it, with bands if it names some ("age:5"); its name is
    "age". ``for_mapsswe`` also keeps the places of the errors, which that test needs. ``on_row`` is
    called with each row that is scored, its normalised reference and hypothesis.

    Raises:
        ConfigError: A column is unknown, or has bands and is no column of numbers.
        PredictionsError: An id occurs twice, or no reference has a word.
    """
    normalize = settings.normalizer()
    reason_to_skip = ROW_FILTERS[settings.row_filter]
    groupings = {grouping: column_specs(grouping) for grouping in by}
    specs = dict.fromkeys(["speaker_id", *chain(*groupings.values()), "corpus", "dialect"])
    bands = {spec: requested_bands(spec) for spec in specs}
    values_of: dict[str, list[str | None]] = {spec: [] for spec in specs}
    extra_columns: set[str] = set()
    splits: set[str] = set()
    left_out: Counter[str] = Counter()
    digests = RowDigests()
    empty_hypotheses = 0
    seconds: list[float] = []
    ids: list[str] = []
    seen_ids: set[str] = set()
    references: list[int] = []
    lines: list[list[int]] = []
    errors_at: list[Sequence[int]] = []
    for row in predictions:
        if row.id in seen_ids:
            raise PredictionsError(f"duplicate id {row.id!r}; expected each utterance once")
        seen_ids.add(row.id)
        digests.add(row)
        extra_columns.update(row.extra)
        if row.split:
            splits.add(row.split)
        reference = normalize(row.reference)
        reason = reason_to_skip(row, reference)
        if reason:
            left_out[reason] += 1
            continue
        hypothesis = normalize(row.hypothesis)
        if on_row:
            on_row(row, reference, hypothesis)
        empty_hypotheses += bool(reference and not hypothesis)
        counts = [1]
        for metric in settings.all_metrics:
            counts += metric.count(reference, hypothesis).to_tuple()
        ids.append(row.id)
        references.append(hash(reference))
        lines.append(counts)
        if for_mapsswe:
            errors_at.append(error_places(split_words(reference), split_words(hypothesis)))
        words = sum(counts[REFERENCE_WORDS])
        seconds.append(row.duration or 0)
        for spec, values in values_of.items():
            values.append(_value(row, name_of(spec), words))
    _check_columns(specs, extra_columns)
    width = 1 + NUMBERS_PER_METRIC * len(settings.all_metrics)
    counts_of_rows = np.array(lines, np.int64).reshape(len(ids), width)
    if ids and not counts_of_rows[:, REFERENCE_WORDS].any():
        raise PredictionsError(
            f"no word in the references of {len(ids)} rows under profile {settings.profile}"
        )
    return ScoredRows(
        groupings=groupings,
        columns={spec: group_column(spec, bands[spec], values_of[spec]) for spec in specs},
        ids=ids,
        references=references,
        counts=counts_of_rows,
        errors_at=errors_at,
        left_out=dict(left_out),
        splits=sorted(splits),
        digests=digests.digests(),
        empty_hypotheses=empty_hypotheses,
        words_per_second=_words_per_second(counts_of_rows, seconds),
    )


def _words_per_second(counts: IntArray, seconds: Sequence[float]) -> float | None:
    known = np.array(seconds) > 0
    words = int(counts[known][:, REFERENCE_WORDS].sum())
    return round(words / sum(seconds), 4) if known.any() else None


def _check_columns(specs: Iterable[str], extra_columns: Iterable[str]) -> None:
    available = [*COLUMNS, *MEASURES, *sorted({*extra_columns, *MEASURED})]
    unknown = sorted({name_of(spec) for spec in specs} - set(available))
    if unknown:
        known = ", ".join(available)
        raise ConfigError([f"by: unknown column '{name}'; available: {known}" for name in unknown])


def _value(row: Prediction, name: str, words: int) -> str | None:
    if name in COLUMNS:
        text: str | None = getattr(row, name)
        return text
    if name == "duration":
        return None if row.duration is None else str(row.duration)
    if name == "words_per_second":
        return str(words / row.duration) if row.duration else None
    if name in MEASURED and name not in row.extra:
        number = getattr(row, name)
        return None if number is None else str(number)
    return row.extra.get(name)
