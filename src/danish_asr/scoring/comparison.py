"""Is run B better than run A? The same rows paired, differences with intervals, and a test.

The test is the paired blockwise bootstrap with speakers as blocks: whole speakers are drawn with
replacement, each with all of its rows of both runs, and the difference of the two rates is taken in
every resample. Sources: Bisani and Ney (ICASSP 2004) for the paired bootstrap, Liu and Peng
(Interspeech 2020) for the blocks. The interval and the p-value are of one mould: p is the level at
which the interval just touches zero. Within a grouping p is also given as adjusted by Holm's method
(Scandinavian Journal of Statistics 6, 1979) for having looked at several groups.

::

    comparison = compare_predictions(read_predictions(a), read_predictions(b), by=["dialect"])
    comparison.overall.wer.difference
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from danish_asr.scoring.counts import ErrorCounts
from danish_asr.scoring.estimates import Estimate, group_label
from danish_asr.scoring.intervals import (
    NotResolvable,
    interval,
    p_value,
    resampled_sums,
    why_not_resolvable,
)
from danish_asr.scoring.pairing import pair_rows, require_one_split
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.row_filters import RowsUsed
from danish_asr.scoring.scored_rows import (
    COUNT_COLUMNS,
    FloatArray,
    GroupKey,
    GroupSums,
    rates,
    score_rows,
)
from danish_asr.scoring.scores import DEFAULT_BY, grouping_columns
from danish_asr.scoring.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

COMPARE_RESAMPLES: Final = 10_000
"""More than for an interval: p-values live in the tails."""


@dataclass(frozen=True, slots=True)
class PairedRate:
    """One rate of both runs over the same rows; ``difference`` is B minus A, negative if B wins.

    The p-values are None where the difference is not resolvable. ``p_adjusted`` is Holm's, over
    the groups of one grouping. ``p_is_bound``: no resample had another sign, so both p-values are
    the least that so many resamples can tell; they may be smaller.
    """

    a: float
    b: float
    difference: Estimate
    p: float | None = None
    p_adjusted: float | None = None
    p_is_bound: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "a": self.a,
            "b": self.b,
            "difference": self.difference.to_dict(),
            "p": self.p,
            "p_adjusted": self.p_adjusted,
            "p_is_bound": self.p_is_bound,
        }


@dataclass(frozen=True, slots=True)
class ComparedGroup:
    """Both runs over the rows that share the values of a grouping's columns."""

    columns: tuple[str, ...]
    values: GroupKey
    speakers: int
    errors_a: ErrorCounts
    errors_b: ErrorCounts
    wer: PairedRate
    cer: PairedRate

    @property
    def label(self) -> str:
        """The values for people to read."""
        return group_label(self.values)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "group": dict(zip(self.columns, self.values, strict=True)),
            "rows": self.errors_a.rows,
            "speakers": self.speakers,
            "wer": self.wer.to_dict(),
            "cer": self.cer.to_dict(),
            "words_a": asdict(self.errors_a.words),
            "words_b": asdict(self.errors_b.words),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Run B against run A, overall and per group, with everything that the numbers depend on."""

    settings: Settings
    rows_a: RowsUsed
    rows_b: RowsUsed
    overall: ComparedGroup
    groupings: Mapping[str, Sequence[ComparedGroup]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "settings": self.settings.to_dict(),
            "rows": {"a": self.rows_a.to_dict(), "b": self.rows_b.to_dict()},
            "overall": self.overall.to_dict(),
            "groupings": {
                name: [group.to_dict() for group in groups]
                for name, groups in self.groupings.items()
            },
        }

    def lines(self) -> list[dict[str, Any]]:
        """Return one flat line per group, the first being all rows; none without its settings."""
        named = [("all", self.overall)]
        named += [(name, group) for name, groups in self.groupings.items() for group in groups]
        about = self.settings.to_dict()
        for run, rows in (("a", self.rows_a), ("b", self.rows_b)):
            about |= {f"{key}_{run}": value for key, value in rows.to_line().items()}
        return [_line(name, group) | about for name, group in named]

    def to_pandas(self) -> pd.DataFrame:
        """Return `lines` as a data frame."""
        import pandas as pd  # noqa: PLC0415 - keeps the import of this module light

        return pd.DataFrame(self.lines())


def compare_predictions(
    a: Iterable[Prediction],
    b: Iterable[Prediction],
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    names: tuple[str, str] = ("A", "B"),
    rows_in_split: tuple[int | None, int | None] = (None, None),
) -> Comparison:
    """Compare two runs over the same rows; groups and speakers are those that A tells.

    ``names`` and ``rows_in_split`` are of A and of B.

    Raises:
        PredictionsError: The runs scored different rows, or rows with different references; each
            such row is named by file and line. Or they are of splits of different sizes.
        ConfigError: There is no such profile, row filter or column.
    """
    settings = settings or Settings(resamples=COMPARE_RESAMPLES)
    columns_of = {name: grouping_columns(name) for name in by}
    columns = [column for columns in columns_of.values() for column in columns]
    count = partial(
        score_rows,
        profile=settings.profile,
        row_filter=settings.row_filter,
        remove_fillers=settings.remove_fillers,
    )
    one, other = count(a, columns=columns), count(b, columns=())
    paired = pair_rows(one, other, names)
    require_one_split(rows_in_split, names)
    return Comparison(
        settings=settings,
        rows_a=one.used(rows_in_split[0]),
        rows_b=other.used(rows_in_split[1]),
        overall=_compare_groups((), paired.groups(()), settings)[0],
        groupings={
            name: _compare_groups(columns, paired.groups(columns), settings)
            for name, columns in columns_of.items()
        },
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for being several, in the order given."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(order):
        largest = max(largest, (len(p_values) - rank) * p_values[index])
        adjusted[index] = min(largest, 1.0)
    return adjusted


def _compare_groups(
    columns: tuple[str, ...], groups: Sequence[GroupSums], settings: Settings
) -> list[ComparedGroup]:
    compared = [_compare_group(columns, group, settings) for group in groups]
    wers = _adjusted([group.wer for group in compared])
    cers = _adjusted([group.cer for group in compared])
    return [
        replace(group, wer=wer, cer=cer)
        for group, wer, cer in zip(compared, wers, cers, strict=True)
    ]


def _adjusted(paired: Sequence[PairedRate]) -> list[PairedRate]:
    tested = [rate.p for rate in paired if rate.p is not None]
    adjusted = iter(holm(tested))
    return [rate if rate.p is None else replace(rate, p_adjusted=next(adjusted)) for rate in paired]


def _compare_group(columns: tuple[str, ...], group: GroupSums, settings: Settings) -> ComparedGroup:
    generator = np.random.default_rng(settings.seed)
    sums = group.sums
    resampled = np.concatenate(list(resampled_sums(sums, settings.resamples, generator)))
    total = sums.sum(axis=0)
    errors_a, errors_b = (
        ErrorCounts.from_tuple(total[half].tolist())
        for half in (slice(COUNT_COLUMNS), slice(COUNT_COLUMNS, None))
    )
    wer, cer = (
        _paired_rate(group, total_of, samples, per_speaker)
        for total_of, samples, per_speaker in zip(
            _both(total, settings), _both(resampled, settings), _both(sums, settings), strict=True
        )
    )
    return ComparedGroup(columns, group.values, group.known_speakers, errors_a, errors_b, wer, cer)


_Pair = tuple[FloatArray, FloatArray]


def _both(sums: Any, settings: Settings) -> tuple[_Pair, _Pair]:
    """Return WER of A and B, and CER of A and B, of sums of shape (..., 18)."""
    wer_a, cer_a = rates(sums[..., :COUNT_COLUMNS], settings.denominator)
    wer_b, cer_b = rates(sums[..., COUNT_COLUMNS:], settings.denominator)
    return (wer_a, wer_b), (cer_a, cer_b)


def _paired_rate(group: GroupSums, total: _Pair, samples: _Pair, per_speaker: _Pair) -> PairedRate:
    a, b = float(total[0]), float(total[1])
    reason = why_not_resolvable(group, per_speaker[1] - per_speaker[0])
    if reason:
        return PairedRate(a, b, Estimate(b - a, NotResolvable(reason)))
    speakers = len(group.sums)
    differences = samples[1] - samples[0]
    p = p_value(differences, speakers)
    is_bound = bool((differences < 0).all() or (differences > 0).all())
    return PairedRate(a, b, Estimate(b - a, interval(differences, speakers)), p, p, is_bound)


def _line(name: str, group: ComparedGroup) -> dict[str, Any]:
    line: dict[str, Any] = {
        "grouping": name,
        "group": group.label,
        "rows": group.errors_a.rows,
        "speakers": group.speakers,
    }
    for measure, rate in (("wer", group.wer), ("cer", group.cer)):
        bounds = rate.difference.interval.to_dict()
        line |= {
            f"{measure}_a": rate.a,
            f"{measure}_b": rate.b,
            f"{measure}_difference": rate.difference.value,
            f"{measure}_low": bounds.get("low"),
            f"{measure}_high": bounds.get("high"),
            f"{measure}_p": rate.p,
            f"{measure}_p_adjusted": rate.p_adjusted,
            f"{measure}_p_is_bound": rate.p_is_bound,
        }
    return line
