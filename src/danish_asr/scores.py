"""Scores of one predictions file: overall and per group, from addable counts.

::

    scores = score_predictions(read_predictions(path), by=["dialect", "age_group,gender"])
    scores.overall.errors.wer()
    scores.to_pandas()
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from danish_asr.errors import ConfigError
from danish_asr.metrics import Counts, Denominator, ErrorCounts, count_errors
from danish_asr.predictions import Prediction
from danish_asr.row_filters import row_filter_reason
from danish_asr.text import PROFILE_VERSIONS, normalizer

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_BY: Final = ("dialect", "age_group", "gender")
"""Groupings that are reported when none is asked for."""

GroupKey = tuple[str | None, ...]
"""One value per column of a grouping; None where the row does not know it."""


@dataclass(frozen=True, slots=True)
class GroupScore:
    """The errors of all scored rows that share the values of a grouping's columns."""

    columns: tuple[str, ...]
    values: GroupKey
    errors: ErrorCounts
    speakers: int

    @property
    def label(self) -> str:
        """The values for people to read."""
        return " · ".join("unknown" if value is None else value for value in self.values) or "all"

    def to_dict(self, denominator: Denominator) -> dict[str, Any]:
        """Return plain data; rates are fractions with the given denominator."""
        return {
            "group": dict(zip(self.columns, self.values, strict=True)),
            "rows": self.errors.rows,
            "speakers": self.speakers,
            "wer": self.errors.wer(denominator),
            "cer": self.errors.cer(denominator),
            "words": _counts_dict(self.errors.words),
            "characters": _counts_dict(self.errors.characters),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """All scores of a predictions file, with everything that is needed to compare them.

    ``left_out`` counts the rows that the row filter removed, by reason. ``rows_in_split`` is None
    where nothing tells how many rows the split has.
    """

    profile: str
    row_filter: str
    denominator: Denominator
    rows_in_file: int
    rows_in_split: int | None
    left_out: Mapping[str, int]
    overall: GroupScore
    groups: Mapping[str, Sequence[GroupScore]]

    @property
    def is_partial(self) -> bool:
        """Whether the file holds fewer rows than the split."""
        return self.rows_in_split is not None and self.rows_in_file < self.rows_in_split

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as ``scores.json`` holds it."""
        return {
            "profile": {"name": self.profile, "version": PROFILE_VERSIONS[self.profile]},
            "row_filter": self.row_filter,
            "denominator": self.denominator,
            "rows": {
                "scored": self.overall.errors.rows,
                "in_file": self.rows_in_file,
                "in_split": self.rows_in_split,
                "left_out": dict(self.left_out),
                "partial": self.is_partial,
            },
            "overall": self.overall.to_dict(self.denominator),
            "groups": {
                grouping: [group.to_dict(self.denominator) for group in groups]
                for grouping, groups in self.groups.items()
            },
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return one line per group, the first being all rows."""
        import pandas as pd  # noqa: PLC0415 - keeps the import of this module light

        lines = [("all", self.overall)]
        lines += [(name, group) for name, groups in self.groups.items() for group in groups]
        return pd.DataFrame(
            {
                "grouping": name,
                "group": group.label,
                "rows": group.errors.rows,
                "speakers": group.speakers,
                "words": group.errors.words.reference_length,
                "wer": group.errors.wer(self.denominator),
                "cer": group.errors.cer(self.denominator),
            }
            for name, group in lines
        )


def score_predictions(
    predictions: Iterable[Prediction],
    *,
    profile: str = "coral",
    by: Sequence[str] = DEFAULT_BY,
    row_filter: str = "all",
    denominator: Denominator = "standard",
    rows_in_split: int | None = None,
) -> Scores:
    """Score rows; each element of ``by`` is a column or a product of columns ("age_group,gender").

    Raises:
        ConfigError: There is no such profile, row filter or column.
        PredictionsError: Passed on from ``predictions``.
    """
    normalise = normalizer(profile)
    reason_of = row_filter_reason(row_filter)
    groupings = {name: tuple(column.strip() for column in name.split(",")) for name in by}
    tallies = {columns: _Tally() for columns in [(), *groupings.values()]}
    left_out: Counter[str] = Counter()
    rows = 0
    for prediction in predictions:
        rows += 1
        if reason := reason_of(prediction):
            left_out[reason] += 1
            continue
        errors = count_errors(normalise(prediction.reference), normalise(prediction.hypothesis))
        for columns, tally in tallies.items():
            tally.add(_key(prediction, columns), prediction.speaker_id, errors)
    return Scores(
        profile=profile,
        row_filter=row_filter,
        denominator=denominator,
        rows_in_file=rows,
        rows_in_split=rows_in_split,
        left_out=left_out,
        overall=next(iter(tallies[()].groups(())), GroupScore((), (), ErrorCounts(), 0)),
        groups={name: tallies[columns].groups(columns) for name, columns in groupings.items()},
    )


class _Tally:
    """Adds errors up per group and remembers who spoke."""

    def __init__(self) -> None:
        self._errors: dict[GroupKey, ErrorCounts] = {}
        self._speakers: dict[GroupKey, set[str | None]] = {}

    def add(self, key: GroupKey, speaker: str | None, errors: ErrorCounts) -> None:
        self._errors[key] = self._errors.get(key, ErrorCounts()) + errors
        self._speakers.setdefault(key, set()).add(speaker)

    def groups(self, columns: tuple[str, ...]) -> list[GroupScore]:
        by_name = sorted(self._errors, key=lambda key: [(v is None, v or "") for v in key])
        return [
            GroupScore(columns, key, self._errors[key], len(self._speakers[key] - {None}))
            for key in by_name
        ]


_COLUMNS: Final = ("corpus", "split", "speaker_id", "dialect", "age_group", "gender")


def _key(prediction: Prediction, columns: tuple[str, ...]) -> GroupKey:
    return tuple(_value(prediction, column) for column in columns)


def _value(prediction: Prediction, column: str) -> str | None:
    if column in _COLUMNS:
        value: str | None = getattr(prediction, column)
        return value
    if column in prediction.extra:
        return prediction.extra[column]
    known = ", ".join([*_COLUMNS, *sorted(prediction.extra)])
    raise ConfigError([f"by: '{column}' is no column of the predictions; they have {known}"])


def _counts_dict(counts: Counts) -> dict[str, int]:
    return {
        "hits": counts.hits,
        "substitutions": counts.substitutions,
        "deletions": counts.deletions,
        "insertions": counts.insertions,
    }
