"""Runs over the same rows, each with one or more seeds, compared with the first of them.

Interval and p-value come from the differences of the speakers (`danish_asr.scoring.intervals`); the
p-value is also adjusted over the runs and groups of a grouping (Holm, Scandinavian Journal of
Statistics 6, 1979). Beside them are an interval over the utterances and a test over their segments
(MAPSSWE), which hold for other utterances of these speakers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import stdev
from typing import Any

import numpy as np
import pandas as pd

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.metrics import WORD_COUNTS, Counts
from danish_asr.scoring.all_pairs import Rank, RunPair, compare_pairs, ranking
from danish_asr.scoring.intervals import rates
from danish_asr.scoring.paired import (
    AlignedRun,
    MatchedPairs,
    PairedRate,
    matched_pairs,
    number_or_none,
    order_by_id,
    paired_rates,
    segments_of_rows,
    set_adjusted_p,
)
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scored_rows import (
    Group,
    IntArray,
    RowsUsed,
    score_rows,
)
from danish_asr.scoring.scores import as_table
from danish_asr.scoring.settings import DEFAULT_BY, Settings


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
        data |= {name: number_or_none(rate) for name, rate in self.rates.items()}
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
            paired = self.paired.get(name)
            difference = paired.difference if paired else None
            needs = paired.needs if paired else None
            low, high = (difference.interval if difference else None) or (None, None)
            inner, outer = (difference.utterances if difference else None) or (None, None)
            columns = {
                "difference": difference.value if difference else None,
                "low": low,
                "high": high,
                "not_resolvable": difference.not_resolvable if difference else None,
                "utterances_low": inner,
                "utterances_high": outer,
                "p": paired.p if paired else None,
                "smallest_detectable": needs.smallest_detectable if needs else None,
                "speakers_needed": needs.speakers_needed if needs else None,
                "p_adjusted": paired.p_adjusted if paired else None,
            }
            line |= {f"{name}_{column}": value for column, value in columns.items()}
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
    pairs: Sequence[RunPair] = ()  # of all runs, if they were requested

    def ranking(self) -> list[Rank]:
        """Return the runs by WER; empty without ``pairs``."""
        return ranking(self.pairs, {run.run: run.wer for run in self.overall.runs if self.pairs})

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
            "pairs": [pair.to_dict() for pair in self.pairs],
            "ranking": [asdict(rank) for rank in self.ranking()],
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
        for name, used in self.rows.items():
            rows += used.warnings(name)
        return as_table(self.to_pandas(), columns, self.settings, rows, html=html)


def compare_runs(
    runs: Mapping[str, Mapping[str, Iterable[Prediction]]],
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    rows_in_split: Mapping[str, int | None] | None = None,
    where: Mapping[str, str | None] | None = None,
    all_pairs: bool = False,
) -> Comparison:
    """Compare runs with the first of them, or over all rows ``all_pairs`` of them too.

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
    baseline = next(iter(runs))
    first_name, first_predictions = next(iter(runs[baseline].items()))
    one_seed = len(runs[baseline]) == 1
    first = score_rows(first_predictions, by=by, settings=settings, for_mapsswe=one_seed)
    used = {first_name: first.used(sizes.get(first_name), where.get(first_name))}
    aligned: list[AlignedRun] = []
    for run, files in runs.items():
        seeds: list[IntArray] = []
        segments: IntArray | None = None
        one_seed_each = one_seed and len(files) == 1
        for name, predictions in files.items():
            if run == baseline and name == first_name:
                seeds.append(first.counts)
                continue
            rows = score_rows(predictions, by=(), settings=settings, for_mapsswe=one_seed_each)
            used[name] = rows.used(sizes.get(name), where.get(name))
            order = order_by_id(first, rows, first_name, name)
            seeds.append(rows.counts[order])
            if one_seed_each:
                segments = segments_of_rows(first, rows, order)
        aligned.append(AlignedRun(run, seeds, segments))
    groupings: dict[str, list[ComparedGroup]] = {}
    for grouping, columns in first.groupings.items():
        groupings[grouping] = _compare(first.groups(columns), aligned, settings)
    (everything,) = first.groups()
    (overall,) = _compare([everything], aligned, settings)
    return Comparison(
        settings=settings,
        runs={name: list(files) for name, files in runs.items()},
        rows=used,
        overall=overall,
        groupings=groupings,
        pairs=compare_pairs(everything, aligned, settings) if all_pairs else (),
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


def _compare(
    groups: Sequence[Group], runs: Sequence[AlignedRun], settings: Settings
) -> list[ComparedGroup]:
    """Compare the runs in each group; p-values are adjusted over all groups and runs."""
    baseline, *others = runs
    compared: list[ComparedGroup] = []
    for group in groups:
        scores = [_score(group, baseline, settings)]
        for run in others:
            paired = paired_rates(group, baseline, run, settings)
            test = None
            if run.segments is not None:
                test = matched_pairs(*run.segments[group.rows].sum(axis=0).tolist())
            scores.append(replace(_score(group, run, settings), paired=paired, mapsswe=test))
        sums = group.sums(baseline.seeds[0])
        compared.append(
            ComparedGroup(
                label=sums.label,
                group=sums.group,
                rows=len(sums.rows),
                speakers=sums.known_speakers,
                runs=scores,
            )
        )
    runs_compared = [run for group in compared for run in group.runs[1:]]
    for metric in settings.all_metrics:
        set_adjusted_p([run.paired[metric.name] for run in runs_compared])
    set_adjusted_p([run.mapsswe for run in runs_compared if run.mapsswe])
    return compared


def _score(group: Group, run: AlignedRun, settings: Settings) -> RunScore:
    names = [metric.name for metric in settings.all_metrics]
    of_seeds = np.array([group.sums(counts).sums.sum(axis=0) for counts in run.seeds])
    total = of_seeds.sum(axis=0)
    words = Counts(*total[WORD_COUNTS].tolist())
    several = len(of_seeds) > 1 and words.reference_length > 0
    deviations: dict[str, float | None] = {}
    for name, seeds in zip(names, rates(of_seeds, settings).tolist(), strict=True):
        deviations[name] = stdev(seeds) if several else None
    values = dict(zip(names, rates(total, settings).tolist(), strict=True))
    return RunScore(run=run.name, rates=values, deviations=deviations, words=words)
