"""Scores of predictions: overall and per group, with intervals, each a groupby of the one table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pandas as pd

from danish_asr.metrics import Counts
from danish_asr.scoring.gap import Gap, estimate_gap
from danish_asr.scoring.intervals import (
    Estimate,
    Interval,
    estimate_rates,
    known_speakers,
    pooled_intervals,
)
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.settings import DEFAULT_BY, Settings
from danish_asr.scoring.table import (
    COUNTS,
    Group,
    groups_of,
    kept,
    left_out,
    score_table,
    why_left_out,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsUsed:
    """Which rows of a split are scored."""

    scored: int
    in_file: int
    in_split: int | None
    left_out: Mapping[str, int]  # by the row filter, per reason
    splits: Sequence[str]  # names of the splits that the rows are from
    empty_hypotheses: int  # of the scored rows, where the reference has a word
    where: str | None = None  # the condition of an evaluation of some rows of the split

    @classmethod
    def of(
        cls, table: pd.DataFrame, in_split: int | None = None, where: str | None = None
    ) -> "RowsUsed":
        """Return what a score table says of its rows."""
        scored = table[table["left_out"].isna()]
        no_words = (scored["hypothesis_normalised"] == "") & (scored["reference_normalised"] != "")
        return cls(
            scored=len(scored),
            in_file=len(table),
            in_split=in_split,
            left_out=left_out(table),
            splits=sorted(table["split"].dropna().unique()),
            empty_hypotheses=int(no_words.sum()),
            where=where,
        )

    @property
    def partial(self) -> bool:
        """Whether the file has fewer rows than the split."""
        return self.in_split is not None and self.in_file < self.in_split

    def of_split(self) -> str:
        """Return of how many rows the scored ones are, which, and why not the others."""
        total = "" if self.in_split is None else f" of {self.in_split:,} in the split"
        where = f", where {self.where}" if self.where else ""
        return total + where + why_left_out(self.left_out)

    def warnings(self, name: str = "") -> list[str]:
        """Return what is suspicious about the rows; ``name`` is that of the file."""
        prefix = f"{name}: " if name else ""
        lines = []
        if self.partial:
            where = f", where {self.where}" if self.where else ""
            lines.append(
                f"{prefix}the predictions are partial: {self.in_file:,} of {self.in_split:,} rows "
                f"of the split{where}; these scores are not the split's scores"
            )
        if self.empty_hypotheses:
            lines.append(
                f"{prefix}{self.empty_hypotheses:,} of {self.scored:,} hypotheses are empty: all "
                "their words count as deleted"
            )
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScore:
    """The errors of all scored rows that share the values of a grouping's columns."""

    label: str
    group: Mapping[str, str | None]
    rows: int
    speakers: int
    wer: Estimate
    cer: Estimate
    words: Counts
    characters: Counts
    wer_pooled: Interval | None = None
    """Of a group without an interval of its own: with the spread of the speakers of all groups."""

    def to_line(self) -> dict[str, Any]:
        """Return a line of a table."""
        line: dict[str, Any] = {"group": self.label, "rows": self.rows}
        line |= {"speakers": self.speakers, "words": self.words.reference_length}
        for name, estimate in (("wer", self.wer), ("cer", self.cer)):
            low, high = estimate.interval or (None, None)
            line |= {name: estimate.value, f"{name}_low": low, f"{name}_high": high}
            line[f"{name}_not_resolvable"] = estimate.not_resolvable
        low, high = self.wer_pooled or (None, None)
        line |= {"wer_pooled_low": low, "wer_pooled_high": high}
        counts = (*self.words.to_tuple(), *self.characters.to_tuple())
        return line | dict(zip(COUNTS, counts, strict=True))


