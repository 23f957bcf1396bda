"""The one table of scored rows, from which every number of a score comes.

In: predictions. Out: a DataFrame with a line per row, in the order of the file: all that is known
of the row, both texts normalised, its counts, and why it is left out. A group is a part of it.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.metrics import Counts, count_errors
from danish_asr.scoring.predictions import LABELS, MEASURES, Prediction
from danish_asr.scoring.settings import ROW_FILTERS, Settings

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

KINDS: Final = ("hits", "substitutions", "deletions", "insertions")
WORD_COUNTS: Final = tuple(f"word_{kind}" for kind in KINDS)
CHARACTER_COUNTS: Final = tuple(f"character_{kind}" for kind in KINDS)
COUNTS: Final = (*WORD_COUNTS, *CHARACTER_COUNTS)
"""Columns of integers that add up, in the order of `danish_asr.metrics.Counts`."""

REFERENCE_WORDS: Final = WORD_COUNTS[:3]
"""Columns whose sum is the number of words in the reference: all but the insertions."""

BANDS: Final[Mapping[str, tuple[tuple[float, ...], str]]] = {
    "duration": ((1, 2, 4, 6, 10, 20), "s"),
    "words_per_second": ((1, 1.5, 2, 2.5, 3, 4), "words/s"),
}
"""Columns that are grouped in bands, with the bounds of these and their unit."""

_TEXTS: Final = ("id", "reference", "hypothesis", "reference_normalised", "hypothesis_normalised")
_NO_GROUPS: Final = {*_TEXTS, *COUNTS, "left_out"}

_MOST_NUMBERS: Final = 100
"""Different numbers of a column that are groups without bounds, such as ages in years."""


def score_table(predictions: Iterable[Prediction], settings: Settings) -> pd.DataFrame:
    """Return a line per row; ``left_out`` is why it is not scored, or None.

    Columns: the fields of `Prediction` and the further keys of the rows (strings or None),
    ``reference_normalised``, ``hypothesis_normalised``, `COUNTS` (0 if left out), ``left_out``, and
    ``words_per_second`` of the normalised reference. Each column but texts and counts can be a
    grouping.

    Raises:
        PredictionsError: A row occurs twice.
    """
    rows = list(predictions)
    twice = pd.Series([row.key for row in rows], dtype=object).duplicated()
    if twice.any():
        row = rows[int(twice.to_numpy().argmax())]
        raise PredictionsError(f"duplicate id {row.id!r}; expected each row of a corpus once")
    normalize = settings.normalizer()
    table = _frame(rows)
    table["reference_normalised"] = [normalize(row.reference) for row in rows]
    table["hypothesis_normalised"] = [normalize(row.hypothesis) for row in rows]
    table["left_out"] = pd.Series([None] * len(table), dtype=object)
    for reason, applies in reversed([*ROW_FILTERS[settings.row_filter](table).items()]):
        table.loc[applies, "left_out"] = reason  # the first reason stays
    texts = table[["reference_normalised", "hypothesis_normalised"]].to_numpy()
    counts: IntArray = np.zeros((len(table), len(COUNTS)), np.int64)
    for number in np.flatnonzero(table["left_out"].isna()):
        counts[number] = count_errors(*texts[number]).to_tuple()[1:]
    table[[*COUNTS]] = counts
    words = table[[*REFERENCE_WORDS]].sum(axis=1)
    table["words_per_second"] = words / table["duration"].replace(0, np.nan)
    return table


def _frame(rows: Sequence[Prediction]) -> pd.DataFrame:
    """Return the rows as they are read; numbers that are missing are NaN, texts None."""
    columns: dict[str, Any] = {}
    for name in ("id", "reference", "hypothesis", *LABELS):
        columns[name] = pd.Series([getattr(row, name) for row in rows], dtype=object)
    for name in ("duration", *MEASURES):
        columns[name] = pd.Series([getattr(row, name) for row in rows], dtype=float)
    for name in dict.fromkeys(key for row in rows for key in row.extra):
        values = pd.Series([row.extra.get(name) for row in rows], dtype=object)
        columns[name] = columns[name].fillna(values) if name in MEASURES else values
    return pd.DataFrame(columns)


def kept(table: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """Return the rows that are scored.

    Raises:
        PredictionsError: There is none, or no reference has a word.
    """
    scored = table[table["left_out"].isna()]
    if scored.empty:
        reasons = why_left_out(left_out(table))
        fix = "; choose another row filter" if reasons else ": there are no rows"
        raise PredictionsError(f"no row to score{reasons}{fix}")
    if not scored[[*REFERENCE_WORDS]].to_numpy().any():
        raise PredictionsError(
            f"no word in the references of {len(scored):,} rows under profile {settings.profile}; "
            "choose another --profile (plain is for any language)"
        )
    return scored


def left_out(table: pd.DataFrame) -> dict[str, int]:
    """Return how many rows are not scored, by reason, the most frequent first."""
    return {str(why): int(count) for why, count in table["left_out"].value_counts().items()}


def why_left_out(reasons: Mapping[str, int]) -> str:
    """Return the numbers of excluded rows with their reasons in brackets, or an empty string."""
    parts = "; ".join(f"{count} left out: {why}" for why, count in reasons.items())
    return f" ({parts})" if parts else ""


class Group(NamedTuple):
    """Rows that share the values of a grouping's columns; ``names`` has those, None if missing."""

    names: Mapping[str, str | None]
    label: str
    rows: pd.DataFrame

    def by_speaker(self) -> pd.DataFrame:
        """Return the sums of `COUNTS` of each speaker; rows without one are the last line, NaN."""
        return self.rows.groupby("speaker_id", dropna=False)[[*COUNTS]].sum()

    def counts(self) -> tuple[Counts, Counts]:
        """Return the sums of words and of characters."""
        words, characters = (
            self.rows[[*names]].sum().tolist() for names in (WORD_COUNTS, CHARACTER_COUNTS)
        )
        return Counts(*words), Counts(*characters)


