"""Comparison of two runs over the same rows: differences with intervals and p-values.

Interval and p-value come from the differences of the speakers (`danish_asr.scoring.intervals`); the
p-value is also adjusted for the groups of a grouping (Holm, Scandinavian Journal of Statistics 6,
1979). Beside them are an interval over the utterances and a test over their segments
(`danish_asr.scoring.mapsswe`), which hold for other utterances of these speakers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from danish_asr.errors import PredictionsError
from danish_asr.metrics import Counts, ErrorCounts
from danish_asr.scoring.frames import as_html
from danish_asr.scoring.intervals import Estimate, Spread, spreads, to_plain
from danish_asr.scoring.mapsswe import MatchedPairs, matched_pairs, segment_sums
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scored_rows import GroupSums, RowsUsed, ScoredRows, rates, score_rows
from danish_asr.scoring.settings import DEFAULT_BY, Settings

if TYPE_CHECKING:
    import pandas as pd

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedGroup:
    """Both runs over the rows that share the values of a grouping's columns."""

    label: str
    group: Mapping[str, str | None]
    rows: int
    speakers: int
    wer: PairedRate
    cer: PairedRate
    mapsswe: MatchedPairs
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

    def to_pandas(self) -> "pd.DataFrame":
        """Return one line per group, each with all settings; the first is all rows."""
        import pandas as pd  # noqa: PLC0415 - keeps the import of this module light

        named = [("all", self.overall)]
        named += [(name, group) for name, groups in self.groupings.items() for group in groups]
        return pd.DataFrame(
            [
                {
                    "grouping": name,
                    "group": group.label,
                    "rows": group.rows,
                    "speakers": group.speakers,
                    "wer_a": group.wer.a,
                    "wer_b": group.wer.b,
                    **difference_line("wer", group.wer),
                    "cer_a": group.cer.a,
                    "cer_b": group.cer.b,
                    **difference_line("cer", group.cer),
                    "mapsswe_p": group.mapsswe.p,
                    "mapsswe_p_adjusted": group.mapsswe.p_adjusted,
                }
                | self.settings.to_dict()
                for name, group in named
            ]
        )

    def _repr_html_(self) -> str:
        columns = {name: name for name in ("grouping", "group", "rows", "speakers")}
        columns |= {"wer_a": "WER % A", "wer_b": "WER % B", "wer_difference": "B - A"}
        columns |= {"wer_low": "from", "wer_high": "to", "wer_p_adjusted": "p (Holm)"}
        columns |= {"cer_a": "CER % A", "cer_b": "CER % B"}
        return as_html(self.to_pandas(), columns, self.settings)


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
    settings = settings or Settings()
    one = score_rows(a, by=by, settings=settings, places=True)
    other = score_rows(b, by=(), settings=settings, places=True)
    paired = pair_rows(one, other, names)
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


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for multiple tests, in the given order."""
    order = np.argsort(p_values)
    products = np.sort(p_values) * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(products), 1)
    return [float(p) for p in adjusted]


def _compare_groups(groups: Sequence[GroupSums], settings: Settings) -> list[ComparedGroup]:
    segments = [matched_pairs(*group.sums[:, 18:].sum(axis=0).tolist()) for group in groups]
    tests = adjusted(segments)
    groups = [
        replace(group, sums=group.sums[:, :18], rows=[row[:18] for row in group.rows])
        for group in groups
    ]
    totals = [group.sums.sum(axis=0).reshape(2, 9) for group in groups]
    wers, cers = paired_rates(groups, settings)
    compared: list[ComparedGroup] = []
    for group, total, wer, cer, test in zip(groups, totals, wers, cers, tests, strict=True):
        errors_a, errors_b = map(ErrorCounts.from_tuple, total.tolist())
        compared.append(
            ComparedGroup(
                label=group.label,
                group=group.group,
                rows=errors_a.rows,
                speakers=group.known_speakers,
                wer=wer,
                cer=cer,
                mapsswe=test,
                words_a=errors_a.words,
                words_b=errors_b.words,
            )
        )
    return compared


def paired_rates(groups: Sequence[GroupSums], settings: Settings) -> list[list[PairedRate]]:
    """Return WER and CER of A and B in each group, with p-values adjusted over the groups."""
    found: list[list[PairedRate]] = [[], []]
    for group in groups:
        total = group.sums.sum(axis=0).reshape(2, 9)
        both = rates(total, settings.denominator).tolist()
        # The same with each utterance as an observation, given these speakers.
        names = tuple(map(str, range(len(group.rows))))
        each = replace(group, speakers=names, sums=np.array(group.rows))
        views = zip(found, both, spreads(group, settings), spreads(each, settings), strict=True)
        for measure, (a, b), spread, of_rows in views:
            measure.append(_paired_rate(a, b, spread, of_rows))
    return [adjusted(measure) for measure in found]


def _paired_rate(a: float, b: float, spread: Spread, of_rows: Spread) -> PairedRate:
    utterances = None if of_rows.not_resolvable else of_rows.around()
    if spread.not_resolvable:
        return PairedRate(a, b, Estimate(spread.value, None, spread.not_resolvable, utterances))
    difference = Estimate(spread.value, spread.around(), None, utterances)
    return PairedRate(a, b, difference, spread.p_value())


def adjusted(tests: Sequence[_Test]) -> list[_Test]:
    """Return the tests with their p-values adjusted over all of them."""
    after_holm = iter(holm([test.p for test in tests if test.p is not None]))
    return [
        test if test.p is None else replace(test, p_adjusted=next(after_holm)) for test in tests
    ]
