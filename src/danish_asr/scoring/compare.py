"""Runs over the same rows, each with one or more seeds, compared with the first of them.

In: predictions of each run. Out: per group the difference of each run from the baseline. Interval
and p-value come from the differences of the speakers (`danish_asr.scoring.intervals`); the p-value
is adjusted over the runs and groups of a grouping (Holm, Scandinavian Journal of Statistics 6,
1979). An interval has the level at which Holm's procedure tests its difference, so that it excludes
zero exactly if the adjusted p-value is below 0.05. That is the level of one interval: all of them
together hold more rarely. Where both runs have several seeds, the variance
over seeds is added, and the result holds for other seeds too; the degrees of freedom are
Satterthwaite's (Biometrics Bulletin 2, 1946).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, Final
from unicodedata import normalize as unicode_form

import numpy as np
import pandas as pd

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.scoring.intervals import (
    ALPHA,
    COUNTS,
    RATES,
    FloatArray,
    IntArray,
    Interval,
    Spread,
    pooled_differences,
    rates,
    spreads,
)
from danish_asr.scoring.predictions import refuse
from danish_asr.scoring.rows import PERSON, RowsUsed
from danish_asr.scoring.scores import Group, groups_of, kept, plain_lines, score_table
from danish_asr.scoring.settings import DEFAULT_BY, Settings

TEST: Final = "paired t-test over speakers (jackknife), adjusted by Holm in each grouping"
"""What the p-values of a comparison are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs compared with the first; p-values are adjusted over runs and groups of a grouping."""

    settings: Settings
    runs: Mapping[str, Sequence[str]]  # the files of each, one per seed
    rows: Mapping[str, RowsUsed]  # of each file
    table: pd.DataFrame
    """A line per group and run, as `compare_counts` returns it; the first are all rows."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "settings": self.settings.to_dict(),
            "test": TEST,
            "runs": {name: list(files) for name, files in self.runs.items()},
            "rows": {name: asdict(used) for name, used in self.rows.items()},
            "groups": plain_lines(self.table.to_dict("records")),
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return the table, each line with the files of its run and all settings."""
        files = {name: ", ".join(own) for name, own in self.runs.items()}
        return self.table.assign(files=self.table["run"].map(files), **self.settings.to_dict())


def compare_runs(
    runs: Mapping[str, Mapping[str, pd.DataFrame]],
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    rows_in_split: Mapping[str, int | None] | None = None,
    abouts: Mapping[str, Mapping[str, Any]] | None = None,
    share_people: Sequence[Sequence[str]] = (),
) -> Comparison:
    """Compare runs with the first of them.

    ``runs`` maps the name of each run to its files, one per seed, by the name that messages give
    them. Groups and speakers are those of the first file. ``abouts`` has, by the same names, the
    ``evaluation.json`` of files. A person is a corpus and a speaker; ``share_people`` as for
    `danish_asr.corpus.people.persons_of`.

    Raises:
        PredictionsError: The files have different rows or references, or splits of other sizes.
        ConfigError: A column is unknown.
    """
    if len(runs) < 2:
        faults = ["expected two or more runs; the first is the baseline"]
        raise ConfigError(faults, where="the call")
    settings, abouts = settings or Settings(), abouts or {}
    sizes = {name: size for name, size in (rows_in_split or {}).items() if size is not None}
    if len({*sizes.values()}) > 1:
        listed = ", ".join(f"{name} of {size:,} rows" for name, size in sizes.items())
        raise PredictionsError(f"the runs are of different splits: {listed}")
    used: dict[str, RowsUsed] = {}
    tables: dict[str, pd.DataFrame] = {}
    for files in runs.values():
        for name, predictions in files.items():
            table = score_table(predictions, settings, share_people)
            used[name] = RowsUsed.of(table, sizes.get(name), abouts.get(name))
            tables[name] = kept(table, settings)
    (first_name, first), *others = tables.items()
    aligned = {first_name: first}
    aligned |= {name: _aligned(first, table, first_name, name) for name, table in others}
    counts = {
        run: np.array([aligned[name][[*COUNTS]] for name in files]) for run, files in runs.items()
    }
    compared = [compare_counts(first, counts, name, settings) for name in ("", *by)]
    return Comparison(
        settings=settings,
        runs={name: list(files) for name, files in runs.items()},
        rows=used,
        table=pd.concat(compared, ignore_index=True),
    )


def _aligned(a: pd.DataFrame, b: pd.DataFrame, name_a: str, name_b: str) -> pd.DataFrame:
    """Return the rows of B in the order of those of A with the same corpus and id."""
    with_corpus = all(table["corpus"].notna().all() for table in (a, b))
    keys_a, keys_b = ([*_keys(table, with_corpus)] for table in (a, b))
    position = {key: place for place, key in enumerate(keys_b)}
    references = b["reference_normalised"].to_numpy()
    order: list[int] = []
    twice = [key for key, times in Counter(keys_b).items() if times > 1]
    faults = [f"id {key[-1]!r} is in several corpora of {name_b}" for key in twice]
    for key, reference in zip(keys_a, a["reference_normalised"], strict=True):
        place = position.pop(key, None)
        if place is None:
            faults.append(f"id {key[-1]!r} of {name_a} is not in {name_b}")
        elif reference != references[place]:
            faults.append(f"id {key[-1]!r} has another reference in {name_a} than in {name_b}")
        else:
            order.append(place)
    faults += [f"id {key[-1]!r} of {name_b} is not in {name_a}" for key in position]
    fix = "all need one split, its references (--dataset ROOT gives them), and a column corpus"
    refuse(f"rows differ between the runs; {fix}:", faults)
    return b.iloc[order]


def _keys(table: pd.DataFrame, with_corpus: bool) -> Iterator[tuple[str, ...]]:
    ids = [unicode_form("NFC", row_id) for row_id in table["id"]]
    return zip(table["corpus"], ids, strict=True) if with_corpus else zip(ids, strict=True)


def compare_counts(
    first: pd.DataFrame,
    runs: Mapping[str, FloatArray | IntArray],
    grouping: str,
    settings: Settings,
) -> pd.DataFrame:
    """Compare runs in each group with the first run.

    Args:
        first: The rows, whose columns give groups and persons (`PERSON`).
        runs: The `COUNTS` of each run in these rows, (seeds, rows, 8); the first is the baseline.
        grouping: As in `groups_of`; empty for all rows.
        settings: Of which the denominator counts.

    Returns:
        A line per group and run; NaN is what the baseline lacks or cannot be computed. ``wer`` and
        ``cer`` are those of all seeds together, with standard deviation over the seeds
        (``_deviation``) and ``_difference`` from the baseline (negative: fewer errors), the latter
        with ``_p``, ``_p_adjusted`` over all lines, ``_low`` and ``_high``, and the ``_level`` of
        these, which is at least 0.95. ``_not_resolvable`` is why the group has no interval of its
        own, ``_pooled`` whether it has one with the spread of all groups. ``over_seeds``: all hold
        for other seeds too.
    """
    baseline = next(iter(runs))
    groups = groups_of(first, grouping)
    differences_of = {
        run: _differences(first, groups, runs[baseline], counts, settings)
        for run, counts in runs.items()
        if run != baseline
    }
    lines: list[dict[str, Any]] = []
    differences: list[Mapping[str, Difference]] = []
    for number, group in enumerate(groups):
        places = first.index.get_indexer(group.rows.index)
        speakers = group.rows[PERSON].nunique()
        for run, counts in runs.items():
            own = counts[:, places]
            line: dict[str, Any] = {"grouping": grouping or "all", "group": group.label, "run": run}
            line |= {"seeds": len(own), "rows": len(places), "speakers": speakers}
            line |= _rates(own, settings)
            if run != baseline:
                line["over_seeds"] = _over_seeds(runs[baseline], counts)
            lines.append(line)
            differences.append({} if run == baseline else differences_of[run][number])
    table = pd.DataFrame(lines)
    tested = [_tested([own.get(name) for own in differences], name) for name in RATES]
    return pd.concat([table, *tested], axis="columns")


def _rates(counts: FloatArray | IntArray, settings: Settings) -> dict[str, float]:
    """Return the rates of counts (seeds, rows, 8), and their deviations over the seeds."""
    of_seeds = counts.sum(axis=1)
    values = rates(of_seeds.sum(axis=0), settings.denominator)
    line: dict[str, float] = {}
    for name, value, own in zip(RATES, values, rates(of_seeds, settings.denominator), strict=True):
        deviation = float(own.std(ddof=1)) if len(own) > 1 else np.nan
        line |= {name: float(value), f"{name}_deviation": deviation}
    return line


@dataclass(frozen=True, slots=True)
class Difference:
    """How a rate of a group differs from the baseline's; with several spreads the widest holds."""

    value: float
    spreads: Sequence[Spread]  # none if it is not resolvable
    pooled: bool
    not_resolvable: str | None  # why there is no interval of the group's own speakers

    def p_value(self) -> float:
        """Return the two-sided p-value of no difference; NaN without a spread."""
        return max((spread.p_value() for spread in self.spreads), default=np.nan)

    def interval(self, alpha: float) -> Interval:
        """Return the interval of the level 1 - ``alpha``, which goes with the p-value."""
        intervals = [spread.around(alpha) for spread in self.spreads]
        if not intervals:
            return Interval(np.nan, np.nan)
        return Interval(min(own.low for own in intervals), max(own.high for own in intervals))


