"""Scores of one predictions file: overall and per group, with intervals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from danish_asr.base.errors import PredictionsError
from danish_asr.metrics import Counts, ErrorCounts
from danish_asr.scoring.frames import as_table
from danish_asr.scoring.intervals import Estimate, Gap, estimate_gap, estimate_rates, to_plain
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scored_rows import GroupSums, RowsUsed, score_rows
from danish_asr.scoring.settings import DEFAULT_BY, Settings


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


@dataclass(frozen=True, slots=True)
class Grouping:
    """The scores of all groups of a grouping."""

    groups: tuple[GroupScore, ...]
    gap: Gap | None  # None below two named groups with an interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """All scores of a predictions file, with the settings and rows that they depend on."""

    settings: Settings
    rows: RowsUsed
    overall: GroupScore
    groupings: Mapping[str, Grouping]

    def only(self, names: Iterable[str]) -> "Scores":
        """Return the same scores with the named groupings only."""
        return replace(self, groupings={name: self.groupings[name] for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, the content of ``scores.json``."""
        return to_plain(self) | {"settings": self.settings.to_dict()}

    def to_pandas(self) -> pd.DataFrame:
        """Return one line per group, each with all settings; the first is all rows."""
        named = [("all", self.overall)]
        named += [(name, group) for name, part in self.groupings.items() for group in part.groups]
        about = self.settings.to_dict() | {
            "rows_scored": self.rows.scored,
            "rows_in_file": self.rows.in_file,
            "rows_in_split": self.rows.in_split,
            "where": self.rows.where,
            "left_out": "; ".join(f"{why}: {count}" for why, count in self.rows.left_out.items()),
        }
        return pd.DataFrame([{"grouping": name} | _line(group) | about for name, group in named])

    def __repr__(self) -> str:
        return self._table(html=False)

    def _repr_html_(self) -> str:
        return self._table(html=True)

    def _table(self, *, html: bool) -> str:
        columns = {name: name for name in ("grouping", "group", "rows", "speakers", "words")}
        columns |= {"wer": "WER %", "wer_low": "from", "wer_high": "to", "cer": "CER %"}
        scored = f"{self.rows.scored:,} rows scored{self.rows.of_split()}"
        rows = [scored, self.rows.partial_warning()]
        return as_table(self.to_pandas(), columns, self.settings, rows, html=html)


def _line(group: GroupScore) -> dict[str, Any]:
    line: dict[str, Any] = {
        "group": group.label,
        "rows": group.rows,
        "speakers": group.speakers,
        "words": group.words.reference_length,
    }
    for measure, estimate in (("wer", group.wer), ("cer", group.cer)):
        line[measure] = estimate.value
        line[f"{measure}_low"], line[f"{measure}_high"] = estimate.interval or (None, None)
        line[f"{measure}_not_resolvable"] = estimate.not_resolvable
        if estimate.utterances:
            names = f"{measure}_utterances_low", f"{measure}_utterances_high"
            line |= dict(zip(names, estimate.utterances, strict=True))
    return line


def score_predictions(
    predictions: Iterable[Prediction],
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    rows_in_split: int | None = None,
    where: str | None = None,
) -> Scores:
    """Score rows; each element of ``by`` is a column or a product of columns ("age_group,gender").

    ``where`` is the condition that selected the rows of the split, if it is not all of them.

    Raises:
        ConfigError: A column is unknown.
        PredictionsError: There is no row to score.
    """
    settings = settings or Settings()
    rows = score_rows(predictions, by=by, settings=settings)
    used = rows.used(rows_in_split, where)
    if not used.scored:
        what = "; choose another row filter" if used.in_file else ": there are no rows"
        raise PredictionsError(f"no row to score{used.why_left_out()}{what}")
    return Scores(
        settings=settings,
        rows=used,
        overall=_score_group(rows.groups()[0], settings),
        groupings={
            name: _score_grouping(rows.groups(columns), settings)
            for name, columns in rows.groupings.items()
        },
    )


def _score_grouping(groups: Sequence[GroupSums], settings: Settings) -> Grouping:
    scores = tuple(_score_group(group, settings) for group in groups)
    named = [group for group in groups if None not in group.group.values()]
    return Grouping(scores, estimate_gap(named, settings))


def _score_group(group: GroupSums, settings: Settings) -> GroupScore:
    errors = ErrorCounts.from_tuple(group.sums.sum(axis=0).tolist())
    wer, cer = estimate_rates(group, settings)
    return GroupScore(
        label=group.label,
        group=group.group,
        rows=errors.rows,
        speakers=group.known_speakers,
        wer=wer,
        cer=cer,
        words=errors.words,
        characters=errors.characters,
    )
