"""The one table of scored rows, and the scores of its groups, from which every number comes.

In: predictions. Out: `score_table`, a line per row with all that is known of the row, both texts
normalised, its counts, and why it is left out; `score_predictions`, rates of the table's groups.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from math import isfinite
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pandas as pd

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.base.tables import printable
from danish_asr.corpus.people import persons_of
from danish_asr.metrics import Counts, count_errors
from danish_asr.scoring.gap import Gap, estimate_gap
from danish_asr.scoring.intervals import (
    COUNTS,
    REFERENCE_WORDS,
    Estimate,
    IntArray,
    Interval,
    estimate_rates,
    named_speakers,
    pooled_intervals,
)
from danish_asr.scoring.predictions import LABELS, TEXTS
from danish_asr.scoring.rows import HIDDEN, PERSON, RowsUsed
from danish_asr.scoring.settings import DEFAULT_BY, ROW_FILTERS, Settings

BANDS: Final[Mapping[str, tuple[tuple[float, ...], str]]] = {
    "duration": ((1, 2, 4, 6, 10, 20), "s"),
    "words_per_second": ((1, 1.5, 2, 2.5, 3, 4), "words/s"),
}
"""Columns that are grouped in bands, with the bounds of these and their unit."""

_NORMALISED: Final = ("reference_normalised", "hypothesis_normalised")
_NO_GROUPS: Final = {*TEXTS, *_NORMALISED, *COUNTS, *HIDDEN}
_MOST_NUMBERS: Final = 100  # that are groups without bounds, such as ages in years


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScore:
    """The errors of all scored rows that share the values of a grouping's columns."""

    label: str
    group: Mapping[str, str | None]
    rows: int
    speakers: int
    wer: Estimate
    cer: Estimate
    words: Counts
    characters: Counts
    wer_pooled: Interval | None = None
    """Of a group without an interval of its own: with the spread of the speakers of all groups."""

    def to_line(self) -> dict[str, Any]:
        """Return a line of a table."""
        line: dict[str, Any] = {"group": self.label, "rows": self.rows}
        line |= {"speakers": self.speakers, "words": self.words.reference_length}
        for name, estimate in (("wer", self.wer), ("cer", self.cer)):
            low, high = estimate.interval or (None, None)
            line |= {name: estimate.value, f"{name}_low": low, f"{name}_high": high}
            line[f"{name}_not_resolvable"] = estimate.not_resolvable
        low, high = self.wer_pooled or (None, None)
        line |= {"wer_pooled_low": low, "wer_pooled_high": high}
        return line | dict(zip(COUNTS, (*self.words, *self.characters), strict=True))


