"""Scores of one predictions file: overall and per group, with intervals."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from math import isnan
from typing import Any, Final

import pandas as pd

from danish_asr.base.errors import PredictionsError
from danish_asr.metrics import Counts
from danish_asr.scoring.gaps import Gap, estimate_gap
from danish_asr.scoring.intervals import Estimate, Interval, estimate_rates, words_and_errors
from danish_asr.scoring.pooled import pooled_intervals
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scored_rows import GroupSums, RowsUsed, score_rows
from danish_asr.scoring.settings import DEFAULT_BY, Settings

_CORPORA: Final = (("corpus",), ("dialect",), ("corpus", "dialect"))
"""The columns of ``Scores.by_corpus``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScore:
    """The errors of all scored rows that share the values of a grouping's columns."""

    label: str
    group: Mapping[str, str | None]
    rows: int
    speakers: int
    rates: Mapping[str, Estimate]  # by the name of the metric
    counts: Mapping[str, Counts]  # by the unit of the metric
    wer_pooled: Interval | None = None
    """Of a group without an interval of its own: with the spread of the speakers of all groups."""

    @property
    def wer(self) -> Estimate:
        """The word error rate."""
        return self.rates["wer"]

    @property
    def cer(self) -> Estimate:
        """The character error rate."""
        return self.rates["cer"]

    @property
    def words(self) -> Counts:
        """Hits and errors of words."""
        return self.counts["words"]

    @property
    def characters(self) -> Counts:
        """Hits and errors of characters."""
        return self.counts["characters"]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        data: dict[str, Any] = {"group": dict(self.group)}
        data |= {"rows": self.rows, "speakers": self.speakers}
        data |= {name: estimate.to_dict() for name, estimate in self.rates.items()}
        if self.wer_pooled:
            data["wer"]["pooled"] = self.wer_pooled._asdict()
        return data | {unit: asdict(counts) for unit, counts in self.counts.items()}

    def to_line(self) -> dict[str, Any]:
        """Return a line of a table."""
        words = self.words.reference_length
        line: dict[str, Any] = {"group": self.label, "rows": self.rows}
        line |= {"speakers": self.speakers, "words": words}
        for name, estimate in self.rates.items():
            line[name] = estimate.value
            line[f"{name}_low"], line[f"{name}_high"] = estimate.interval or (None, None)
            line[f"{name}_not_resolvable"] = estimate.not_resolvable
            if name == "wer":
                low, high = self.wer_pooled or (None, None)
                line |= {"wer_pooled_low": low, "wer_pooled_high": high}
            if estimate.utterances:
                line[f"{name}_utterances_low"] = estimate.utterances.low
                line[f"{name}_utterances_high"] = estimate.utterances.high
        return line


