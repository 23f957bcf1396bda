"""Runs over the same rows, each with one or more seeds, compared with the first of them.

Interval and p-value come from the differences of the speakers (`danish_asr.scoring.intervals`); the
p-value is also adjusted over the runs and groups of a grouping (Holm, Scandinavian Journal of
Statistics 6, 1979). Beside them are an interval over the utterances and a test over their segments
(`danish_asr.scoring.mapsswe`), which hold for other utterances of these speakers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isnan
from statistics import stdev
from typing import Any, Final, TypeVar

import numpy as np
import pandas as pd

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.metrics import Counts
from danish_asr.scoring.intervals import Estimate, rates, spreads
from danish_asr.scoring.mapsswe import MatchedPairs, matched_pairs, segment_sums
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scored_rows import (
    Group,
    GroupSums,
    IntArray,
    RowsUsed,
    ScoredRows,
    score_rows,
)
from danish_asr.scoring.scores import as_table
from danish_asr.scoring.settings import DEFAULT_BY, Settings

_Test = TypeVar("_Test", "PairedRate", "MatchedPairs")
_LISTED: Final = 10  # rows in an error message


@dataclass(frozen=True, slots=True)
class PairedRate:
    """One rate of both runs over the same rows."""

    a: float
    b: float
    difference: Estimate  # B minus A, negative if B has the lower rate
    p: float | None = None  # None if the difference is not resolvable
    p_adjusted: float | None = None  # by Holm, over the groups of a grouping

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        data = {"a": _number(self.a), "b": _number(self.b), "difference": self.difference.to_dict()}
        return data | {"p": self.p, "p_adjusted": self.p_adjusted}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScore:
    """A run in one group of rows; the baseline has no differences.

    A rate is that of the counts of all seeds together: with the standard denominator the mean of
    the seeds' rates. A deviation is the standard deviation over the seeds, None for one seed.
    """

    run: str
    rates: Mapping[str, float]  # by the name of the metric
    deviations: Mapping[str, float | None]
    words: Counts
    paired: Mapping[str, PairedRate] = field(default_factory=dict)
    mapsswe: MatchedPairs | None = None  # of two runs with one seed each

    @property
    def wer(self) -> float:
        """The word error rate."""
        return self.rates["wer"]

    @property
    def wer_paired(self) -> PairedRate | None:
        """The word error rates of the baseline and this run."""
        return self.paired.get("wer")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        data: dict[str, Any] = {"run": self.run}
        data |= {name: _number(rate) for name, rate in self.rates.items()}
        data |= {f"{name}_deviation": value for name, value in self.deviations.items()}
        data["words"] = asdict(self.words)
        for name in self.rates:
            paired = self.paired.get(name)
            data[f"{name}_paired"] = paired.to_dict() if paired else None
        return data | {"mapsswe": asdict(self.mapsswe) if self.mapsswe else None}

    def to_line(self) -> dict[str, Any]:
        """Return the columns of a table."""
        line: dict[str, Any] = {}
        for name, rate in self.rates.items():
            line |= {name: rate, f"{name}_deviation": self.deviations[name]}
            line |= _difference_line(name, self.paired.get(name))
        line["mapsswe_p"] = self.mapsswe.p if self.mapsswe else None
        line["mapsswe_p_adjusted"] = self.mapsswe.p_adjusted if self.mapsswe else None
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
        groupings: dict[str, list[Any]] = {}
        for name, groups in self.groupings.items():
            groupings[name] = [group.to_dict() for group in groups]
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

    def __repr__(self) -> str:
        return self._table(html=False)

    def _repr_html_(self) -> str:
        return self._table(html=True)

    def _table(self, *, html: bool) -> str:
        columns = {name: name for name in ("grouping", "group", "run", "rows", "speakers")}
        columns |= {"wer": "WER %", "wer_deviation": "± over seeds", "wer_difference": "diff."}
        columns |= {"wer_low": "from", "wer_high": "to", "wer_p_adjusted": "p (Holm)"}
        for metric in self.settings.all_metrics[1:]:
            columns[metric.name] = f"{metric.title} %"
        first = next(iter(self.rows.values()))
        rows = [f"{first.scored:,} rows paired by id{first.of_split()}"]
        rows += [used.partial_warning(f"{name} is") for name, used in self.rows.items()]
        return as_table(self.to_pandas(), columns, self.settings, rows, html=html)


def _number(rate: float) -> float | None:
    return None if isnan(rate) else rate


def _difference_line(metric: str, paired: PairedRate | None) -> dict[str, Any]:
    difference = paired.difference if paired else None
    low, high = (difference.interval if difference else None) or (None, None)
    inner, outer = (difference.utterances if difference else None) or (None, None)
    return {
        f"{metric}_difference": difference.value if difference else None,
        f"{metric}_low": low,
        f"{metric}_high": high,
        f"{metric}_not_resolvable": difference.not_resolvable if difference else None,
        f"{metric}_utterances_low": inner,
        f"{metric}_utterances_high": outer,
        f"{metric}_p": paired.p if paired else None,
        f"{metric}_p_adjusted": paired.p_adjusted if paired else None,
    }


@dataclass(frozen=True, slots=True)
class _Run:
    """A run whose rows are in the order of the first file's."""

    name: str
    seeds: Sequence[IntArray]  # the counts of each file, (rows, counts)
    segments: IntArray | None  # (rows, 3), see `segment_sums`; of a single seed, not the first file


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
    _check_sizes(sizes)
    first: ScoredRows | None = None
    first_name = ""
    used: dict[str, RowsUsed] = {}
    aligned: list[_Run] = []
    for run, files in runs.items():
        seeds: list[IntArray] = []
        segments: IntArray | None = None
        for name, predictions in files.items():
            rows = score_rows(predictions, by=() if first else by, settings=settings, places=True)
            used[name] = rows.used(sizes.get(name), where.get(name))
            if first is None:
                first, first_name = rows, name
                seeds.append(rows.counts)
            else:
                order = _order_by_id(first, rows, (first_name, name))
                seeds.append(rows.counts[order])
                pairs = zip(first.errors_at, [rows.errors_at[at] for at in order], strict=True)
                segments = np.array([segment_sums(a, b) for a, b in pairs], np.int64)
        aligned.append(_Run(run, seeds, segments))
    assert first is not None
    groupings: dict[str, list[ComparedGroup]] = {}
    for grouping, columns in first.groupings.items():
        groupings[grouping] = _compare(first.groups(columns), aligned, settings)
    (overall,) = _compare(first.groups(), aligned, settings)
    return Comparison(
        settings=settings,
        runs={name: list(files) for name, files in runs.items()},
        rows=used,
        overall=overall,
        groupings=groupings,
    )