@dataclass(frozen=True, slots=True)
class Grouping:
    """The scores of all groups of a grouping."""

    groups: tuple[GroupScore, ...]
    gap: Gap | None  # of WER; None below two named groups that can be compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """All scores of predictions, with the settings and rows that they depend on."""

    settings: Settings
    rows: RowsUsed
    overall: GroupScore
    groupings: Mapping[str, Grouping]
    table: pd.DataFrame = field(repr=False, compare=False)
    """The scored rows, as `score_table` returns them."""

    about: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What was scored: the content of ``evaluation.json``, if there is one."""

    def only(self, names: Iterable[str]) -> "Scores":
        """Return the same scores with the named groupings only."""
        return replace(self, groupings={name: self.groupings[name] for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, the content of ``scores.json``; ``groups`` as in `to_pandas`."""
        gaps = {name: part.gap.to_dict() for name, part in self.groupings.items() if part.gap}
        return {
            "settings": self.settings.to_dict(),
            "rows": asdict(self.rows) | {"partial": self.rows.partial},
            "groups": plain_lines(self._lines()),
            "gaps": gaps,
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return one line per group, each with all settings; the first is all rows."""
        reasons = "; ".join(f"{why}: {count}" for why, count in self.rows.left_out.items())
        return pd.DataFrame(self._lines()).assign(
            **self.settings.to_dict(),
            rows_scored=self.rows.scored,
            rows_in_file=self.rows.in_file,
            rows_in_split=self.rows.in_split,
            where=self.rows.where,
            left_out=reasons,
        )

    def _lines(self) -> list[dict[str, Any]]:
        lines = [{"grouping": "all"} | self.overall.to_line()]
        for name, part in self.groupings.items():
            lines += [{"grouping": name} | group.to_line() for group in part.groups]
        return lines


def plain_lines(lines: Iterable[Mapping[Any, Any]]) -> list[dict[str, Any]]:
    """Return lines as JSON can hold them: a rate without a reference is None, not NaN."""
    return [
        {key: None if value != value else value for key, value in line.items()}  # noqa: PLR0124
        for line in lines
    ]


def score_predictions(
    predictions: Iterable[Prediction],
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    rows_in_split: int | None = None,
    about: Mapping[str, Any] | None = None,
) -> Scores:
    """Score rows; each element of ``by`` is a column or a product of columns ("age_group,gender").

    ``about`` is the ``evaluation.json`` of the rows, of which ``where`` is their condition.

    Raises:
        ConfigError: A column is unknown.
        PredictionsError: There is no row to score.
    """
    settings, about = settings or Settings(), about or {}
    table = score_table(predictions, settings)
    scored = kept(table, settings)
    (everything,) = groups_of(scored, "")
    return Scores(
        settings=settings,
        rows=RowsUsed.of(table, rows_in_split, about.get("where")),
        overall=_score_group(everything, everything.by_speaker(), settings),
        groupings={name: _score_grouping(groups_of(scored, name), settings) for name in by},
        table=scored,
        about=about,
    )


def _score_grouping(groups: Sequence[Group], settings: Settings) -> Grouping:
    """Score groups; those without a value take no part in what is pooled and compared."""
    sums = [group.by_speaker() for group in groups]
    named = [place for place, group in enumerate(groups) if None not in group.names.values()]
    pooled = pooled_intervals([sums[place] for place in named], settings.denominator)
    pooled_of = dict(zip(named, pooled, strict=True))
    return Grouping(
        tuple(
            _score_group(group, own, settings, pooled_of.get(place))
            for place, (group, own) in enumerate(zip(groups, sums, strict=True))
        ),
        estimate_gap([(groups[place].label, sums[place]) for place in named], settings.denominator),
    )


def _score_group(
    group: Group, sums: pd.DataFrame, settings: Settings, pooled: Interval | None = None
) -> GroupScore:
    wer, cer = estimate_rates(sums, settings.denominator)
    words, characters = group.counts()
    return GroupScore(
        label=group.label,
        group=group.names,
        rows=len(group.rows),
        speakers=known_speakers(sums),
        wer=wer,
        cer=cer,
        words=words,
        characters=characters,
        wer_pooled=None if wer.interval else pooled,
    )