def groups_of(table: pd.DataFrame, grouping: str) -> list[Group]:
    """Return the groups of a grouping, such as ``age_group,gender`` or ``age:18,25,50``.

    They are in alphabetical order, numbers by size, and without a value last. An empty grouping has
    one group, all rows.

    Raises:
        ConfigError: A column is unknown, or has bands and is no column of numbers.
    """
    if not grouping:
        return [Group({}, "all", table)]
    columns = [_column(table, spec) for spec in column_specs(grouping)]
    of_columns = [name_of(spec) for spec in column_specs(grouping)]
    # A missing value has the code after the last one, so that it is the last group.
    codes = [column.codes.astype(int) % (len(column.categories) + 1) for column in columns]
    missing = "unknown"
    if any(missing in column.categories for column in columns):
        missing = "unknown (no value)"
    groups = []
    for key, rows in table.groupby(codes, sort=True):
        places = cast(tuple[int, ...], key)
        labels = [[*column.categories, None] for column in columns]
        own = [label[place] for label, place in zip(labels, places, strict=True)]
        shown = " · ".join(missing if value is None else str(value) for value in own)
        label = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in shown)
        groups.append(Group(dict(zip(of_columns, own, strict=True)), label, rows))
    return groups


_BETWEEN_COLUMNS: Final = re.compile(r",(?!\s*[-+]?\d[\d.]*\s*(?:,|$))")  # not between bounds


def column_specs(grouping: str) -> tuple[str, ...]:
    """Return what a grouping says of each column: a name, or a name with bounds."""
    return tuple(dict.fromkeys(spec.strip() for spec in _BETWEEN_COLUMNS.split(grouping)))


def name_of(spec: str) -> str:
    """Return the name of a column without its bounds."""
    return spec.partition(":")[0].rstrip()


def _column(table: pd.DataFrame, spec: str) -> "pd.Categorical":
    """Return the labels of all rows; the categories are in the order of the groups."""
    name = name_of(spec)
    if name not in table or name in _NO_GROUPS:
        available = ", ".join(map(str, table.columns.drop(_NO_GROUPS, errors="ignore")))
        raise ConfigError([f"by: unknown column '{name}'; available: {available}"])
    values = table[name]
    bounds, unit = _bounds(spec)
    if bounds:
        numbers = pd.to_numeric(values, errors="coerce")
        wrong = values[numbers.isna() & values.notna()]
        if len(wrong):
            raise ConfigError([f"by: '{spec}': only numbers have bands; found {wrong.iloc[0]!r}"])
        labels = _band_labels(bounds, unit)
        codes = [-1 if np.isnan(x) else bisect_right(bounds, x) for x in numbers]
        used = sorted({*codes} - {-1})
        return pd.Categorical.from_codes(codes, pd.Index(labels)).set_categories(
            [labels[n] for n in used]
        )
    distinct = values.dropna().unique().tolist()
    if name not in LABELS and not name.endswith("_id") and all(map(_is_number, distinct)):
        if len(distinct) > _MOST_NUMBERS:
            fix = f"name bounds, such as {name}:1,2,5"
            raise ConfigError([f"by: '{name}' has {len(distinct):,} different numbers; {fix}"])
        return pd.Categorical(
            values, sorted(distinct, key=lambda value: (float(value), str(value)))
        )
    return pd.Categorical(values, sorted(distinct))


def _bounds(spec: str) -> tuple[list[float], str]:
    name, _, text = spec.partition(":")
    default, unit = BANDS.get(name.strip(), ((), ""))
    if not text:
        return list(default), unit
    try:
        bounds = sorted({float(number) for number in text.split(",")})
    except ValueError:
        bounds = []
    if name.strip() in LABELS or not bounds or not all(map(isfinite, bounds)):
        fix = "bands are for columns of numbers and name their bounds, such as age:18,25,50"
        raise ConfigError([f"by: {fix}; found '{spec}'"])
    return bounds, unit


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
