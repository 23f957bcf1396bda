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

from danish_asr.errors import PredictionsError
from danish_asr.scoring.counts import ErrorCounts
from danish_asr.scoring.intervals import Estimate, estimate_gap, estimate_rates, group_label
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scored_rows import GroupKey, GroupSums, RowsUsed, score_rows
from danish_asr.scoring.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_BY: Final = ("dialect", "age_group", "gender")
"""The groupings that are reported by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
        """The values for display."""
        return group_label(self.values)

    @property
    def is_named(self) -> bool:
        """Whether all its values are known."""
        return None not in self.values

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

    def to_line(self) -> dict[str, Any]:
        """Return one flat line of a table."""
        line: dict[str, Any] = {
            "group": self.label,
            "rows": self.errors.rows,
            "speakers": self.speakers,
            "words": self.errors.words.reference_length,
        }
        for measure, estimate in (("wer", self.wer), ("cer", self.cer)):
            values = estimate.to_dict()
            line[measure] = values["value"]
            for key in ("low", "high", "not_resolvable"):
                line[f"{measure}_{key}"] = values.get(key)
        return line


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference between the groups with the highest and the lowest WER.

    Groups with an unknown value or without reference words do not take part. The interval does not
    account for the selection of the two groups, so it is descriptive.
    """

    worst: str
    best: str
    difference: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"worst": self.worst, "best": self.best, "difference": self.difference.to_dict()}


@dataclass(frozen=True, slots=True)
class Grouping:
    """The scores of all groups of a grouping; ``gap`` is None if no two named groups differ."""

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
    """All scores of a predictions file, with the settings and rows that they depend on."""

    settings: Settings
    rows: RowsUsed
    overall: GroupScore
    groupings: Mapping[str, Grouping]

    def only(self, names: Iterable[str]) -> Scores:
        """Return the same scores with the named groupings only."""
        return replace(self, groupings={name: self.groupings[name] for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, the content of ``scores.json``."""
        return {
            "settings": self.settings.to_dict(),
            "rows": self.rows.to_dict(),
            "overall": self.overall.to_dict(),
            "groupings": {name: grouping.to_dict() for name, grouping in self.groupings.items()},
        }

    def lines(self) -> list[dict[str, Any]]:
        """Return one flat line per group, each with all settings; the first is all rows."""
        named = [("all", self.overall)]
        named += [(name, group) for name, part in self.groupings.items() for group in part.groups]
        about = self.settings.to_dict() | {
            "rows_scored": self.rows.scored,
            "rows_in_file": self.rows.in_file,
            "rows_in_split": self.rows.in_split,
            "left_out": "; ".join(f"{why}: {count}" for why, count in self.rows.left_out.items()),
        }
        return [{"grouping": name} | group.to_line() | about for name, group in named]

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
        ConfigError: A column is unknown.
        PredictionsError: There is no row to score; or passed on from ``predictions``.
    """
    settings = settings or Settings()
    columns_of = {name: grouping_columns(name) for name in by}
    columns = [column for columns in columns_of.values() for column in columns]
    rows = score_rows(predictions, columns=columns, settings=settings)
    used = rows.used(rows_in_split)
    if not used.scored:
        raise PredictionsError(f"no row to score{used.why_left_out()}; choose another row filter")
    return Scores(
        settings=settings,
        rows=used,
        overall=_score_group((), rows.groups(())[0], settings),
        groupings={
            name: _score_grouping(columns, rows.groups(columns), settings)
            for name, columns in columns_of.items()
        },
    )


def grouping_columns(name: str) -> tuple[str, ...]:
    """Return the columns of a grouping, e.g. of ``"age_group,gender"``."""
    return tuple(dict.fromkeys(column.strip() for column in name.split(",")))


def _score_grouping(
    columns: tuple[str, ...], groups: Sequence[GroupSums], settings: Settings
) -> Grouping:
    scores = tuple(_score_group(columns, group, settings) for group in groups)
    named = [
        (score.wer.value, index)
        for index, score in enumerate(scores)
        if score.is_named and score.errors.words.reference_length
    ]
    if not named or min(named)[0] == max(named)[0]:
        return Grouping(columns, scores, None)
    best, worst = min(named)[1], max(named)[1]
    difference = estimate_gap(groups[worst], groups[best], settings)
    return Grouping(columns, scores, Gap(scores[worst].label, scores[best].label, difference))


def _score_group(columns: tuple[str, ...], group: GroupSums, settings: Settings) -> GroupScore:
    wer, cer = estimate_rates(group, settings)
    return GroupScore(
        columns=columns,
        values=group.values,
        speakers=group.known_speakers,
        errors=group.errors,
        wer=wer,
        cer=cer,
    )