@dataclass(frozen=True, slots=True)
class Grouping:
    """The scores of all groups of a grouping."""

    groups: tuple[GroupScore, ...]
    gap: Gap | None  # of WER; None below two named groups that can be compared

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        gap = self.gap.to_dict() if self.gap else None
        return {"groups": [group.to_dict() for group in self.groups], "gap": gap}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """All scores of a predictions file, with the settings and rows that they depend on."""

    settings: Settings
    rows: RowsUsed
    overall: GroupScore
    groupings: Mapping[str, Grouping]
    words_and_errors: float | None  # see `danish_asr.scoring.intervals.words_and_errors`
    by_corpus: tuple[GroupScore, ...] = ()
    """Of several corpora: each corpus, each dialect, and each dialect of a corpus."""

    def warnings(self) -> list[str]:
        """Return what to know before the scores are used."""
        warnings = self.rows.warnings()
        if self.words_and_errors is not None:
            warnings.append(
                "speakers with more words have more errors (rank correlation "
                f"{self.words_and_errors:.2f}): the intervals are too narrow, in simulations they "
                "hold the rate in 81 to 91 % of splits instead of 95 %"
            )
        return warnings

    def only(self, names: Iterable[str]) -> "Scores":
        """Return the same scores with the named groupings only."""
        return replace(self, groupings={name: self.groupings[name] for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, the content of ``scores.json``."""
        return {
            "settings": self.settings.to_dict(),
            "rows": asdict(self.rows),
            "overall": self.overall.to_dict(),
            "words_and_errors": self.words_and_errors,
            "groupings": {name: part.to_dict() for name, part in self.groupings.items()},
            "by_corpus": [group.to_dict() for group in self.by_corpus],
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return one line per group, each with all settings; the first is all rows."""
        about = self.settings.to_dict() | {
            "rows_scored": self.rows.scored,
            "rows_in_file": self.rows.in_file,
            "rows_in_split": self.rows.in_split,
            "where": self.rows.where,
            **self.rows.digests._asdict(),
            "left_out": "; ".join(f"{why}: {count}" for why, count in self.rows.left_out.items()),
        }
        lines = [{"grouping": "all"} | self.overall.to_line() | about]
        for name, part in self.groupings.items():
            lines += [{"grouping": name} | group.to_line() | about for group in part.groups]
        return pd.DataFrame(lines)

    def __repr__(self) -> str:
        return self._table(html=False)

    def _repr_html_(self) -> str:
        return self._table(html=True)

    def _table(self, *, html: bool) -> str:
        columns = {name: name for name in ("grouping", "group", "rows", "speakers", "words")}
        for metric in self.settings.all_metrics:
            columns[metric.name] = f"{metric.title} %"
            if metric.name == "wer":
                columns |= {"wer_low": "from", "wer_high": "to"}
        scored = f"{self.rows.scored:,} rows scored{self.rows.of_split()}"
        rows = [scored, *self.warnings()]
        return as_table(self.to_pandas(), columns, self.settings, rows, html=html)


def score_predictions(
    predictions: Iterable[Prediction],
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    rows_in_split: int | None = None,
    where: str | None = None,
    on_row: Callable[[Prediction, str, str], None] | None = None,
) -> Scores:
    """Score rows; each element of ``by`` is a column or a product of columns ("age_group,gender").

    ``where`` is the condition that selected the rows of the split, if it is not all of them;
    ``on_row`` is as in `score_rows`.

    Raises:
        ConfigError: A column is unknown.
        PredictionsError: There is no row to score.
    """
    settings = settings or Settings()
    rows = score_rows(predictions, by=by, settings=settings, on_row=on_row)
    used = rows.used(rows_in_split, where)
    if not used.scored:
        what = "; choose another row filter" if used.in_file else ": there are no rows"
        raise PredictionsError(f"no row to score{used.why_left_out()}{what}")
    (everything,) = rows.groups()
    of_all = everything.sums(rows.counts)
    overall = _score_group(of_all, settings)
    groupings: dict[str, Grouping] = {}
    for name, columns in rows.groupings.items():
        groups = [group.sums(rows.counts) for group in rows.groups(columns)]
        named = [group for group in groups if None not in group.group.values()]
        pooled = pooled_intervals(named, settings)
        scores = tuple(_score_group(group, settings, pooled.get(group.label)) for group in groups)
        groupings[name] = Grouping(scores, estimate_gap(named, settings))
    return Scores(
        settings=settings,
        rows=used,
        overall=overall,
        groupings=groupings,
        words_and_errors=words_and_errors(of_all),
        by_corpus=tuple(
            _score_group(group.sums(rows.counts), settings)
            for columns in _CORPORA
            for group in (rows.groups(columns) if len(rows.groups(("corpus",))) > 1 else ())
        ),
    )


def _score_group(
    group: GroupSums, settings: Settings, pooled: Interval | None = None
) -> GroupScore:
    rows, *counts = group.sums.sum(axis=0).tolist()
    rates: dict[str, Estimate] = {}
    counts_of: dict[str, Counts] = {}
    estimates = estimate_rates(group, settings)
    for number, metric in enumerate(settings.all_metrics):
        rates[metric.name] = estimates[number]
        counts_of[metric.unit] = Counts(*counts[4 * number : 4 * number + 4])
    return GroupScore(
        label=group.label,
        group=group.group,
        rows=rows,
        speakers=group.known_speakers,
        rates=rates,
        counts=counts_of,
        wer_pooled=None if rates["wer"].interval else pooled,
    )


def p_value(p: float | None) -> str:
    """A p-value to four places; empty if there is none."""
    if p is None or isnan(p):
        return ""
    return f"{p:.4f}" if p >= 1e-4 else "<0.0001"


def as_table(
    table: pd.DataFrame,
    columns: Mapping[str, str],
    settings: Settings,
    rows: Sequence[str],
    *,
    html: bool,
) -> str:
    """Return columns of a table under other names; fractions but p-values in per cent.

    Above it are the settings and what is said about the ``rows``, without empty lines.
    """
    shown = table[list(columns)].rename(columns=dict(columns))
    values = [name for name, kind in shown.dtypes.items() if kind == "object"]
    for name in set(values) - {"grouping", "group", "run"}:
        shown[name] = shown[name].astype(float)  # None becomes an empty cell
    p_values: dict[Hashable, Callable[[Any], str]] = {
        name: p_value for name in columns.values() if name.startswith("p ")
    }
    form: dict[str, Any] = {"index": False, "na_rep": "", "formatters": p_values}
    form["float_format"] = lambda rate: f"{100 * rate:.2f}"
    about = ", ".join(f"{name} {value}" for name, value in settings.to_dict().items())
    lines = [about, *filter(None, rows)]
    if html:
        head = "<br>".join(map(escape, lines))
        return f"<p>{head}</p>\n{shown.to_html(border=0, **form)}"
    return "\n".join([*lines, shown.to_string(**form)])
