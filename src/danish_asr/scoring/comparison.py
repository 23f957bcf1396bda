"""Runs over the same rows, each with one or more seeds, compared with the first of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import stdev
from typing import Any

import numpy as np
import pandas as pd

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.metrics import Counts
from danish_asr.scoring.frames import as_table
from danish_asr.scoring.intervals import to_plain
from danish_asr.scoring.mapsswe import MatchedPairs, matched_pairs
from danish_asr.scoring.paired import (
    PairedRate,
    adjusted,
    difference_line,
    pair_rows,
    paired_rates,
)
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scored_rows import FloatArray, GroupSums, RowsUsed, rates, score_rows
from danish_asr.scoring.settings import DEFAULT_BY, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScore:
    """A run in one group of rows; the baseline has no differences.

    A rate is that of the counts of all seeds together: with the standard denominator the mean of
    the seeds' rates. A deviation is the standard deviation over the seeds, None for one seed.
    """

    run: str
    wer: float
    cer: float
    wer_deviation: float | None
    cer_deviation: float | None
    words: Counts
    wer_paired: PairedRate | None = None
    cer_paired: PairedRate | None = None
    mapsswe: MatchedPairs | None = None  # of two runs with one seed each


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
        """Return plain data."""
        return to_plain(self) | {"settings": self.settings.to_dict()}

    def to_pandas(self) -> pd.DataFrame:
        """Return one line per group and run, each with all settings; the first are all rows."""
        return pd.DataFrame(
            [
                {"grouping": name, "group": group.label, "run": run.run}
                | {"seeds": len(self.runs[run.run]), "files": ", ".join(self.runs[run.run])}
                | {"rows": group.rows, "speakers": group.speakers}
                | {"wer": run.wer, "wer_deviation": run.wer_deviation}
                | difference_line("wer", run.wer_paired)
                | {"cer": run.cer, "cer_deviation": run.cer_deviation}
                | difference_line("cer", run.cer_paired)
                | {"mapsswe_p": run.mapsswe.p if run.mapsswe else None}
                | {"mapsswe_p_adjusted": run.mapsswe.p_adjusted if run.mapsswe else None}
                | self.settings.to_dict()
                for name, groups in {"all": [self.overall], **self.groupings}.items()
                for group in groups
                for run in group.runs
            ]
        )

    def __repr__(self) -> str:
        return self._table(html=False)

    def _repr_html_(self) -> str:
        return self._table(html=True)

    def _table(self, *, html: bool) -> str:
        columns = {name: name for name in ("grouping", "group", "run", "rows", "speakers")}
        columns |= {"wer": "WER %", "wer_deviation": "± over seeds", "wer_difference": "diff."}
        columns |= {"wer_low": "from", "wer_high": "to", "wer_p_adjusted": "p (Holm)"}
        columns |= {"cer": "CER %"}
        first = next(iter(self.rows.values()))
        rows = [f"{first.scored:,} rows paired by id{first.of_split()}"]
        rows += [used.partial_warning(f"{name} is") for name, used in self.rows.items()]
        return as_table(self.to_pandas(), columns, self.settings, rows, html=html)


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
        raise ConfigError(
            ["expected two or more runs; the first is the baseline"], where="the call"
        )
    settings, sizes, where = settings or Settings(), rows_in_split or {}, where or {}
    known = {name: size for name, size in sizes.items() if size is not None}
    if len(set(known.values())) > 1:
        of_each = ", ".join(f"{name} of {size:,} rows" for name, size in known.items())
        raise PredictionsError(
            f"the runs are of different splits: {of_each}; evaluate all of them on one split"
        )
    files = [(name, rows) for of_run in runs.values() for name, rows in of_run.items()]
    (first, rows), *others = files
    paired = score_rows(rows, by=by, settings=settings, places=True)
    used = {first: paired.used(sizes.get(first), where.get(first))}
    for name, rows in others:
        scored = score_rows(rows, by=(), settings=settings, places=True)
        used[name] = scored.used(sizes.get(name), where.get(name))
        paired = pair_rows(paired, scored, (first, name))
    seeds = {name: len(of_run) for name, of_run in runs.items()}
    return Comparison(
        settings=settings,
        runs={name: list(of_run) for name, of_run in runs.items()},
        rows=used,
        overall=_compare(paired.groups(), seeds, settings)[0],
        groupings={
            name: _compare(paired.groups(columns), seeds, settings)
            for name, columns in paired.groupings.items()
        },
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
    groups: Sequence[GroupSums], seeds: Mapping[str, int], settings: Settings
) -> list[ComparedGroup]:
    # The counts of file k begin at 12 k - 3 (of the first at 0), its sums of segments 9 after.
    begins = iter([0, *(12 * number - 3 for number in range(1, sum(seeds.values())))])
    places = {run: [next(begins) for _ in range(count)] for run, count in seeds.items()}
    baseline, *others = seeds
    pairs = [(group, run) for group in groups for run in others]
    both = [_paired(group, places[baseline], places[run]) for group, run in pairs]
    wers, cers = map(iter, paired_rates(both, settings))
    single = [run for run in others if seeds[baseline] == seeds[run] == 1]
    segments = [
        matched_pairs(*group.sums[:, places[run][0] + 9 :][:, :3].sum(axis=0).tolist())
        for group, run in pairs
        if run in single
    ]
    tests = iter(adjusted(segments))
    found: list[ComparedGroup] = []
    for group in groups:
        scores = [_score(group, run, places[run], settings) for run in seeds]
        scores[1:] = [
            replace(
                score,
                wer_paired=next(wers),
                cer_paired=next(cers),
                mapsswe=next(tests) if score.run in single else None,
            )
            for score in scores[1:]
        ]
        found.append(
            ComparedGroup(
                label=group.label,
                group=group.group,
                rows=len(group.rows),
                speakers=group.known_speakers,
                runs=scores,
            )
        )
    return found


def _paired(group: GroupSums, *runs: Sequence[int]) -> GroupSums:
    """Return the counts of runs, each the mean over its seeds."""

    def means(counts: FloatArray) -> FloatArray:
        seeds = ([counts[:, begin : begin + 9] for begin in begins] for begins in runs)
        return np.hstack([np.mean(each, axis=0) for each in seeds])

    rows = means(np.array(group.rows)).tolist()
    return replace(group, sums=means(group.sums.astype(float)), rows=rows)


def _score(group: GroupSums, run: str, begins: Sequence[int], settings: Settings) -> RunScore:
    total = group.sums.sum(axis=0)
    each = np.array([total[begin : begin + 9] for begin in begins])
    wer, cer = rates(each.sum(axis=0), settings.denominator).tolist()
    words = Counts(*each.sum(axis=0)[1:5].tolist())
    wer_deviation, cer_deviation = (
        stdev(seeds) if len(seeds) > 1 and words.reference_length else None
        for seeds in rates(each, settings.denominator).tolist()
    )
    return RunScore(
        run=run,
        wer=wer,
        cer=cer,
        wer_deviation=wer_deviation,
        cer_deviation=cer_deviation,
        words=words,
    )
