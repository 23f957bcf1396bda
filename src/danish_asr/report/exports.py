"""Scores as JSON, as CSV and as a Markdown block for a model card."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any, Final

from danish_asr.report.wording import (
    INTERVAL_NOTE,
    bounds,
    gap_sentence,
    grouping_title,
    partial_warning,
    percent,
    sentence,
    summary,
)
from danish_asr.scoring.scores import GroupScore, Scores

_BEGINS_FORMULA: Final = ("=", "+", "-", "@")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
"""A group that is called by a number, -1 say, is no formula."""


def to_json(document: dict[str, Any]) -> str:
    """Return indented JSON that keeps Danish letters."""
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def to_csv(scores: Scores) -> str:
    """Return one line per group; rates are fractions.

    A text that a spreadsheet would run as a formula has an apostrophe before it (CWE-1236).
    """
    lines = [{key: _plain(value) for key, value in line.items()} for line in scores.lines()]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return stream.getvalue()


def _plain(value: Any) -> Any:
    """Keep a text, a group's name in foreign data say, from being run as a formula."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}" if value.startswith(_BEGINS_FORMULA) else value


def to_markdown(scores: Scores) -> str:
    """Return a section for a model card."""
    parts = ["## Evaluation", f"Scored with danish-asr: {summary(scores)}."]
    if scores.rows.is_partial:
        parts.append(f"**Warning:** {partial_warning(scores.rows)}.")
    parts.append(_table([scores.overall]))
    for name, grouping in scores.groupings.items():
        parts += [f"### {_cell(sentence(grouping_title(name)))}", _table(grouping.groups)]
        if gap := gap_sentence(grouping):
            parts.append(_cell(sentence(gap)) + ".")
    parts.append(_reading(scores))
    return "\n\n".join(parts) + "\n"


def _reading(scores: Scores) -> str:
    """Say what the rates are divided by and what an interval is."""
    units = "words (WER) or characters (CER)"
    if scores.settings.denominator == "coral":
        units += " of the reference and inserted ones"
    return (
        "Intervals are 95 % intervals over speakers. The rates are micro-averages: all errors over "
        f"all {units}. {sentence(INTERVAL_NOTE)}."
    )


def _table(groups: list[GroupScore] | tuple[GroupScore, ...]) -> str:
    head = [
        "| group | WER % | 95 % interval | CER % | rows | speakers |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    return "\n".join([*head, *(_row(group) for group in groups)])


def _row(group: GroupScore) -> str:
    cells = [
        _cell(group.label),
        percent(group.wer.value),
        bounds(group.wer.interval),
        percent(group.cer.value),
        str(group.errors.rows),
        str(group.speakers),
    ]
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    """Keep a label from being read as markup."""
    for mark in "\\|<>*_`[]":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
