"""Which columns of a table are ours: those that ``--column`` names, or usual names of corpora."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.corpus import COLUMNS

THEIR_NAMES: Final = {
    "audio": (
        *("audio", "audio_filepath", "path", "audio_path", "file", "filename", "file_name"),
        *("wav", "wav_filename", "lydfil"),
    ),
    "text": ("text", "sentence", "transcript", "transcription", "tekst"),
    "speaker_id": ("speaker_id", "speaker", "client_id", "taler"),
    "dialect": ("dialect", "accent", "accents", "dialekt"),
    "age": ("age", "alder"),
    "gender": ("gender", "sex", "speaker_gender", "køn"),
    "start": ("offset", "start", "start_time", "start_ms"),
    "seconds": ("duration", "seconds", "duration_ms"),
    "end": ("end", "end_time", "slut", "end_ms"),
}
"""Names that corpora use for our columns, in lower case; the first that is there is taken."""

TIMES: Final = ("start", "end", "seconds")
_MILLISECONDS: Final = re.compile(r"(?i).*(_ms|millis\w*)|.*[a-z]Ms")


def columns_of(
    names: Sequence[str],
    chosen: Mapping[str, str],
    names_of: Mapping[str, Sequence[str]] = THEIR_NAMES,
) -> dict[str, str]:
    """The names that a table has for our columns, by ours: the chosen ones, or those of corpora.

    Capitals, and spaces for "_", do not matter. A chosen id may be several names with commas.
    """
    by_lower_case = {name.lower().replace(" ", "_"): name for name in reversed(names)}
    columns: dict[str, str] = {}
    for ours in COLUMNS:
        if ours in chosen:
            theirs = chosen[ours] if {*chosen[ours].split(",")} <= {*names} else None
        else:
            candidates = (by_lower_case.get(name) for name in names_of.get(ours, (ours,)))
            theirs = next(filter(None, candidates), None)
        if theirs:
            columns[ours] = theirs
    return columns


def check_chosen(names: Sequence[str], chosen: Mapping[str, str]) -> None:
    """Raise `SourceError` if a column of ``--column`` is not there."""
    wanted = [name for theirs in chosen.values() for name in theirs.split(",") if name]
    if missing := [name for name in wanted if name not in names]:
        raise SourceError(f"--column: there is no {', '.join(missing)}; found {', '.join(names)}")


def values_of(row: Mapping[str, Any], theirs: str) -> Any:
    """The value of a column of `columns_of`; of several columns a tuple."""
    if theirs in row or "," not in theirs:
        return row.get(theirs)
    return tuple(row.get(name) for name in theirs.split(","))


def check_columns(where: str, names: Sequence[str], columns: Mapping[str, str]) -> None:
    """Raise `SourceError` if text or audio is missing."""
    for ours in ("text", "audio"):
        if ours not in columns:
            shown = ", ".join(name[:60] for name in names[:20])
            raise SourceError(
                f"{where}: no column of {ours}; found {shown}. Name it: --column {ours}=COLUMN. If "
                "the first line is a row, write a header above it, such as path,text,speaker"
            )


def record_keys(names: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """The names that are read by the keys of a record: ``start_ms`` is that of milliseconds."""
    own_split = next((name for name in names if name.lower() == "split"), None)
    keys = {"split": own_split} if own_split else {}
    for ours, theirs in columns.items():
        in_milliseconds = ours in TIMES and _MILLISECONDS.fullmatch(theirs)
        keys[f"{ours}_ms" if in_milliseconds else ours] = theirs
    return keys
