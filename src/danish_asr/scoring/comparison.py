"""Comparison of two runs over the same rows: differences with intervals and p-values.

Paired bootstrap (Bisani and Ney, ICASSP 2004) with speakers as blocks (Liu and Peng, Interspeech
2020). The p-value is the level at which the interval just touches zero, also adjusted for the
groups of a grouping (Holm, Scandinavian Journal of Statistics 6, 1979).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from danish_asr.errors import PredictionsError
from danish_asr.metrics import Counts, ErrorCounts
from danish_asr.scoring.intervals import Estimate, estimate, p_value, resampled_rates, to_plain
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scored_rows import FloatArray, GroupSums, RowsUsed, ScoredRows, score_rows
from danish_asr.scoring.settings import COMPARE_RESAMPLES, DEFAULT_BY, Settings

_LISTED: Final = 10  # rows in an error message


@dataclass(frozen=True, slots=True)
class PairedRate:
    """One rate of both runs over the same rows."""

    a: float
    b: float
    difference: Estimate  # B minus A, negative if B wins
    p: float | None = None  # None if the difference is not resolvable
    p_adjusted: float | None = None  # by Holm, over the groups of a grouping
    p_is_bound: bool = False  # all resamples have one sign, so p is the smallest they can show


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedGroup:
    """Both runs over the rows that share the values of a grouping's columns."""

    label: str
    group: Mapping[str, str | None]
    rows: int
    speakers: int
    wer: PairedRate
    cer: PairedRate
    words_a: Counts
    words_b: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Run B compared with run A; ``rows`` has those used of "a" and of "b"."""

    settings: Settings
    rows: Mapping[str, RowsUsed]
    overall: ComparedGroup
    groupings: Mapping[str, Sequence[ComparedGroup]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return to_plain(self) | {"settings": self.settings.to_dict()}


def compare_predictions(
    a: Iterable[Prediction],
    b: Iterable[Prediction],
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    names: tuple[str, str] = ("A", "B"),
    rows_in_split: tuple[int | None, int | None] = (None, None),
) -> Comparison:
    """Compare two runs over the same rows; groups and speakers are those of A.

    Raises:
        PredictionsError: The runs scored different rows or references, or splits of other sizes.
        ConfigError: A column is unknown.
    """
    settings = settings or Settings(resamples=COMPARE_RESAMPLES)
    one = score_rows(a, by=by, settings=settings)
    other = score_rows(b, by=(), settings=settings)
    paired = _pair(one, other, names)
    if None not in rows_in_split and rows_in_split[0] != rows_in_split[1]:
        raise PredictionsError(
            f"{names[0]} is of a split of {rows_in_split[0]} rows, {names[1]} of a split of "
            f"{rows_in_split[1]}; evaluate both runs on one split"
        )
    return Comparison(
        settings=settings,
        rows={"a": one.used(rows_in_split[0]), "b": other.used(rows_in_split[1])},
        overall=_compare_groups(paired.groups(), settings)[0],
        groupings={
            name: _compare_groups(paired.groups(columns), settings)
            for name, columns in paired.groupings.items()
        },
    )


def _pair(a: ScoredRows, b: ScoredRows, names: tuple[str, str]) -> ScoredRows:
    """Return A's rows with the counts of both runs, A's first; pairs rows by id."""
    _refuse([*_only_in(a, b, *names), *_only_in(b, a, *reversed(names))], "different rows")
    if not a.rows:
        raise PredictionsError(f"{names[0]}: the row filter leaves no row to compare")
    of_b = {row.id: row for row in b.rows}
    pairs = [(row, of_b[row.id]) for row in a.rows]
    changed = [
        f"{names[1]}:{other.line}: the reference of id {row.id!r} differs from "
        f"{names[0]}:{row.line}"
        for row, other in pairs
        if row.reference != other.reference
    ]
    _refuse(changed, "different references")
    rows = [row._replace(counts=row.counts + other.counts) for row, other in pairs]
    return replace(a, rows=rows)


def _only_in(rows: ScoredRows, others: ScoredRows, name: str, other: str) -> list[str]:
    ids = {row.id for row in others.rows}
    missing = [row for row in rows.rows if row.id not in ids]
    return [f"{name}:{row.line}: id {row.id!r} is not in {other}" for row in missing]


def _refuse(faults: Sequence[str], what: str) -> None:
    if faults:
        message = f"the runs scored {what} ({len(faults)} of them); compare runs over one split"
        hidden = [f"and {len(faults) - _LISTED} more"] if len(faults) > _LISTED else []
        raise PredictionsError("\n  ".join([f"{message}:", *faults[:_LISTED], *hidden]))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for multiple tests, in the given order."""
    order = np.argsort(p_values)
    products = np.sort(p_values) * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(products), 1)
    return [float(p) for p in adjusted]


def _compare_groups(groups: Sequence[GroupSums], settings: Settings) -> list[ComparedGroup]:
    views = [resampled_rates(group, settings, settings.seed) for group in groups]
    wers = _paired_rates(groups, [wer for wer, _ in views])
    cers = _paired_rates(groups, [cer for _, cer in views])
    compared: list[ComparedGroup] = []
    for group, wer, cer in zip(groups, wers, cers, strict=True):
        total = group.sums.sum(axis=0).tolist()
        errors_a, errors_b = map(ErrorCounts.from_tuple, (total[:9], total[9:]))
        compared.append(
            ComparedGroup(
                label=group.label,
                group=group.group,
                rows=errors_a.rows,
                speakers=group.known_speakers,
                wer=wer,
                cer=cer,
                words_a=errors_a.words,
                words_b=errors_b.words,
            )
        )
    return compared


def _paired_rates(
    groups: Sequence[GroupSums], views: Sequence[tuple[FloatArray, ...]]
) -> list[PairedRate]:
    paired = list(map(_paired_rate, groups, views))
    adjusted = iter(holm([rate.p for rate in paired if rate.p is not None]))
    return [rate if rate.p is None else replace(rate, p_adjusted=next(adjusted)) for rate in paired]


def _paired_rate(group: GroupSums, views: tuple[FloatArray, ...]) -> PairedRate:
    total, per_speaker, samples = views
    ((a, b),) = total.tolist()
    differences = np.diff(samples)
    difference = estimate(group, np.diff(total), np.diff(per_speaker), differences)
    if difference.interval is None:
        return PairedRate(a, b, difference)
    p = p_value(differences, len(group.speakers))
    is_bound = bool((differences < 0).all() or (differences > 0).all())
    return PairedRate(a, b, difference, p, p_is_bound=is_bound)
