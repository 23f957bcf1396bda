"""Runs over the same rows, each with one or more seeds, compared with the first of them.

In: predictions of each run. Out: per group the difference of each run from the baseline. Interval
and p-value come from the differences of the speakers (`danish_asr.scoring.intervals`); the p-value
is also adjusted over the runs and groups of a grouping (Holm, Scandinavian Journal of Statistics 6,
1979). Where both runs have several seeds, the variance over seeds is added, and the result holds
for other seeds too; the degrees of freedom are Satterthwaite's (Biometrics Bulletin 2, 1946).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any
from unicodedata import normalize as unicode_form

import numpy as np
import pandas as pd

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.scoring.intervals import COUNTS, RATES, FloatArray, IntArray, Spread, rates, spreads
from danish_asr.scoring.predictions import Prediction, refuse
from danish_asr.scoring.scores import PERSON, RowsUsed, groups_of, kept, plain_lines, score_table
from danish_asr.scoring.settings import DEFAULT_BY, Settings


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
            "runs": {name: list(files) for name, files in self.runs.items()},
            "rows": {name: asdict(used) for name, used in self.rows.items()},
            "groups": plain_lines(self.table.to_dict("records")),
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return the table, each line with the files of its run and all settings."""
        files = {name: ", ".join(own) for name, own in self.runs.items()}
        return self.table.assign(files=self.table["run"].map(files), **self.settings.to_dict())


def compare_runs(
    runs: Mapping[str, Mapping[str, Iterable[Prediction]]],
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    rows_in_split: Mapping[str, int | None] | None = None,
    where: Mapping[str, str | None] | None = None,
    splits: Mapping[str, Iterable[str]] | None = None,
    share_people: Sequence[Sequence[str]] = (),
) -> Comparison:
    """Compare runs with the first of them.

    ``runs`` maps the name of each run to its files, one per seed, by the name that messages give
    them. Groups and speakers are those of the first file. ``where`` has, by the same names, the
    condition that selected rows of the split, if the file has not all of them. ``splits`` has the
    names of what was evaluated, if that is known. A person is a corpus and a speaker;
    ``share_people`` as for `danish_asr.corpus.people.persons_of`.

    Raises:
        PredictionsError: The files have different rows or references, or splits of other sizes.
        ConfigError: A column is unknown.
    """
    if len(runs) < 2:
        faults = ["expected two or more runs; the first is the baseline"]
        raise ConfigError(faults, where="the call")
    settings, where, splits = settings or Settings(), where or {}, splits or {}
    sizes = {name: size for name, size in (rows_in_split or {}).items() if size is not None}
    if len({*sizes.values()}) > 1:
        listed = ", ".join(f"{name} of {size:,} rows" for name, size in sizes.items())
        raise PredictionsError(f"the runs are of different splits: {listed}")
    used: dict[str, RowsUsed] = {}
    tables: dict[str, pd.DataFrame] = {}
    for files in runs.values():
        for name, predictions in files.items():
            table = score_table(predictions, settings, share_people)
            own = splits.get(name, ())
            used[name] = RowsUsed.of(table, sizes.get(name), where.get(name), own)
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
    refuse("rows differ between the runs; use one split, and a column corpus:", faults)
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
        with ``_low`` and ``_high`` or why there is no interval (``_not_resolvable``), ``_p``, and
        ``_p_adjusted`` over all lines. ``over_seeds``: they hold for other seeds too.
    """
    baseline = next(iter(runs))
    lines = []
    for group in groups_of(first, grouping):
        places = first.index.get_indexer(group.rows.index)
        speakers = group.rows[PERSON]
        for run, counts in runs.items():
            own = counts[:, places]
            line: dict[str, Any] = {"grouping": grouping or "all", "group": group.label, "run": run}
            line |= {"seeds": len(own), "rows": len(places), "speakers": speakers.nunique()}
            line |= _rates(own, settings)
            if run != baseline:
                line |= _differences(runs[baseline][:, places], own, speakers, settings)
            lines.append(line)
    table = pd.DataFrame(lines)
    for name in RATES:
        table[f"{name}_p_adjusted"] = holm(table[f"{name}_p"].astype(float))
    return table


def _rates(counts: FloatArray | IntArray, settings: Settings) -> dict[str, float]:
    """Return the rates of counts (seeds, rows, 8), and their deviations over the seeds."""
    of_seeds = counts.sum(axis=1)
    values = rates(of_seeds.sum(axis=0), settings.denominator)
    line: dict[str, float] = {}
    for name, value, own in zip(RATES, values, rates(of_seeds, settings.denominator), strict=True):
        deviation = float(own.std(ddof=1)) if len(own) > 1 else np.nan
        line |= {name: float(value), f"{name}_deviation": deviation}
    return line


def _differences(
    a: FloatArray | IntArray,
    b: FloatArray | IntArray,
    speakers: "pd.Series[str]",
    settings: Settings,
) -> dict[str, Any]:
    """Return how B differs from the baseline A, both (seeds, rows, 8)."""
    sums = [
        pd.DataFrame(counts.mean(axis=0), columns=[*COUNTS])
        .groupby(speakers.to_numpy(), dropna=False)
        .sum()
        for counts in (a, b)
    ]
    over_seeds = min(len(a), len(b)) > 1
    line: dict[str, Any] = {"over_seeds": over_seeds}
    of_seeds = [rates(counts.sum(axis=1), settings.denominator) for counts in (a, b)]
    over_speakers = spreads(sums[1], settings.denominator, sums[0])
    for number, (name, spread) in enumerate(zip(RATES, over_speakers, strict=True)):
        resolvable = not spread.not_resolvable
        total = spread
        if over_seeds and resolvable:
            total = with_seeds(spread, [seeds[number] for seeds in of_seeds])
        low, high = total.around() if resolvable else (np.nan, np.nan)
        line |= {f"{name}_difference": total.value, f"{name}_low": low, f"{name}_high": high}
        line[f"{name}_p"] = total.p_value() if resolvable else np.nan
        line[f"{name}_not_resolvable"] = spread.not_resolvable
    return line


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


def holm(p_values: "pd.Series[float]") -> "pd.Series[float]":
    """Return the p-values adjusted for their number; NaN stays NaN."""
    ordered = p_values.dropna().sort_values()
    products = ordered * np.arange(len(ordered), 0, -1)
    return products.cummax().clip(upper=1).reindex(p_values.index)
