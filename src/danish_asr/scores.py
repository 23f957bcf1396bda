"""Scores of one predictions file: overall and per group, with intervals.

::

    scores = score_predictions(read_predictions(path), by=["dialect", "age_group,gender"])
    print(scores.overall.wer.value, scores.overall.wer.interval)
    scores.to_pandas()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from danish_asr.intervals import (
    RESAMPLES,
    NotResolvable,
    Resolution,
    interval,
    resampled_sums,
    why_not_resolvable,
)
from danish_asr.metrics import Denominator, ErrorCounts
from danish_asr.predictions import Prediction
from danish_asr.scored_rows import (
    FloatArray,
    GroupKey,
    GroupSums,
    IntArray,
    rates,
    score_rows,
)
from danish_asr.text import PROFILE_VERSIONS

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_BY: Final = ("dialect", "age_group", "gender")
"""Groupings that are reported when none is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a score depends on beside the predictions; every score carries all of it.

    Attributes:
        profile: How texts are normalised, see `danish_asr.text`.
        remove_fillers: The option of profile ``rye``.
        row_filter: Which rows are scored, see `danish_asr.row_filters`.
        denominator: What errors are divided by, see `danish_asr.metrics`.
        resamples: Bootstrap resamples behind an interval.
        seed: Of the resampling.
    """

    profile: str = "coral"
    remove_fillers: bool = False
    row_filter: str = "all"
    denominator: Denominator = "standard"
    resamples: int = RESAMPLES
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with the profile's version."""
        return asdict(self) | {"profile_version": PROFILE_VERSIONS[self.profile]}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate (a fraction) and how well the data resolves it."""

    value: float
    interval: Resolution

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"value": self.value, **self.interval.to_dict()}


@dataclass(frozen=True, slots=True)
class GroupScore:
    """The errors of all scored rows that share the values of a grouping's columns."""

    columns: tuple[str, ...]
    values: GroupKey
    speakers: int
    errors: ErrorCounts
    wer: Estimate
    cer: Estimate

    @property
    def label(self) -> str:
        """The values for people to read."""
        return group_label(self.values)

    @property
    def is_named(self) -> bool:
        """Whether all its values are known."""
        return all(value is not None for value in self.values)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "group": dict(zip(self.columns, self.values, strict=True)),
            "rows": self.errors.rows,
            "speakers": self.speakers,
            "wer": self.wer.to_dict(),
            "cer": self.cer.to_dict(),
            "words": asdict(self.errors.words),
            "characters": asdict(self.errors.characters),
        }


@dataclass(frozen=True, slots=True)
class Gap:
    """How far the group with the highest WER is from the one with the lowest.

    Groups without a name or without a word of reference do not take part. The interval resamples
    the speakers of both groups apart; where a speaker is in both it is wider than need be. It
    knows nothing of the search for the worst and the best, so read it as a description.
    """

    worst: str
    best: str
    difference: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"worst": self.worst, "best": self.best, "difference": self.difference.to_dict()}