def _over_seeds(a: FloatArray | IntArray, b: FloatArray | IntArray) -> bool:
    return min(len(a), len(b)) > 1


def _differences(
    first: pd.DataFrame,
    groups: Sequence[Group],
    a: FloatArray | IntArray,
    b: FloatArray | IntArray,
    settings: Settings,
) -> list[dict[str, Difference]]:
    """Return per group how WER and CER of B differ from the baseline A, both (seeds, rows, 8)."""
    means = [pd.DataFrame(counts.mean(axis=0), first.index, [*COUNTS]) for counts in (a, b)]
    sums: list[tuple[pd.DataFrame, pd.DataFrame]] = []
    seeds: list[list[FloatArray]] = []
    for group in groups:
        rows = group.rows.index
        of_a, of_b = (
            mean.loc[rows].groupby(group.rows[PERSON].to_numpy(), dropna=False).sum()
            for mean in means
        )
        sums.append((of_a, of_b))
        places = first.index.get_indexer(rows)
        of_seeds = [counts[:, places].sum(axis=1) for counts in (a, b)]
        seeds.append([rates(own, settings.denominator) for own in of_seeds])
    named = [place for place, group in enumerate(groups) if None not in group.names.values()]
    pooled = pooled_differences([sums[place] for place in named], settings.denominator)
    pooled_of = dict(zip(named, pooled, strict=True))
    found: list[dict[str, Difference]] = []
    for place, (of_a, of_b) in enumerate(sums):
        own = spreads(of_b, settings.denominator, of_a)
        of_rates: dict[str, Difference] = {}
        for number, (name, spread) in enumerate(zip(RATES, own, strict=True)):
            used: Sequence[Spread] = (spread,)
            if spread.not_resolvable:
                used = pooled_of[place][number] if place in pooled_of else ()
            if _over_seeds(a, b):
                used = [with_seeds(one, [both[number] for both in seeds[place]]) for one in used]
            is_pooled = bool(spread.not_resolvable and used)
            of_rates[name] = Difference(spread.value, used, is_pooled, spread.not_resolvable)
        found.append(of_rates)
    return found


