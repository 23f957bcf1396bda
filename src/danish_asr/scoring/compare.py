"""Runs over the same rows, each with one or more seeds, compared with the first of them.

In: predictions of each run. Out: per group the difference of each run from the baseline. Interval
and p-value come from the differences of the speakers (`danish_asr.scoring.intervals`); the p-value
is also adjusted over the runs and groups of a grouping (Holm, Scandinavian Journal of Statistics 6,
1979). Where both runs have several seeds, the variance over seeds is added, and the result holds
for other seeds too; the degrees of freedom are Satterthwaite's (Biometrics Bulletin 2, 1946).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isnan, sqrt
from statistics import stdev
from typing import Any, Final, NamedTuple
from unicodedata import normalize as unicode_form

import numpy as np
import pandas as pd

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.metrics import Counts
from danish_asr.scoring.intervals import RATES, Estimate, Spread, rates, spreads
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scores import RowsUsed
from danish_asr.scoring.settings import DEFAULT_BY, Settings
from danish_asr.scoring.table import (
    COUNTS,
    WORD_COUNTS,
    FloatArray,
    Group,
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        data: dict[str, Any] = {"difference": self.difference.to_dict()}
        return data | {"over_seeds": self.over_seeds, "p": self.p, "p_adjusted": self.p_adjusted}


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

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        data: dict[str, Any] = {"run": self.run}
        data |= {name: None if isnan(rate) else rate for name, rate in self.rates.items()}
        data |= {f"{name}_deviation": value for name, value in self.deviations.items()}
        data["words"] = asdict(self.words)
        for name in RATES:
            paired = self.paired.get(name)
            data[f"{name}_paired"] = paired.to_dict() if paired else None
        return data

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        data: dict[str, Any] = {"group": dict(self.group)}
        data |= {"rows": self.rows, "speakers": self.speakers}
        return data | {"runs": [run.to_dict() for run in self.runs]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs compared with the first; p-values are adjusted over runs and groups of a grouping."""

    settings: Settings
    runs: Mapping[str, Sequence[str]]  # the files of each, one per seed
    rows: Mapping[str, RowsUsed]  # of each file
    overall: ComparedGroup
    groupings: Mapping[str, Sequence[ComparedGroup]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        groupings = {
            name: [group.to_dict() for group in groups] for name, groups in self.groupings.items()
        }
        return {
            "settings": self.settings.to_dict(),
            "runs": {name: list(files) for name, files in self.runs.items()},
            "rows": {name: asdict(used) for name, used in self.rows.items()},
            "overall": self.overall.to_dict(),
            "groupings": groupings,
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return one line per group and run, each with all settings; the first are all rows."""
        lines: list[dict[str, Any]] = []
        for name, groups in {"all": [self.overall], **self.groupings}.items():
            for group in groups:
                for run in group.runs:
                    files = self.runs[run.run]
                    line: dict[str, Any] = {"grouping": name, "group": group.label, "run": run.run}
                    line |= {"seeds": len(files), "files": ", ".join(files)}
                    line |= {"rows": group.rows, "speakers": group.speakers}
                    lines.append(line | run.to_line() | self.settings.to_dict())
        return pd.DataFrame(lines)


class _Run(NamedTuple):
    """A run over the rows of the first file; tables have that file's columns and own counts."""

    name: str
    seeds: Sequence[pd.DataFrame]
    mean: pd.DataFrame  # counts are the means over the seeds

    def over(self, group: Group) -> Group:
        """Return the rows of a group, with the means over the seeds."""
        return group._replace(rows=self.mean.loc[group.rows.index])

    def rates_of_seeds(self, group: Group, settings: Settings) -> FloatArray:
        """Return WER and CER of each seed, (2, seeds)."""
        return rates(self.counts_of_seeds(group), settings.denominator)

    def counts_of_seeds(self, group: Group) -> FloatArray:
        """Return the counts of each seed over all rows of a group, (seeds, 8)."""
        return np.array([seed.loc[group.rows.index, [*COUNTS]].sum() for seed in self.seeds])


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
    first: pd.DataFrame | None = None
    first_name = ""
    aligned: list[_Run] = []
    for run, files in runs.items():
        seeds: list[pd.DataFrame] = []
        for name, predictions in files.items():
            table = score_table(predictions, settings)
            used[name] = RowsUsed.of(table, sizes.get(name), where.get(name))
            table = kept(table, settings)
            if first is None:
                first, first_name = table, name
                seeds.append(table)
            else:
                counts = _aligned(first, table, first_name, name)[[*COUNTS]].to_numpy()
                seeds.append(_with_counts(first, counts))
        mean = seeds[0]
        if len(seeds) > 1:
            counts_of_seeds = [seed[[*COUNTS]].to_numpy() for seed in seeds]
            mean = _with_counts(seeds[0], np.mean(counts_of_seeds, axis=0))
        aligned.append(_Run(run, seeds, mean))
    assert first is not None
    (overall,) = _compare(groups_of(first, ""), aligned, settings)
    return Comparison(
        settings=settings,
        runs={name: list(files) for name, files in runs.items()},
        rows=used,
        overall=overall,
        groupings={name: _compare(groups_of(first, name), aligned, settings) for name in by},
    )


def _with_counts(table: pd.DataFrame, counts: FloatArray) -> pd.DataFrame:
    others = table.drop(columns=[*COUNTS])
    return others.join(pd.DataFrame(counts, table.index, [*COUNTS]))


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


def _compare(
    groups: Sequence[Group], runs: Sequence[_Run], settings: Settings
) -> list[ComparedGroup]:
    """Compare the runs in each group; p-values are adjusted over all groups and runs."""
    baseline, *others = runs
    tests = [[_tests(group, baseline, run, settings) for run in others] for group in groups]
    adjusted = [
        iter(holm([test[number].p for of_group in tests for test in of_group]))
        for number in range(len(RATES))
    ]
    compared: list[ComparedGroup] = []
    for group, of_group in zip(groups, tests, strict=True):
        scores = [_score(group, baseline, settings, {})]
        for run, test in zip(others, of_group, strict=True):
            paired = {
                name: test[number].paired(next(adjusted[number]))
                for number, name in enumerate(RATES)
            }
            scores.append(_score(group, run, settings, paired))
        compared.append(
            ComparedGroup(
                label=group.label,
                group=group.names,
                rows=len(group.rows),
                speakers=group.rows["speaker_id"].nunique(),
                runs=scores,
            )
        )
    return compared


def _tests(group: Group, baseline: _Run, run: _Run, settings: Settings) -> list[_Test]:
    """Return the tests of WER and of CER."""
    a, b = baseline.over(group).by_speaker(), run.over(group).by_speaker()
    over_speakers = spreads(b, settings.denominator, a)
    if min(len(baseline.seeds), len(run.seeds)) == 1:
        return [_Test(spread, over_seeds=False) for spread in over_speakers]
    of_both = [each.rates_of_seeds(group, settings) for each in (baseline, run)]
    return [
        _Test(_with_seeds(spread, [seeds[number] for seeds in of_both]), over_seeds=True)
        for number, spread in enumerate(over_speakers)
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
    known = np.array([p for p in p_values if p is not None])
    order = np.argsort(known)
    products = known[order] * np.arange(len(known), 0, -1)
    adjusted = np.empty(len(known))
    adjusted[order] = np.minimum(np.maximum.accumulate(products), 1)
    values = iter(adjusted.tolist())
    return (None if p is None else next(values) for p in p_values)


def _score(
    group: Group, run: _Run, settings: Settings, paired: Mapping[str, PairedRate]
) -> RunScore:
    of_seeds = run.counts_of_seeds(group)
    total = of_seeds.sum(axis=0)
    words = Counts(*total[: len(WORD_COUNTS)].tolist())
    several = len(of_seeds) > 1 and words.reference_length > 0
    values = rates(total, settings.denominator).tolist()
    deviations = [
        stdev(seeds) if several else None
        for seeds in rates(of_seeds, settings.denominator).tolist()
    ]
    return RunScore(
        run=run.name,
        rates=dict(zip(RATES, values, strict=True)),
        deviations=dict(zip(RATES, deviations, strict=True)),
        words=words,
        paired=paired,
    )