def compare_predictions(
    a: Iterable[Prediction],
    b: Iterable[Prediction],
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
) -> Comparison:
    """Compare the runs A and B; the rest is as in `compare_runs`."""
    return compare_runs({"A": {"A": a}, "B": {"B": b}}, by=by, settings=settings)


def _check_sizes(sizes: Mapping[str, int | None]) -> None:
    known = {name: size for name, size in sizes.items() if size is not None}
    if len(set(known.values())) > 1:
        of_each = ", ".join(f"{name} of {size:,} rows" for name, size in known.items())
        raise PredictionsError(
            f"the runs are of different splits: {of_each}; evaluate all of them on one split"
        )


def _order_by_id(a: ScoredRows, b: ScoredRows, names: tuple[str, str]) -> list[int]:
    """Return the rows of B in the order of those of A with the same id."""
    of_a = dict(zip(a.ids, a.lines, strict=True))
    of_b = dict(zip(b.ids, b.lines, strict=True))
    missing = [
        f"{names[0]}:{of_a[i]}: id {i!r} is not in {names[1]}" for i in a.ids if i not in of_b
    ]
    missing += [
        f"{names[1]}:{of_b[i]}: id {i!r} is not in {names[0]}" for i in b.ids if i not in of_a
    ]
    _refuse(missing, "different rows")
    if not a.ids:
        raise PredictionsError(f"{names[0]}: the row filter leaves no row to compare")
    position = {row_id: at for at, row_id in enumerate(b.ids)}
    order = [position[row_id] for row_id in a.ids]
    changed: list[str] = []
    for at, other in enumerate(order):
        if a.references[at] != b.references[other]:
            changed.append(
                f"{names[1]}:{b.lines[other]}: the reference of id {a.ids[at]!r} differs from "
                f"{names[0]}:{a.lines[at]}"
            )
    _refuse(changed, "different references")
    return order


def _refuse(faults: Sequence[str], what: str) -> None:
    if faults:
        message = f"the runs scored {what} ({len(faults)} of them); compare runs over one split"
        hidden = [f"and {len(faults) - _LISTED} more"] if len(faults) > _LISTED else []
        raise PredictionsError("\n  ".join([f"{message}:", *faults[:_LISTED], *hidden]))