def _tested(differences: Sequence[Difference | None], name: str) -> pd.DataFrame:
    """Return the columns of a rate for all lines of a grouping; the baseline has no difference."""
    none = Difference(np.nan, (), pooled=False, not_resolvable=None)
    own = [difference or none for difference in differences]
    p_values = pd.Series([difference.p_value() for difference in own], dtype=float)
    alphas = holm_alphas(p_values)
    intervals = [one.interval(alpha) for one, alpha in zip(own, alphas, strict=True)]
    columns: dict[str, Any] = {
        "difference": [difference.value for difference in own],
        "low": [interval.low for interval in intervals],
        "high": [interval.high for interval in intervals],
        "level": 1 - alphas,
        "p": p_values,
        "p_adjusted": holm(p_values),
        "pooled": [difference.pooled for difference in own],
        "not_resolvable": [difference.not_resolvable for difference in own],
    }
    return pd.DataFrame(columns).add_prefix(f"{name}_")


def with_seeds(spread: Spread, seeds_of_both: Sequence[FloatArray]) -> Spread:
    """Add the variance over seeds to that over speakers, as Welch and Satterthwaite do."""
    variances, freedoms = [spread.deviation**2], [spread.freedom]
    for seeds in seeds_of_both:
        variances.append(float(seeds.var(ddof=1)) / len(seeds))
        freedoms.append(len(seeds) - 1)
    total = sum(variances)
    parts = zip(variances, freedoms, strict=True)
    freedom = total**2 / sum(variance**2 / own for variance, own in parts)
    return spread._replace(deviation=sqrt(total), freedom=freedom)


def holm_alphas(p_values: "pd.Series[float]") -> "pd.Series[float]":
    """Return the level at which Holm's procedure tests each p-value; NaN where there is none.

    The k-th smallest of m is tested at 0.05 / (m - k + 1). All from the first on that is not
    significant are tested at the level of that one. So an adjusted p-value is below 0.05 exactly if
    the p-value is below this level.
    """
    ordered = p_values.dropna().sort_values()
    steps = pd.Series(np.arange(len(ordered), 0, -1), ordered.index)
    significant = holm(p_values).reindex(ordered.index) < ALPHA
    steps = steps.where(significant, steps[~significant].max())
    return (ALPHA / steps).reindex(p_values.index)


def holm(p_values: "pd.Series[float]") -> "pd.Series[float]":
    """Return the p-values adjusted for their number; NaN stays NaN."""
    ordered = p_values.dropna().sort_values()
    products = ordered * np.arange(len(ordered), 0, -1)
    return products.cummax().clip(upper=1).reindex(p_values.index)
