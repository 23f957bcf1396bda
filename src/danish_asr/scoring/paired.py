"""Rows and rates of runs over the same rows: differences with intervals and p-values.

Interval and p-value come from the differences of the speakers (`danish_asr.scoring.intervals`); the
p-value is also adjusted for the groups of a grouping (Holm, Scandinavian Journal of Statistics 6,
1979). Beside them are an interval over the utterances and a test over their segments
(`danish_asr.scoring.mapsswe`), which hold for other utterances of these speakers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np

from danish_asr.base.errors import PredictionsError
from danish_asr.scoring.intervals import Estimate, spreads
from danish_asr.scoring.mapsswe import MatchedPairs, segment_sums
from danish_asr.scoring.scored_rows import GroupSums, ScoredRows, rates
from danish_asr.scoring.settings import Settings

_Test = TypeVar("_Test", "PairedRate", "MatchedPairs")
_LISTED: Final = 10  # rows in an error message


@dataclass(frozen=True, slots=True)
class PairedRate:
    """One rate of both runs over the same rows."""

    a: float
    b: float
    difference: Estimate  # B minus A, negative if B wins
    p: float | None = None  # None if the difference is not resolvable
    p_adjusted: float | None = None  # by Holm, over the groups of a grouping


def difference_line(measure: str, rate: PairedRate | None) -> dict[str, Any]:
    """Return the columns of a difference in a table, or the same without values."""
    difference = rate.difference if rate else None
    low, high = (difference.interval if difference else None) or (None, None)
    inner, outer = (difference.utterances if difference else None) or (None, None)
    return {
        f"{measure}_difference": difference.value if difference else None,
        f"{measure}_low": low,
        f"{measure}_high": high,
        f"{measure}_not_resolvable": difference.not_resolvable if difference else None,
        f"{measure}_utterances_low": inner,
        f"{measure}_utterances_high": outer,
        f"{measure}_p": rate.p if rate else None,
        f"{measure}_p_adjusted": rate.p_adjusted if rate else None,
    }


def pair_rows(a: ScoredRows, b: ScoredRows, names: tuple[str, str]) -> ScoredRows:
    """Return A's rows, each with A's counts, B's counts and `segment_sums`; pairs rows by id."""
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
    rows = [
        row._replace(
            counts=row.counts + other.counts + segment_sums(row.errors_at, other.errors_at)
        )
        for row, other in pairs
    ]
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


def paired_rates(groups: Sequence[GroupSums], settings: Settings) -> list[list[PairedRate]]:
    """Return WER and CER of A and B in each group, with p-values adjusted over the groups."""
    found: list[list[PairedRate]] = [[], []]
    for group in groups:
        both = rates(group.sums.sum(axis=0).reshape(2, 9), settings.denominator).tolist()
        # The same with each utterance as an observation, given these speakers.
        names = tuple(map(str, range(len(group.rows))))
        each = replace(group, speakers=names, sums=np.array(group.rows))
        views = zip(found, both, spreads(group, settings), spreads(each, settings), strict=True)
        for measure, (a, b), spread, of_rows in views:
            reason = spread.not_resolvable
            interval, p = (None, None) if reason else (spread.around(), spread.p_value())
            utterances = None if of_rows.not_resolvable else of_rows.around()
            difference = Estimate(spread.value, interval, reason, utterances)
            measure.append(PairedRate(a, b, difference, p))
    return [adjusted(measure) for measure in found]


def adjusted(tests: Sequence[_Test]) -> list[_Test]:
    """Return the tests with their p-values adjusted over all of them."""
    after_holm = iter(holm([test.p for test in tests if test.p is not None]))
    return [
        test if test.p is None else replace(test, p_adjusted=next(after_holm)) for test in tests
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for multiple tests, in the given order."""
    order = np.argsort(p_values)
    products = np.sort(p_values) * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(products), 1)
    return [float(p) for p in adjusted]