@dataclass(frozen=True, slots=True)
class Grouping:
    """The scores of all groups of one grouping; ``gap`` is None where no two named ones differ."""

    columns: tuple[str, ...]
    groups: tuple[GroupScore, ...]
    gap: Gap | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "groups": [group.to_dict() for group in self.groups],
            "gap": self.gap.to_dict() if self.gap else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """All scores of a predictions file, with everything that is needed to compare them.

    ``left_out`` counts the rows that the row filter removed, by reason. ``rows_in_split`` is None
    where nothing tells how many rows the split has.
    """

    settings: Settings
    rows_in_file: int
    rows_in_split: int | None
    left_out: Mapping[str, int]
    overall: GroupScore
    groupings: Mapping[str, Grouping]

    @property
    def is_partial(self) -> bool:
        """Whether the file holds fewer rows than the split."""
        return self.rows_in_split is not None and self.rows_in_file < self.rows_in_split

    def only(self, names: Iterable[str]) -> Scores:
        """Return the same scores with the named groupings alone."""
        return replace(self, groupings={name: self.groupings[name] for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as ``scores.json`` holds it."""
        return {
            "settings": self.settings.to_dict(),
            "rows": {
                "scored": self.overall.errors.rows,
                "in_file": self.rows_in_file,
                "in_split": self.rows_in_split,
                "left_out": dict(self.left_out),
                "partial": self.is_partial,
            },
            "overall": self.overall.to_dict(),
            "groupings": {name: grouping.to_dict() for name, grouping in self.groupings.items()},
        }

    def lines(self) -> list[dict[str, Any]]:
        """Return one flat line per group, the first being all rows."""
        named = [("all", self.overall)]
        named += [(name, group) for name, part in self.groupings.items() for group in part.groups]
        return [_line(name, group) for name, group in named]

    def to_pandas(self) -> pd.DataFrame:
        """Return `lines` as a data frame."""
        import pandas as pd  # noqa: PLC0415 - keeps the import of this module light

        return pd.DataFrame(self.lines())


def score_predictions(
    predictions: Iterable[Prediction],
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    rows_in_split: int | None = None,
) -> Scores:
    """Score rows; each element of ``by`` is a column or a product of columns ("age_group,gender").

    Raises:
        ConfigError: There is no such profile, row filter or column.
        PredictionsError: Passed on from ``predictions``.
    """
    settings = settings or Settings()
    columns_of = {name: grouping_columns(name) for name in by}
    rows = score_rows(
        predictions,
        columns=[column for columns in columns_of.values() for column in columns],
        profile=settings.profile,
        row_filter=settings.row_filter,
        remove_fillers=settings.remove_fillers,
    )
    nobody = GroupSums((), (), np.zeros((0, 9), np.int64))
    return Scores(
        settings=settings,
        rows_in_file=rows.rows_in_file,
        rows_in_split=rows_in_split,
        left_out=rows.left_out,
        overall=_score_group((), next(iter(rows.groups(())), nobody), settings),
        groupings={
            name: _score_grouping(columns, rows.groups(columns), settings)
            for name, columns in columns_of.items()
        },
    )


def grouping_columns(name: str) -> tuple[str, ...]:
    """Return the columns of a grouping's name, e.g. of ``"age_group,gender"``."""
    return tuple(dict.fromkeys(column.strip() for column in name.split(",")))


def group_label(values: GroupKey) -> str:
    """Return a group's values for people to read."""
    return " · ".join("unknown" if value is None else value for value in values) or "all"


def _score_grouping(
    columns: tuple[str, ...], groups: Sequence[GroupSums], settings: Settings
) -> Grouping:
    scores = tuple(_score_group(columns, group, settings) for group in groups)
    named = [
        (score.wer.value, index)
        for index, score in enumerate(scores)
        if score.is_named and score.errors.words.reference_length
    ]
    best, worst = (min(named)[1], max(named)[1]) if named else (0, 0)
    difference = scores[worst].wer.value - scores[best].wer.value if named else 0.0
    if not difference:
        return Grouping(columns, scores, None)
    resolution = _difference_interval(groups[worst], groups[best], settings)
    gap = Gap(scores[worst].label, scores[best].label, Estimate(difference, resolution))
    return Grouping(columns, scores, gap)


def _score_group(columns: tuple[str, ...], group: GroupSums, settings: Settings) -> GroupScore:
    errors = group.errors
    words, characters = _intervals(group, settings)
    return GroupScore(
        columns=columns,
        values=group.values,
        speakers=group.known_speakers,
        errors=errors,
        wer=Estimate(errors.wer(settings.denominator), words),
        cer=Estimate(errors.cer(settings.denominator), characters),
    )


def _intervals(group: GroupSums, settings: Settings) -> tuple[Resolution, Resolution]:
    """Return the intervals of WER and CER, both from the same resamples."""
    sums, speakers = group.sums, len(group.speakers)
    refused = [why_not_resolvable(group, rate) for rate in rates(sums, settings.denominator)]
    if all(refused):
        wer, cer = (NotResolvable(str(reason)) for reason in refused)
        return wer, cer
    wers, cers = rates(_resampled(sums, settings, stream=0), settings.denominator)
    results = [
        NotResolvable(reason) if reason else interval(samples, speakers)
        for reason, samples in zip(refused, (wers, cers), strict=True)
    ]
    return results[0], results[1]


def _difference_interval(worst: GroupSums, best: GroupSums, settings: Settings) -> Resolution:
    for group in (worst, best):
        rate, _ = rates(group.sums, settings.denominator)
        if reason := why_not_resolvable(group, rate):
            return NotResolvable(f"{group_label(group.values)}: {reason}")
    high, _ = rates(_resampled(worst.sums, settings, stream=1), settings.denominator)
    low, _ = rates(_resampled(best.sums, settings, stream=2), settings.denominator)
    return interval(high - low, min(len(worst.sums), len(best.sums)))


def _resampled(sums: IntArray, settings: Settings, *, stream: int) -> FloatArray:
    generator = np.random.default_rng([settings.seed, stream])
    return np.concatenate(list(resampled_sums(sums, settings.resamples, generator)))


def _line(name: str, group: GroupScore) -> dict[str, Any]:
    line: dict[str, Any] = {
        "grouping": name,
        "group": group.label,
        "rows": group.errors.rows,
        "speakers": group.speakers,
        "words": group.errors.words.reference_length,
    }
    for measure, estimate in (("wer", group.wer), ("cer", group.cer)):
        bounds = estimate.interval.to_dict()
        line[measure] = estimate.value
        line[f"{measure}_low"] = bounds.get("low")
        line[f"{measure}_high"] = bounds.get("high")
    line["not_resolvable"] = group.wer.interval.to_dict().get("not_resolvable")
    return line