def _compare(
    groups: Sequence[Group], runs: Sequence[_Run], settings: Settings
) -> list[ComparedGroup]:
    """Compare the runs in each group; p-values are adjusted over all groups and runs."""
    baseline, *others = runs
    names = [metric.name for metric in settings.all_metrics]
    scores = [[_score(group, run, settings) for run in runs] for group in groups]
    pairs = [(group, run) for group in groups for run in others]
    paired = [_paired_rates(group, baseline, run, settings) for group, run in pairs]
    tests = [_segment_test(group, baseline, run) for group, run in pairs]
    adjusted_rates = [adjusted([rates[number] for rates in paired]) for number in range(len(names))]
    adjusted_tests = iter(adjusted([test for test in tests if test is not None]))
    compared = iter(zip(*adjusted_rates, tests, strict=True))
    result: list[ComparedGroup] = []
    for group, (of_baseline, *of_others) in zip(groups, scores, strict=True):
        with_differences = [of_baseline]
        for score in of_others:
            *of_metrics, test = next(compared)
            with_differences.append(
                replace(
                    score,
                    paired=dict(zip(names, of_metrics, strict=True)),
                    mapsswe=None if test is None else next(adjusted_tests),
                )
            )
        sums = group.sums(baseline.seeds[0])
        result.append(
            ComparedGroup(
                label=sums.label,
                group=sums.group,
                rows=len(sums.rows),
                speakers=sums.known_speakers,
                runs=with_differences,
            )
        )
    return result


def _score(group: Group, run: _Run, settings: Settings) -> RunScore:
    metrics = settings.all_metrics
    of_seeds = np.array([group.sums(counts).sums.sum(axis=0) for counts in run.seeds])
    total = of_seeds.sum(axis=0)
    words = Counts(*total[1:5].tolist())
    values = rates(total, settings).tolist()
    values_of_seeds = rates(of_seeds, settings).tolist()
    several = len(of_seeds) > 1 and words.reference_length > 0
    deviations: dict[str, float | None] = {}
    for metric, seeds in zip(metrics, values_of_seeds, strict=True):
        deviations[metric.name] = stdev(seeds) if several else None
    names = [metric.name for metric in metrics]
    return RunScore(
        run=run.name,
        rates=dict(zip(names, values, strict=True)),
        deviations=deviations,
        words=words,
    )


def _mean_sums(group: Group, run: _Run) -> GroupSums:
    """Return the counts of a run, each the mean over its seeds."""
    of_seeds = [group.sums(counts) for counts in run.seeds]
    sums = np.mean([seed.sums for seed in of_seeds], axis=0)
    return replace(of_seeds[0], sums=sums, rows=np.mean([seed.rows for seed in of_seeds], axis=0))


def _paired_rates(group: Group, baseline: _Run, run: _Run, settings: Settings) -> list[PairedRate]:
    """Return each metric of the baseline, A, and of a run, B."""
    metrics = settings.all_metrics
    a, b = _mean_sums(group, baseline), _mean_sums(group, run)
    rates_a = rates(a.sums.sum(axis=0), settings).tolist()
    rates_b = rates(b.sums.sum(axis=0), settings).tolist()
    over_speakers = spreads(b, settings, a)
    over_rows = spreads(_by_utterance(b), settings, _by_utterance(a))
    result: list[PairedRate] = []
    for number in range(len(metrics)):
        spread, of_rows = over_speakers[number], over_rows[number]
        utterances = None if of_rows.not_resolvable else of_rows.around()
        if spread.not_resolvable:
            difference = Estimate(spread.value, None, spread.not_resolvable, utterances)
            result.append(PairedRate(rates_a[number], rates_b[number], difference))
        else:
            difference = Estimate(spread.value, spread.around(), None, utterances)
            paired = PairedRate(rates_a[number], rates_b[number], difference, spread.p_value())
            result.append(paired)
    return result


def _by_utterance(sums: GroupSums) -> GroupSums:
    """Return the same with each utterance as an observation."""
    return replace(sums, speakers=[str(row) for row in range(len(sums.rows))], sums=sums.rows)


def _segment_test(group: Group, baseline: _Run, run: _Run) -> MatchedPairs | None:
    if len(baseline.seeds) > 1 or len(run.seeds) > 1 or run.segments is None:
        return None
    return matched_pairs(*run.segments[group.rows].sum(axis=0).tolist())


def adjusted(tests: Sequence[_Test]) -> list[_Test]:
    """Return the tests with their p-values adjusted over all of them."""
    after_holm = iter(holm([test.p for test in tests if test.p is not None]))
    return [
        test if test.p is None else replace(test, p_adjusted=next(after_holm)) for test in tests
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for multiple tests, in the given order."""
    order = np.argsort(p_values)
    products = np.sort(p_values) * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(products), 1)
    return [float(p) for p in adjusted]
