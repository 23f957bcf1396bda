"""Runs over the same rows, each with one or more seeds, compared with the first of them.

In: predictions of each run. Out: per group the difference of each run from the baseline. Interval
and p-value come from the differences of the speakers (`danish_asr.scoring.intervals`); the p-value
is also adjusted over the runs and groups of a grouping (Holm, Scandinavian Journal of Statistics 6,
1979). Where both runs have several seeds, the variance over seeds is added, and the result holds
for other seeds too; the degrees of freedom are Satterthwaite's (Biometrics Bulletin 2, 1946).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import sqrt
from typing import Any, Final, NamedTuple
from unicodedata import normalize as unicode_form

import numpy as np
import pandas as pd

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.metrics import Counts
from danish_asr.scoring.intervals import RATES, Estimate, Spread, rates, spreads
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scores import RowsUsed, plain_lines
from danish_asr.scoring.settings import DEFAULT_BY, Settings
from danish_asr.scoring.table import (
    COUNTS,
    WORD_COUNTS,
    FloatArray,
    IntArray,
    groups_of,
    kept,
    score_table,
)

_LISTED: Final = 10  # rows in an error message


@dataclass(frozen=True, slots=True)
class PairedRate:
    """How a rate of a run differs from the baseline's, over the same rows."""

    difference: Estimate  # run minus baseline, negative if the run has fewer errors
    p: float | None  # None if the difference is not resolvable
    p_adjusted: float | None  # by Holm, over the runs and groups of a grouping
    over_seeds: bool  # interval and p hold for other seeds too, as both runs have several


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScore:
    """A run in one group of rows; the baseline has no differences.

    A rate is that of the counts of all seeds together: with the standard denominator the mean of
    the seeds' rates. A deviation is the standard deviation over the seeds, None for one seed.
    Mappings have the keys "wer" and "cer".
    """

    run: str
    rates: Mapping[str, float]
    deviations: Mapping[str, float | None]
    words: Counts
    paired: Mapping[str, PairedRate] = field(default_factory=dict)

    def to_line(self) -> dict[str, Any]:
        """Return the columns of a table; None where there is no difference or no interval."""
        line: dict[str, Any] = {}
        for name in RATES:
            paired = self.paired.get(name)
            difference = paired.difference if paired else None
            low, high = (difference.interval if difference else None) or (None, None)
            columns = {
                "": self.rates[name],
                "_deviation": self.deviations[name],
                "_difference": difference.value if difference else None,
                "_low": low,
                "_high": high,
                "_not_resolvable": difference.not_resolvable if difference else None,
                "_over_seeds": paired.over_seeds if paired else None,
                "_p": paired.p if paired else None,
                "_p_adjusted": paired.p_adjusted if paired else None,
            }
            line |= {f"{name}{column}": value for column, value in columns.items()}
        return line


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedGroup:
    """All runs over the rows that share the values of a grouping's columns."""

    label: str
    group: Mapping[str, str | None]
    rows: int
    speakers: int
    runs: Sequence[RunScore]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs compared with the first; p-values are adjusted over runs and groups of a grouping."""

    settings: Settings
    runs: Mapping[str, Sequence[str]]  # the files of each, one per seed
    rows: Mapping[str, RowsUsed]  # of each file
    overall: ComparedGroup
    groupings: Mapping[str, Sequence[ComparedGroup]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; ``groups`` are the lines of `to_pandas`, without the settings."""
        return {
            "settings": self.settings.to_dict(),
            "runs": {name: list(files) for name, files in self.runs.items()},
            "rows": {name: asdict(used) for name, used in self.rows.items()},
            "groups": plain_lines(self._lines()),
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return one line per group and run, each with all settings; the first are all rows."""
        return pd.DataFrame(self._lines()).assign(**self.settings.to_dict())

    def _lines(self) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = []
        for name, groups in {"all": [self.overall], **self.groupings}.items():
            for group in groups:
                for run in group.runs:
                    files = self.runs[run.run]
                    line: dict[str, Any] = {"grouping": name, "group": group.label, "run": run.run}
                    line |= {"seeds": len(files), "files": ", ".join(files)}
                    line |= {"rows": group.rows, "speakers": group.speakers}
                    lines.append(line | run.to_line())
        return lines


def compare_runs(
    runs: Mapping[str, Mapping[str, Iterable[Prediction]]],
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    rows_in_split: Mapping[str, int | None] | None = None,
    where: Mapping[str, str | None] | None = None,
) -> Comparison:
    """Compare runs with the first of them.

    ``runs`` maps the name of each run to its files, one per seed, by the name that messages give
    them. Groups and speakers are those of the first file. ``where`` has, by the same names, the
    condition that selected rows of the split, if the file has not all of them.

    Raises:
        PredictionsError: The files have different rows or references, or splits of other sizes.
        ConfigError: A column is unknown.
    """
    if len(runs) < 2:
        faults = ["expected two or more runs; the first is the baseline"]
        raise ConfigError(faults, where="the call")
    settings, sizes, where = settings or Settings(), rows_in_split or {}, where or {}
    known_sizes = {name: size for name, size in sizes.items() if size is not None}
    if len(set(known_sizes.values())) > 1:
        listed = ", ".join(f"{name} of {size:,} rows" for name, size in known_sizes.items())
        raise PredictionsError(f"the runs are of different splits: {listed}")
    used: dict[str, RowsUsed] = {}
    tables: dict[str, pd.DataFrame] = {}
    for files in runs.values():
        for name, predictions in files.items():
            table = score_table(predictions, settings)
            used[name] = RowsUsed.of(table, sizes.get(name), where.get(name))
            tables[name] = kept(table, settings)
    (first_name, first), *others = tables.items()
    aligned = {first_name: first}
    aligned |= {name: _aligned(first, table, first_name, name) for name, table in others}
    counts = {
        run: np.array([aligned[name][[*COUNTS]] for name in files]) for run, files in runs.items()
    }
    (overall,) = compare_counts(first, counts, "", settings)
    return Comparison(
        settings=settings,
        runs={name: list(files) for name, files in runs.items()},
        rows=used,
        overall=overall,
        groupings={name: compare_counts(first, counts, name, settings) for name in by},
    )


def _aligned(a: pd.DataFrame, b: pd.DataFrame, name_a: str, name_b: str) -> pd.DataFrame:
    """Return the rows of B in the order of those of A with the same corpus and id."""
    with_corpus = all(table["corpus"].notna().all() for table in (a, b))
    keys_a, keys_b = _keys(a, name_a, with_corpus), _keys(b, name_b, with_corpus)
    position = {key: place for place, key in enumerate(keys_b)}
    references = b["reference_normalised"].to_numpy()
    order: list[int] = []
    faults: list[str] = []
    for key, reference in zip(keys_a, a["reference_normalised"], strict=True):
        place = position.pop(key, None)
        if place is None:
            faults.append(f"id {key[-1]!r} of {name_a} is not in {name_b}")
        elif reference != references[place]:
            faults.append(f"id {key[-1]!r} has another reference in {name_a} than in {name_b}")
        else:
            order.append(place)
    faults += [f"id {key[-1]!r} of {name_b} is not in {name_a}" for key in position]
    if faults:
        title = f"the runs scored different rows ({len(faults)} of them); use one split:"
        hidden = ["..."] if len(faults) > _LISTED else []
        raise PredictionsError("\n  ".join([title, *faults[:_LISTED], *hidden]))
    return b.iloc[order]


def _keys(table: pd.DataFrame, name: str, with_corpus: bool) -> list[tuple[str, ...]]:
    ids = [unicode_form("NFC", row_id) for row_id in table["id"]]
    if with_corpus:
        return [*zip(table["corpus"], ids, strict=True)]
    if len(set(ids)) < len(ids):
        raise PredictionsError(
            f"{name}: ids are in several corpora, and a run has no corpus; add a column corpus"
        )
    return [(row_id,) for row_id in ids]


def compare_counts(
    first: pd.DataFrame,
    runs: Mapping[str, FloatArray | IntArray],
    grouping: str,
    settings: Settings,
) -> list[ComparedGroup]:
    """Compare runs in each group; p-values are adjusted over all groups and runs.

    Args:
        first: The rows, whose columns give groups and speakers.
        runs: The `COUNTS` of each run in these rows, (seeds, rows, 8); the first is the baseline.
        grouping: As in `groups_of`.
        settings: Of which the denominator counts.
    """
    groups = groups_of(first, grouping)
    baseline, *others = runs
    tests: dict[tuple[int, str], list[_Test]] = {}
    counts_of: dict[tuple[int, str], FloatArray | IntArray] = {}
    for number, group in enumerate(groups):
        places = first.index.get_indexer(group.rows.index)
        speakers = group.rows["speaker_id"]
        for run, counts in runs.items():
            own = counts_of[number, run] = counts[:, places]
            if run != baseline:
                tests[number, run] = _tests(counts_of[number, baseline], own, speakers, settings)
    adjusted = [holm([both[rate].p for both in tests.values()]) for rate in range(len(RATES))]
    paired = {
        key: {name: both[rate].paired(next(adjusted[rate])) for rate, name in enumerate(RATES)}
        for key, both in tests.items()
    }
    return [
        ComparedGroup(
            label=group.label,
            group=group.names,
            rows=len(group.rows),
            speakers=group.rows["speaker_id"].nunique(),
            runs=[
                _score(run, counts_of[number, run], paired.get((number, run), {}), settings)
                for run in [baseline, *others]
            ],
        )
        for number, group in enumerate(groups)
    ]


class _Test(NamedTuple):
    """A difference before its p-value is adjusted."""

    spread: Spread
    over_seeds: bool

    @property
    def p(self) -> float | None:
        return None if self.spread.not_resolvable else self.spread.p_value()

    def paired(self, p_adjusted: float | None) -> PairedRate:
        interval = None if self.spread.not_resolvable else self.spread.around()
        estimate = Estimate(self.spread.value, interval, self.spread.not_resolvable)
        return PairedRate(estimate, self.p, p_adjusted, self.over_seeds)


def _tests(
    a: FloatArray | IntArray,
    b: FloatArray | IntArray,
    speakers: "pd.Series[str]",
    settings: Settings,
) -> list[_Test]:
    """Return the tests of WER and of CER, of counts (seeds, rows, 8)."""
    sums = [
        pd.DataFrame(counts.mean(axis=0), columns=[*COUNTS])
        .groupby(speakers.to_numpy(), dropna=False)
        .sum()
        for counts in (a, b)
    ]
    over_speakers = spreads(sums[1], settings.denominator, sums[0])
    if min(len(a), len(b)) == 1:
        return [_Test(spread, over_seeds=False) for spread in over_speakers]
    of_seeds = [rates(counts.sum(axis=1), settings.denominator) for counts in (a, b)]
    return [
        _Test(_with_seeds(spread, [seeds[rate] for seeds in of_seeds]), over_seeds=True)
        for rate, spread in enumerate(over_speakers)
    ]


def _with_seeds(spread: Spread, seeds_of_both: Sequence[FloatArray]) -> Spread:
    """Add the variance over seeds to that over speakers."""
    if spread.not_resolvable:
        return spread
    variances, freedoms = [spread.deviation**2], [spread.freedom]
    for seeds in seeds_of_both:
        variances.append(float(seeds.var(ddof=1)) / len(seeds))
        freedoms.append(len(seeds) - 1)
    total = sum(variances)
    parts = zip(variances, freedoms, strict=True)
    freedom = total**2 / sum(variance**2 / own for variance, own in parts)
    return spread._replace(deviation=sqrt(total), freedom=freedom)


def holm(p_values: Sequence[float | None]) -> Iterator[float | None]:
    """Yield the p-values adjusted for their number, in the given order; None stays None."""
    tested = np.array([p for p in p_values if p is not None])
    order = np.argsort(tested)
    products = tested[order] * np.arange(len(tested), 0, -1)
    adjusted = np.empty(len(tested))
    adjusted[order] = np.minimum(np.maximum.accumulate(products), 1)
    values = iter(adjusted.tolist())
    return (None if p is None else next(values) for p in p_values)


def _score(
    run: str,
    counts: FloatArray | IntArray,
    paired: Mapping[str, PairedRate],
    settings: Settings,
) -> RunScore:
    of_seeds = counts.sum(axis=1)
    total = of_seeds.sum(axis=0)
    values = rates(total, settings.denominator).tolist()
    deviations: list[float | None] = [None] * len(RATES)
    if len(of_seeds) > 1:
        deviations = rates(of_seeds, settings.denominator).std(axis=1, ddof=1).tolist()
    return RunScore(
        run=run,
        rates=dict(zip(RATES, values, strict=True)),
        deviations=dict(zip(RATES, deviations, strict=True)),
        words=Counts(*total[: len(WORD_COUNTS)].tolist()),
        paired=paired,
    )
