"""Groupings as users name them, and bands for columns of numbers.

``age_group,gender`` is a pair of columns, ``age:5`` has five bands of about as many rows each, and
``age:18,25,50`` has bands with these bounds. What is written of one column, such as ``age:5``, is
its spec; its name is ``age``.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import ROUND_FLOOR, Decimal
from itertools import pairwise
from math import isfinite
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from danish_asr.base.errors import ConfigError

COLUMNS: Final = ("corpus", "split", "speaker_id", "dialect", "age_group", "gender")
"""What rows can be grouped by, besides `MEASURES` and the extra keys of a file."""

MEASURES: Final[Mapping[str, tuple[tuple[float, ...], str]]] = {
    "duration": ((1, 2, 4, 6, 10, 20), "s"),
    "words_per_second": ((1, 1.5, 2, 2.5, 3, 4), "words/s"),
}
"""Columns of numbers that are computed, with the bounds of their bands and their unit."""

_MOST_VALUES: Final = 10
"""A column with more numbers than these is grouped in bands."""

_BANDS: Final = 4
_MOST_BANDS: Final = 100

_ROUNDING: Final = 0.05
"""A bound between bands of equal size may move by this share of a band to a rounder number."""

_BETWEEN_COLUMNS: Final = re.compile(r",(?!\s*[-+]?\d[\d.]*\s*(?:,|$))")  # not between bounds


def column_specs(grouping: str) -> tuple[str, ...]:
    """Return the specs of a grouping's columns."""
    return tuple(dict.fromkeys(spec.strip() for spec in _BETWEEN_COLUMNS.split(grouping)))


def name_of(spec: str) -> str:
    """Return the name of a column without its bands."""
    return spec.partition(":")[0].rstrip()


class Bands(NamedTuple):
    """Bands of numbers; a number on a bound belongs to the band above it."""

    bounds: Sequence[float]
    labels: Sequence[str]

    @classmethod
    def between(cls, bounds: Sequence[float], unit: str = "") -> "Bands":
        """Return the bands below, between and above ``bounds``."""
        inner = [f"{low:.12g}–{high:.12g}" for low, high in pairwise(bounds)]
        spans = [f"under {bounds[0]:.12g}", *inner, f"{bounds[-1]:.12g} and more"]
        return cls(bounds, [f"{span} {unit}".rstrip() for span in spans])

    def label(self, number: float) -> str:
        """Return the label of the band that holds a number."""
        return self.labels[bisect_right(self.bounds, number)]


class RequestedBands(NamedTuple):
    """What a spec says of bands: their bounds, their number, or neither (then values decide)."""

    fixed: Bands | None = None
    number: int | None = None

    @property
    def is_any(self) -> bool:
        """Whether there must be bands, so that each value must be a number."""
        return self.fixed is not None or self.number is not None


def requested_bands(spec: str) -> RequestedBands:
    """Return the bands that a spec names, or those of `MEASURES`.

    Raises:
        ConfigError: The part behind the colon is neither, or the column holds names.
    """
    name, text = name_of(spec), spec.partition(":")[2]
    default, unit = MEASURES.get(name, ((), ""))
    if not text:
        return RequestedBands(fixed=Bands.between(default, unit) if default else None)
    try:
        bounds = sorted({float(number) for number in text.split(",")})
    except ValueError:
        bounds = []
    if name not in COLUMNS and len(bounds) > 1 and all(map(isfinite, bounds)):
        return RequestedBands(fixed=Bands.between(bounds, unit))
    if name not in COLUMNS and len(bounds) == 1 and bounds[0] in range(2, _MOST_BANDS + 1):
        return RequestedBands(number=int(bounds[0]))
    known = f"such as age:5 (2 to {_MOST_BANDS} bands) or age:18,25,50 (their bounds)"
    raise ConfigError([f"by: bands are for columns of numbers, {known}; found '{spec}'"])


class Column(NamedTuple):
    """The labels of all rows in one column of groups."""

    labels: Sequence[str | None]  # in the order of the groups; the last one is None
    codes: npt.NDArray[np.int64]  # (rows,), the position of each row's label


def group_column(spec: str, requested: RequestedBands, values: Sequence[str | None]) -> Column:
    """Put the values of a column into groups: bands by size, or else each value by itself.

    Raises:
        ConfigError: Bands are requested, and a value is not a number.
    """
    row_counts = Counter(value for value in values if value is not None)
    group_of = _group_of_each_value(spec, requested, row_counts)
    labels = [*dict.fromkeys(group_of.values()), None]
    code_of_label = {label: code for code, label in enumerate(labels)}
    code_of_value = {value: code_of_label[label] for value, label in group_of.items()}
    unknown = len(labels) - 1
    codes = [unknown if value is None else code_of_value[value] for value in values]
    return Column(labels, np.array(codes, np.int64))


def _group_of_each_value(
    spec: str, requested: RequestedBands, row_counts: Mapping[str, int]
) -> dict[str, str]:
    """Map each value to its group, in the order of the groups; ``row_counts`` has all values."""
    alphabetical = {value: value for value in sorted(row_counts)}
    if not requested.is_any and (spec in COLUMNS or _holds_identifiers(spec)):
        return alphabetical
    number_of: dict[str, float] = {}
    for value in row_counts:
        number = _to_number(value)
        if number is not None:
            number_of[value] = number
        elif not requested.is_any:
            return alphabetical
        else:
            raise ConfigError([f"by: '{spec}': only numbers have bands; found {value!r:.40}"])
    by_size = sorted(number_of, key=lambda value: (number_of[value], value))
    bands = requested.fixed
    if bands is None:
        numbers: list[float] = []
        for value in by_size:
            numbers += [number_of[value]] * row_counts[value]
        bands = _quantiles(numbers, requested.number)
    if bands is None:
        return {value: value for value in by_size}
    return {value: bands.label(number_of[value]) for value in by_size}


def _holds_identifiers(name: str) -> bool:
    """Whether numbers in the column are names, such as "recording_id": bands say nothing."""
    return name == "id" or name.endswith("_id")


def _to_number(label: str) -> float | None:
    try:
        number = float(label)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _quantiles(numbers: Sequence[float], count: int | None) -> Bands | None:
    """Return bands with about as many of the sorted numbers each; None if few numbers differ."""
    if not numbers or (count is None and len(set(numbers)) <= _MOST_VALUES):
        return None
    parts, last = count or _BANDS, len(numbers) - 1
    reach = int(_ROUNDING * len(numbers) / parts)
    bounds: set[float] = set()
    for part in range(1, parts):
        place = len(numbers) * part // parts
        low, high = numbers[max(place - reach - 1, 0)], numbers[min(place + reach, last)]
        if low == high:  # many equal numbers: the bound is below them
            low = numbers[max(bisect_left(numbers, high) - 1, 0)]
        if low < high:
            bounds.add(_shortest(low, high))
    return Bands.between(sorted(bounds)) if bounds else None


def _shortest(low: float, high: float) -> float:
    """Return the number with the fewest digits above ``low`` and up to ``high``."""
    exact = Decimal(repr(high))
    places = range(exact.adjusted() + 1, exact.adjusted() - 18, -1)
    rounded = (float(exact.quantize(Decimal(1).scaleb(n), ROUND_FLOOR)) for n in places)
    return next(number for number in rounded if low < number <= high)