@dataclass(frozen=True, slots=True)
class Grouping:
    """The scores of all groups of a grouping."""

    groups: tuple[GroupScore, ...]
    gap: Gap | None  # of WER; None below two named groups that can be compared

    @property
    def has_values(self) -> bool:
        """Whether a scored row has a value of the grouping's columns."""
        return any({*group.group.values()} != {None} for group in self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """All scores of predictions, with the settings and rows that they depend on."""

    settings: Settings
    rows: RowsUsed
    overall: GroupScore
    groupings: Mapping[str, Grouping]
    table: pd.DataFrame = field(repr=False, compare=False)
    """The scored rows, as `score_table` returns them."""

    about: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What was scored: the content of ``evaluation.json``, if there is one."""

    def only(self, names: Iterable[str]) -> Scores:
        """Return the same scores with the named groupings only."""
        return replace(self, groupings={name: self.groupings[name] for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, the content of ``scores.json``; ``groups`` as in `to_pandas`."""
        gaps = {name: part.gap.to_dict() for name, part in self.groupings.items() if part.gap}
        return {
            "settings": self.settings.to_dict(),
            "rows": asdict(self.rows) | {"partial": self.rows.partial},
            "groups": plain_lines(self._lines()),
            "gaps": gaps,
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return one line per group, each with all settings; the first is all rows."""
        reasons = "; ".join(f"{why}: {count}" for why, count in self.rows.left_out.items())
        return pd.DataFrame(self._lines()).assign(
            **self.settings.to_dict(),
            rows_scored=self.rows.scored,
            rows_in_file=self.rows.in_file,
            rows_in_split=self.rows.in_split,
            splits=", ".join(self.rows.splits),
            where=self.rows.where,
            left_out=reasons,
        )

    def _lines(self) -> list[dict[str, Any]]:
        lines = [{"grouping": "all"} | self.overall.to_line()]
        for name, part in self.groupings.items():
            lines += [{"grouping": name} | group.to_line() for group in part.groups]
        return lines


def plain_lines(lines: Iterable[Mapping[Any, Any]]) -> list[dict[str, Any]]:
    """Return lines as JSON can hold them: a rate without a reference is None, not NaN."""
    return [
        {key: None if value != value else value for key, value in line.items()}  # noqa: PLR0124
        for line in lines
    ]


def score_predictions(
    predictions: pd.DataFrame,
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    rows_in_split: int | None = None,
    about: Mapping[str, Any] | None = None,
    share_people: Sequence[Sequence[str]] = (),
) -> Scores:
    """Score rows; each element of ``by`` is a column or a product of columns ("age_group,gender").

    ``about`` is the ``evaluation.json`` of the rows, of which ``where`` is their condition. A
    person is a corpus and a speaker; ``share_people`` as for `danish_asr.corpus.people.persons_of`.

    Raises:
        ConfigError: A column is unknown.
        PredictionsError: There is no row to score.
    """
    settings, about = settings or Settings(), about or {}
    table = score_table(predictions, settings, share_people)
    scored = kept(table, settings)
    (everything,) = groups_of(scored, "")
    return Scores(
        settings=settings,
        rows=RowsUsed.of(table, rows_in_split, about),
        overall=_score_group(everything, everything.by_speaker(), settings),
        groupings={name: _score_grouping(groups_of(scored, name), settings) for name in by},
        table=scored,
        about=about,
    )


def _score_grouping(groups: Sequence[Group], settings: Settings) -> Grouping:
    """Score groups; those without a value take no part in what is pooled and compared."""
    sums = [group.by_speaker() for group in groups]
    named = [place for place, group in enumerate(groups) if None not in group.names.values()]
    pooled = pooled_intervals([sums[place] for place in named], settings.denominator)
    pooled_of = dict(zip(named, pooled, strict=True))
    return Grouping(
        tuple(
            _score_group(group, own, settings, pooled_of.get(place))
            for place, (group, own) in enumerate(zip(groups, sums, strict=True))
        ),
        estimate_gap([(groups[place].label, sums[place]) for place in named], settings.denominator),
    )


def _score_group(
    group: Group, sums: pd.DataFrame, settings: Settings, pooled: Interval | None = None
) -> GroupScore:
    wer, cer = estimate_rates(sums, settings.denominator)
    words, characters = group.counts()
    return GroupScore(
        label=group.label,
        group=group.names,
        rows=len(group.rows),
        speakers=named_speakers(sums),
        wer=wer,
        cer=cer,
        words=words,
        characters=characters,
        wer_pooled=None if wer.interval else pooled,
    )


def score_table(
    predictions: pd.DataFrame,
    settings: Settings,
    share_people: Sequence[Sequence[str]] = (),
) -> pd.DataFrame:
    """Return a line per row; ``left_out`` is why it is not scored, or None.

    Columns: those of the predictions, both texts normalised, `COUNTS` (0 if left out),
    ``left_out``, `PERSON`, and ``words_per_second`` of the normalised reference. Each column but
    texts and counts can be a grouping.
    """
    table, normalize = predictions.copy(), settings.normalizer()
    persons = persons_of(table["corpus"], table["speaker_id"], share_people)
    table[PERSON] = pd.Series(persons, dtype=object)
    for name in ("reference", "hypothesis"):
        table[f"{name}_normalised"] = [normalize(text) for text in table[name]]
    table["left_out"] = None
    for reason, applies in reversed([*ROW_FILTERS[settings.row_filter](table).items()]):
        table.loc[applies, "left_out"] = reason  # the first reason stays
    texts = table[[*_NORMALISED]].to_numpy()
    counts: IntArray = np.zeros((len(table), len(COUNTS)), np.int64)
    for number in np.flatnonzero(table["left_out"].isna()):
        counts[number] = count_errors(*texts[number]).to_tuple()[1:]
    table[[*COUNTS]] = counts
    words = table[[*REFERENCE_WORDS]].sum(axis=1)
    table["words_per_second"] = words / table["duration"].replace(0, np.nan)
    return table


def kept(table: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """Return the rows that are scored.

    Raises:
        PredictionsError: There is none, or no reference has a word.
    """
    scored = table[table["left_out"].isna()]
    if scored.empty:
        fix = "; choose another row filter" if len(table) else ": there are no rows"
        raise PredictionsError(f"no row to score{RowsUsed.of(table).why_left_out()}{fix}")
    if not scored[[*REFERENCE_WORDS]].to_numpy().any():
        raise PredictionsError(
            f"no word in the references of {len(scored):,} rows under profile {settings.profile}; "
            "choose another --profile (plain is for any language)"
        )
    return scored


class Group(NamedTuple):
    """Rows that share the values of a grouping's columns; ``names`` has those, None if missing."""

    names: Mapping[str, str | None]
    label: str
    rows: pd.DataFrame

    def by_speaker(self) -> pd.DataFrame:
        """Return the sums of `COUNTS` of each person; rows without one are the last line, NaN."""
        return self.rows.groupby(PERSON, dropna=False)[[*COUNTS]].sum()

    def counts(self) -> tuple[Counts, Counts]:
        """Return the sums of words and of characters."""
        sums = self.rows[[*COUNTS]].sum().tolist()
        return Counts(*sums[:4]), Counts(*sums[4:])


def groups_of(table: pd.DataFrame, grouping: str) -> list[Group]:
    """Return the groups of a grouping, such as ``age_group,gender`` or ``age:18,25,50``.

    They are in alphabetical order, numbers by size, and without a value last. An empty grouping has
    one group, all rows.

    Raises:
        ConfigError: A column is unknown, or has bands and is no column of numbers.
    """
    if not grouping:
        return [Group({}, "all", table)]
    specs = column_specs(grouping)
    columns = [_column(table, spec) for spec in specs]
    # A missing value has the code after the last one, so that it is the last group.
    codes = [column.codes.astype(int) % (len(column.categories) + 1) for column in columns]
    missing = "unknown"
    if any(missing in column.categories for column in columns):
        missing = "unknown (no value)"
    values = [[*column.categories, None] for column in columns]
    groups = []
    for key, rows in table.groupby(codes, sort=True):
        places = cast(tuple[int, ...], key)
        own = [labels[place] for labels, place in zip(values, places, strict=True)]
        shown = " · ".join(missing if value is None else str(value) for value in own)
        names = dict(zip(map(name_of, specs), own, strict=True))
        groups.append(Group(names, printable(shown), rows))
    return groups


_BETWEEN_COLUMNS: Final = re.compile(r",(?!\s*[-+]?\d[\d.]*\s*(?:,|$))")  # not between bounds


def column_specs(grouping: str) -> tuple[str, ...]:
    """Return what a grouping says of each column: a name, or a name with bounds."""
    return tuple(dict.fromkeys(spec.strip() for spec in _BETWEEN_COLUMNS.split(grouping)))


def name_of(spec: str) -> str:
    """Return the name of a column without its bounds."""
    return spec.partition(":")[0].rstrip()


def _column(table: pd.DataFrame, spec: str) -> pd.Categorical:
    """Return the labels of all rows; the categories are in the order of the groups."""
    name = name_of(spec)
    if name not in table or name in _NO_GROUPS:
        available = ", ".join(map(str, table.columns.drop(_NO_GROUPS, errors="ignore")))
        fix = "a dataset may have it: --dataset ROOT"
        raise _fault(f"unknown column '{name}'; available: {available}; {fix}")
    values = table[name]
    bounds, unit = _bounds(spec)
    if bounds:
        numbers = pd.to_numeric(values, errors="coerce")
        wrong = values[numbers.isna() & values.notna()]
        if len(wrong):
            raise _fault(f"'{spec}': only numbers have bands; found {wrong.iloc[0]!r}")
        codes = [-1 if np.isnan(x) else bisect_right(bounds, x) for x in numbers]
        bands = pd.Categorical.from_codes(codes, pd.Index(_band_labels(bounds, unit)))
        return bands.remove_unused_categories()
    distinct = values.dropna().unique().tolist()
    if name not in LABELS and not name.endswith("_id") and all(map(_is_number, distinct)):
        if len(distinct) > _MOST_NUMBERS:
            fix = f"name bounds, such as {name}:1,2,5"
            raise _fault(f"'{name}' has {len(distinct):,} different numbers; {fix}")
        return pd.Categorical(values, sorted(distinct, key=lambda text: (float(text), str(text))))
    return pd.Categorical(values, sorted(distinct))


def _fault(fault: str) -> ConfigError:
    return ConfigError([f"by: {fault}"], where="the call")


def _bounds(spec: str) -> tuple[list[float], str]:
    name, _, text = spec.partition(":")
    default, unit = BANDS.get(name.strip(), ((), ""))
    if not text:
        return list(default), unit
    numbers = text.split(",")
    if name.strip() in LABELS or not all(map(_is_number, numbers)):
        fix = "bands are for columns of numbers and name their bounds, such as age:18,25,50"
        raise _fault(f"{fix}; found '{spec}'")
    return sorted({*map(float, numbers)}), unit


def _band_labels(bounds: Sequence[float], unit: str) -> list[str]:
    """Return the labels of the bands below, between and above the bounds; a bound begins one."""
    inner = [f"{low:.12g}–{high:.12g}" for low, high in pairwise(bounds)]
    spans = [f"under {bounds[0]:.12g}", *inner, f"{bounds[-1]:.12g} and more"]
    return [f"{span} {unit}".rstrip() for span in spans]


def _is_number(value: Any) -> bool:
    try:
        return isfinite(float(value))
    except ValueError:
        return False
