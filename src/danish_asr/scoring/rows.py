"""Which rows of a split are scored, and what is to be said of them.

In: a table of `danish_asr.scoring.scores.score_table`. Out: `RowsUsed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from danish_asr.base.tables import printable

PERSON: Final = "_person"
"""The column of `score_table` that says who spoke, over which intervals are computed."""

TRAINED_ROW: Final = "_trained_row"
TRAINED_SPEAKER: Final = "_trained_speaker"
"""Columns of predictions that say whether the model was trained on the row, or on its speaker."""

UNLIKE_DATASET: Final = "_unlike_dataset"
"""The column of predictions that has a row's own label and the other one of the dataset."""

HIDDEN: Final = ("left_out", PERSON, TRAINED_ROW, TRAINED_SPEAKER, UNLIKE_DATASET)
"""Columns of `score_table` that no file has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsUsed:
    """Which rows of a split are scored."""

    scored: int
    in_file: int
    in_split: int | None
    left_out: Mapping[str, int]  # by the row filter, per reason, the most frequent first
    splits: Sequence[str]  # that were evaluated, or that the rows name
    empty_hypotheses: int  # of the scored rows, where the reference has a word
    empty_references: int  # of the scored rows, where the hypothesis has a word
    without_speaker: int  # of the scored rows
    where: str | None = None  # the condition of an evaluation of some rows of the split
    trained_rows: int | None = None  # of the scored ones that the model was trained on, if known
    trained_speakers: int | None = None
    unlike_dataset: int = 0  # of the scored rows, whose labels the dataset has otherwise
    unlike_example: str | None = None

    @classmethod
    def of(
        cls,
        table: pd.DataFrame,
        in_split: int | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> RowsUsed:
        """Return what a score table says of its rows, and ``evaluation.json`` if there is one."""
        scored, about = table[table["left_out"].isna()], about or {}
        known: dict[str, Any] = {}
        if TRAINED_ROW in scored:
            speakers = scored[PERSON][scored[TRAINED_SPEAKER]].nunique()
            known = {"trained_rows": int(scored[TRAINED_ROW].sum()), "trained_speakers": speakers}
        if UNLIKE_DATASET in scored and scored[UNLIKE_DATASET].notna().any():
            rows = scored[scored[UNLIKE_DATASET].notna()]
            example = f"{rows['id'].iloc[0]}: {rows[UNLIKE_DATASET].iloc[0]}"
            known |= {"unlike_dataset": len(rows), "unlike_example": example}
        no_hypothesis = scored["hypothesis_normalised"] == ""
        no_reference = scored["reference_normalised"] == ""
        return cls(
            scored=len(scored),
            in_file=len(table),
            in_split=in_split,
            left_out={str(why): times for why, times in table["left_out"].value_counts().items()},
            splits=sorted(about.get("rows_in_split") or table["split"].dropna().unique()),
            empty_hypotheses=int((no_hypothesis & ~no_reference).sum()),
            empty_references=int((no_reference & ~no_hypothesis).sum()),
            without_speaker=int(scored[PERSON].isna().sum()),
            where=about.get("where"),
            **known,
        )

    @property
    def partial(self) -> bool:
        """Whether the file has fewer rows than the split."""
        return self.in_split is not None and self.in_file < self.in_split

    def why_left_out(self) -> str:
        """Return the numbers of excluded rows with their reasons in brackets, or nothing."""
        parts = "; ".join(f"{count} left out: {why}" for why, count in self.left_out.items())
        return f" ({parts})" if parts else ""

    def of_split(self) -> str:
        """Return of how many rows of which split the scored ones are, and why not the others."""
        split = "the split" if len(self.splits) < 2 else "the splits"
        if self.splits:
            split += f" {', '.join(map(printable, self.splits))}"
        total = ""
        if self.in_split is not None:
            total = f" of {self.in_split:,} in {split}"
        elif self.splits:
            total = f" of {split}"
        where = f", where {self.where}" if self.where else ""
        return total + where + self.why_left_out()

    def warnings(self, name: str = "") -> list[str]:
        """Return what is suspicious about the rows; ``name`` is that of the file."""
        prefix = f"{name}: " if name else ""
        lines = []
        if self.partial:
            rows = f"{self.in_file:,} of {self.in_split:,} rows of the split"
            fault = "these scores are not the split's scores"
            lines.append(f"{prefix}the predictions are partial: {rows}; {fault}")
        if self.empty_hypotheses:
            rows = f"{self.empty_hypotheses:,} of {self.scored:,} hypotheses"
            lines.append(f"{prefix}{rows} are empty: all their words count as deleted")
        if self.empty_references:
            rows = f"{self.empty_references:,} of {self.scored:,} references"
            fault = "all words of their hypotheses count as inserted"
            lines.append(f"{prefix}{rows} are empty: {fault}")
        if 0 < self.without_speaker < self.scored:
            rows = f"{self.without_speaker:,} of {self.scored:,} rows"
            lines.append(f"{prefix}{rows} have no speaker: they count as one person in each group")
        if self.unlike_dataset:
            rows = f"{self.unlike_dataset:,} of {self.scored:,} rows"
            lines.append(
                f"{prefix}{rows} have other labels than the dataset, and their own are used: "
                f"{printable(str(self.unlike_example))}"
            )
        if self.trained_rows or self.trained_speakers:
            rows = f"{self.trained_rows:,} of {self.scored:,} rows"
            fault = "the rates are not those of new speech"
            lines.append(
                f"{prefix}the model was trained on {rows}, and on {self.trained_speakers:,} of the "
                f"speakers: {fault}"
            )
        return lines
