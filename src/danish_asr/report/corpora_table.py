"""The table of several corpora: a column for each, a line for each dialect."""

from typing import Final, NamedTuple

from danish_asr.report import wording
from danish_asr.scoring.scores import GroupScore, Scores

_UNKNOWN: Final = "unknown"
_NOTE: Final = "in brackets: no interval, because there are too few speakers or words"


class CorporaTable(NamedTuple):
    """Its headings and cells; the last line and the last column are of all rows."""

    headings: list[str]
    rows: list[list[str]]

    @property
    def title(self) -> str:
        """A heading."""
        return "WER % by corpus and dialect"

    @property
    def note(self) -> str:
        """What the brackets mean; empty without brackets."""
        return _NOTE if any(cell.startswith("(") for row in self.rows for cell in row[1:]) else ""


def corpora_table(scores: Scores) -> CorporaTable | None:
    """The table, or None if the rows are of one corpus."""
    if not scores.by_corpus:
        return None
    cells: dict[tuple[str, str], str] = {("", ""): _cell(scores.overall)}
    for group in scores.by_corpus:
        place = [_label(group, name) for name in ("dialect", "corpus")]
        cells[place[0], place[1]] = _cell(group)
    corpora = sorted({corpus for _, corpus in cells} - {""}, key=_unknown_last)
    dialects = sorted({dialect for dialect, _ in cells} - {""}, key=_unknown_last)
    if dialects == [_UNKNOWN]:
        dialects = []
    rows = [
        [dialect or "all", *(cells.get((dialect, corpus), "") for corpus in (*corpora, ""))]
        for dialect in (*dialects, "")
    ]
    return CorporaTable(["WER %", *corpora, "all"], rows)


def _label(group: GroupScore, name: str) -> str:
    """The value in a column: unknown if a row has none, empty if the group is of all values."""
    return (group.group[name] or _UNKNOWN) if name in group.group else ""


def _unknown_last(label: str) -> tuple[bool, str]:
    return label == _UNKNOWN, label


def _cell(group: GroupScore) -> str:
    rate = wording.percent(group.wer.value)
    return rate if group.wer.interval else f"({rate})"
