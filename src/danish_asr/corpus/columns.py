"""Which columns of a source are read: those that ``--column`` names, or usual names of corpora."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.corpus import COLUMNS

THEIR_NAMES: Final[Mapping[str, Sequence[str]]] = {
    "audio": (
        *("audio", "audio_filepath", "path", "audio_path", "file", "filename", "file_name"),
        *("wav", "wav_filename", "lydfil"),
    ),
    "text": ("text", "sentence", "transcript", "transcription", "tekst"),
    "id": ("id", "id_recording", "id_conversation,id_segment"),  # the latter are CoRal's
    "speaker_id": ("speaker_id", "speaker", "client_id", "taler", "id_speaker"),
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


@dataclass
class Columns:
    """The columns of a source, whose files may name them differently; `add` collects them."""

    chosen: Mapping[str, str]  # the source's names by ours, of ``--column``
    their_names: Mapping[str, Sequence[str]]  # such as `THEIR_NAMES`
    names: dict[str, bool] = field(default_factory=dict)  # all, and whether they are read
    read: dict[str, str] = field(default_factory=dict)  # by ours, of the last file that has one

    def of(self, names: Sequence[str]) -> dict[str, str]:
        """The names that are read, by the keys of a record: ``start_ms`` is one of milliseconds.

        In names of corpora capitals, and spaces for "_", do not matter. An id may be of several.
        """
        spellings = {name.lower().replace(" ", "_"): name for name in reversed(names)}
        spellings |= {name: name for name in names}
        keys: dict[str, str] = {}
        for ours in (*COLUMNS, "split"):
            candidates = self.their_names.get(ours, (ours,))
            if ours in self.chosen:
                candidates = (self.chosen[ours],)
            for candidate in filter(None, candidates):
                parts = candidate.split(",")
                if spellings.keys() >= {*parts}:
                    theirs = ",".join(spellings[part] for part in parts)
                    in_milliseconds = ours in TIMES and _MILLISECONDS.fullmatch(theirs)
                    keys[f"{ours}_ms" if in_milliseconds else ours] = theirs
                    break
        return keys

    def add(self, file: str, names: Sequence[str]) -> dict[str, str]:
        """Add a file with these names; returns `of` them. SourceError: it lacks text or audio."""
        keys = self.of(names)
        for ours in ("text", "audio"):
            if ours not in keys:
                missing = self.chosen.get(ours, f"of {ours}")
                shown = ", ".join(name[:60] for name in names[:20])
                raise SourceError(
                    f"{file}: no column {missing}; found {shown}. Name it: --column {ours}=COLUMN. "
                    "If the first line is a row, write a header above it: path,text,speaker"
                )
        read = ",".join(keys.values()).split(",")
        self.names |= {name: self.names.get(name, False) or name in read for name in names}
        self.read |= {key.removesuffix("_ms"): theirs for key, theirs in keys.items()}
        return keys

    def ignored(self) -> tuple[str, ...]:
        """The names that are not read. SourceError if a chosen one is in no file."""
        check_chosen([*self.names], self.chosen)
        ignored = (name for name, is_read in self.names.items() if not is_read)
        return tuple(name or "a column without a name" for name in ignored)


def check_chosen(names: Sequence[str], chosen: Mapping[str, str]) -> None:
    """Raise `SourceError` if a column of ``--column`` is not there."""
    wanted = [name for theirs in chosen.values() for name in theirs.split(",") if name]
    if missing := [name for name in wanted if name not in names]:
        raise SourceError(f"--column: there is no {', '.join(missing)}; found {', '.join(names)}")


def values_of(row: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """The values of a row by the keys of `Columns.of`; an id of several columns is a tuple."""
    values = {key: row.get(theirs) for key, theirs in keys.items()}
    if "," in keys.get("id", ""):
        values["id"] = tuple(row[name] for name in keys["id"].split(","))
    return values
