"""Refuses tables that can be read in several ways, of which all but one give wrong rows."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources.base import USUAL_NAMES, Columns, SourceOptions

_TIME: Final = re.compile(
    r"begin|start|onset|offset|slut|stop|[tx]min|[tx]max"
    r"|(from|to|fra|til|beg|end|ends|endtime|endms|endsec)$"
)
_LENGTH: Final = re.compile(r"(dur|length|længde|varighed)|len$")
"""The beginning of a word, or a whole word, in names of columns that hold times or lengths."""

_START: Final = re.compile(r"begin|start|onset|offset|[tx]min|beg$|end$")
"""Those of them that tell where an utterance lies in a recording."""

_WORD: Final = re.compile(r"[^\W\d_]?[^\W\d_A-ZÆØÅ]+|[A-ZÆØÅ]+")

_WHOLE: Final = ("audio", "text", "start", "end", "channel")

_FIX: Final = "name both ends, in seconds: --column start=COLUMN --column end=COLUMN"


def check_texts(file: str, names: Collection[str], options: SourceOptions) -> None:
    """Raise `SourceError` for two columns of text of which none is chosen."""
    texts = [name for name in names if name.lower() in {"text", *USUAL_NAMES["text"]}]
    if len(texts) > 1 and "text" not in _given(options):
        raise SourceError(
            f"{file}: found several columns of text: {', '.join(texts)}; choose one: "
            f"--column text={texts[0]}"
        )


def check_times(
    file: str, names: Collection[str], columns: Columns, options: SourceOptions
) -> None:
    """Raise `SourceError` for a time of which only one end is found."""
    read = {ours for ours in ("start", "seconds", "end") if columns[ours] in names}
    known = read | _given(options)
    others = time_columns(names, columns)
    if read and others and not ("start" in known and known & {"seconds", "end"}):
        found = ", ".join(columns[ours] for ours in sorted(read))
        raise SourceError(
            f"{file}: found the time {found}, and not what {', '.join(others)} are; {_FIX} (or "
            "seconds=COLUMN; nothing after the = for none)"
        )


def _given(options: SourceOptions) -> set[str]:
    return {pair.partition("=")[0] for pair in options.columns}


def time_columns(names: Collection[str], columns: Columns) -> list[str]:
    """The columns that are not read and look like times; a second length is none."""
    read = ",".join(columns.values()).split(",")
    patterns = [_TIME] if columns["seconds"] in names else [_TIME, _LENGTH]
    return [
        name
        for name in names
        if name not in read
        and any(like.match(word.lower()) for word in _WORD.findall(name) for like in patterns)
    ]


def start_columns(names: Collection[str]) -> list[str]:
    """The columns that look like the place of an utterance in a recording."""
    return [
        name for name in names if any(_START.match(word.lower()) for word in _WORD.findall(name))
    ]


class WholeRecordings:
    """The recordings that rows name without times; each may have one text."""

    def __init__(self) -> None:
        self._first: dict[int, tuple[int, int]] = {}  # text and line, by the recording
        self._again = 0
        self._example = ""

    def add(self, values: Mapping[str, Any], columns: Columns, line: int) -> None:
        """Add the row on a line of the table."""
        own = {name: values.get(columns[name]) if columns[name] else None for name in _WHOLE}
        audio, text = str(own["audio"] or ""), own["text"]
        timed = any(own[name] not in (None, "") for name in ("start", "end"))
        if timed or not audio or not isinstance(text, str) or not text.strip():
            return
        key = hash((audio, str(own["channel"])))
        first_text, first_line = self._first.setdefault(key, (hash(text.strip()), line))
        if hash(text.strip()) != first_text:
            self._again += 1
            self._example = self._example or f"lines {first_line} and {line}: {audio}"

    def check(self, file: str, others: Sequence[str]) -> None:
        """Raise `SourceError` if a recording has several texts."""
        if self._again:
            ignored = f" ({', '.join(others)} are not read)" if others else ""
            raise SourceError(
                f"{file}: {self._again:,} rows name a recording of another row, with another text "
                f"and without a start{ignored}; the first are {self._example}. Each would be the "
                f"whole recording: keep one row of each, or {_FIX}"
            )
