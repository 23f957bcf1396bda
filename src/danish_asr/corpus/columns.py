"""The columns of a row, and which columns of a source are read as them.

A new column is one line of `COLUMNS`. What is read, written and counted, and what ``--column`` can
name, follows from it.
"""

import math
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final
from unicodedata import normalize

from danish_asr.base.errors import SourceError
from danish_asr.corpus import people

Reader = Callable[[Any], Any]
"""Makes of a source's value ours, or None; TypeError or ValueError if the row is malformed."""

TIMES: Final = ("start", "end", "seconds")
_MILLISECONDS: Final = re.compile(r"(?i).*(_ms|millis\w*)|.*[a-z]Ms")
_CLOCK: Final = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{1,2})(?:[.,](\d+))?")


def seconds_of(value: Any) -> float | None:
    """Seconds of a number, or of ``1:02:03,5``."""
    if isinstance(value, str) and (clock := _CLOCK.fullmatch(value.strip())):
        hours, minutes, seconds, fraction = clock.groups(default="0")
        return 3600 * int(hours) + 60 * int(minutes) + int(seconds) + float(f"0.{fraction}")
    number = _number(value)
    if number is None:
        return None
    if not 0 <= number < math.inf:
        raise ValueError
    return number


def _seconds_of_milliseconds(value: Any) -> float | None:
    milliseconds = seconds_of(value)
    return None if milliseconds is None else milliseconds / 1000


def _number(value: Any) -> float | None:
    """A number, or its text with a comma, as in Danish tables; None for white space and NaN."""
    number = float(str(value).strip().replace(",", ".") or math.nan)
    return None if math.isnan(number) else number


def _id(value: Any) -> str | None:
    """The id; of several columns a tuple, joined. None if one is missing or blank."""
    parts = value if isinstance(value, tuple) else (value,)
    if any(part is None or not str(part).strip() for part in parts):
        return None
    return "_".join(map(str, parts))


def _text(value: Any) -> str:
    if isinstance(value, int):  # a table may hold a number without a fraction
        value = str(value)
    return normalize("NFC", value)  # or TypeError


def _path(value: Any) -> str | None:
    if isinstance(value, bytes):
        raise TypeError
    return os.fspath(value) or None  # or TypeError


def _gender(value: Any) -> str | None:
    return people.gender_of(people.clean(value))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table of rows (``rows.py``), or of its source alone."""

    name: str
    type: str | None = "string"  # Arrow's name; None: it is read, and not kept
    _: KW_ONLY
    read: Reader | None = None  # of a source's values, which ``--column`` can name
    names: str = ""  # in other corpora, in lower case; the first that is there is taken
    found: bool = False  # by the conversion, from others: no record of a reader has it
    written: bool = False  # to shards, as metadata that may be null


COLUMNS: Final = (
    Column("corpus"),
    Column("split", read=people.clean, names="split"),
    Column("file"),
    Column("row", "int64"),  # position in its file, from 0
    Column("line", "int64"),  # where people find it in a table, from 1; null elsewhere
    Column("group", "int32"),  # of rows that are cheapest to read together, in its file
    # Of several columns an id is joined; the last name is of CoRal's conversations.
    Column("id", read=_id, names="id id_recording id_conversation,id_segment"),
    Column("text", read=_text, names="text sentence transcript transcription tekst"),
    Column(
        "audio",  # names a recording below the source's root; null if it is embedded
        read=_path,
        names="audio audio_filepath path audio_path file filename file_name wav wav_filename "
        "lydfil filnavn fil",
    ),
    Column("start", "double", read=seconds_of, names="offset start start_time start_ms"),
    Column("end", None, read=seconds_of, names="end end_time slut end_ms"),
    Column("seconds", "double", read=seconds_of, names="duration seconds duration_ms"),
    Column("channel", "int32", read=people.known, names="channel"),  # from 1
    Column("validated", None, read=people.clean, names="validated"),
    Column("uncut", "bool", found=True),  # without times: the recording is the utterance
    Column("alone", "bool", found=True),  # no other row is of its recording
    Column(
        "speaker_id",
        read=people.speaker_of,
        names="speaker_id speaker client_id taler id_speaker",
        written=True,
    ),
    Column("dialect", read=people.clean, names="dialect accent accents dialekt", written=True),
    Column("sub_dialect", found=True, written=True),  # the source's own name
    Column("age", "int64", read=people.known, names="age alder", written=True),
    Column("age_group", found=True, written=True),
    Column("gender", read=_gender, names="gender sex speaker_gender køn", written=True),
    Column("country_birth", read=people.clean, names="country_birth", written=True),
    Column("refused"),  # why the row goes to the ledger
    Column("recording", found=True),  # the path of what ``audio`` names; null of several
    Column("version", found=True),  # of the file with its audio: changes with it
)

THEIR_NAMES: Final = {column.name: column.names.split() for column in COLUMNS if column.read}
"""By the names that ``--column`` takes, those of other corpora."""

READERS: Final[Mapping[str, tuple[str, Reader]]] = {
    column.name: (column.name, column.read) for column in COLUMNS if column.read
} | {f"{name}_ms": (name, _seconds_of_milliseconds) for name in TIMES}
"""By the keys of a record, the column and what reads it."""

RECORD_KEYS: Final = READERS.keys() | {column.name for column in COLUMNS if not column.found}
"""What a record of a reader may have."""


def record_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a source of one's own yields for a row of another source, and may change before.

    Dialect and age are those that the groups were found in.
    """
    record = {key: row[key] for key in row.keys() & RECORD_KEYS}
    age = row["age_group"] if row["age"] is None else row["age"]
    return record | {"dialect": row["sub_dialect"], "age": age}


@dataclass
class SourceColumns:
    """The columns of a source, whose files may name them differently; `add` collects them."""

    chosen: Mapping[str, str]  # the source's names by ours, of ``--column``
    never_guessed: Collection[str] = ()  # ours that are read only if they are chosen
    hint: str = ""  # what else is said of a file that lacks text or audio
    names: dict[str, bool] = field(default_factory=dict)  # all, and whether they are read
    _read: dict[str, dict[str, None]] = field(default_factory=dict)  # by ours, in their order

    def of(self, names: Sequence[str]) -> dict[str, str]:
        """The names that are read, by the keys of a record: ``start_ms`` is one of milliseconds.

        In names of corpora capitals, and spaces for "_", do not matter. An id may be of several.
        """
        spellings = {name.lower().replace(" ", "_"): name for name in reversed(names)}
        spellings |= {name: name for name in names}
        keys: dict[str, str] = {}
        for ours, usual in THEIR_NAMES.items():
            candidates = [] if ours in self.never_guessed else usual
            if ours in self.chosen:
                candidates = [self.chosen[ours]]
            for candidate in filter(None, candidates):
                parts = _parts(ours, candidate)
                if spellings.keys() >= {*parts}:
                    theirs = ",".join(spellings[part] for part in parts)
                    in_milliseconds = ours in TIMES and _MILLISECONDS.fullmatch(theirs)
                    keys[f"{ours}_ms" if in_milliseconds else ours] = theirs
                    break
        return keys

    def add(
        self, file: str, names: Sequence[str], of_rows: Collection[Mapping[str, str]] = ()
    ) -> dict[str, str]:
        """Add a file with these names; returns `of` them. SourceError: it lacks text or audio.

        ``of_rows`` has what `of` says of each kind of row, if these have names of their own.
        """
        keys = self.of(names)
        for ours in ("text", "audio"):
            if ours not in keys:
                missing = self.chosen.get(ours, f"of {ours}")
                shown = ", ".join(name[:60] for name in names[:20])
                raise SourceError(
                    f"{file}: no column {missing}; found {shown}. Name it: --column {ours}=COLUMN. "
                    "If the first line is a row, write a header above it: path,text,speaker"
                    f"{self.hint}"
                )
        pairs = [pair for own in of_rows or [keys] for pair in own.items()]
        read = {part for key, theirs in pairs for part in _parts(key, theirs)}
        self.names |= {name: self.names.get(name, False) or name in read for name in names}
        for key, theirs in pairs:
            self._read.setdefault(key.removesuffix("_ms"), {})[theirs] = None
        return keys

    @property
    def read(self) -> dict[str, str]:
        """The names that some file or row is read from, by ours."""
        return {ours: " or ".join(theirs) for ours, theirs in self._read.items()}

    def ignored(self) -> tuple[str, ...]:
        """The names that are not read. SourceError if a chosen one is in no file."""
        check_chosen([*self.names], self.chosen)
        ignored = (name for name, is_read in self.names.items() if not is_read)
        return tuple(name or "a column without a name" for name in ignored)


def _parts(ours: str, theirs: str) -> list[str]:
    """The columns that a name means: an id may be of several."""
    return theirs.split(",") if ours == "id" else [theirs]


def check_chosen(names: Sequence[str], chosen: Mapping[str, str]) -> None:
    """Raise `SourceError` if a column of ``--column`` is not there."""
    wanted = [part for ours, theirs in chosen.items() for part in _parts(ours, theirs) if part]
    if missing := [name for name in wanted if name not in names]:
        raise SourceError(f"--column: there is no {', '.join(missing)}; found {', '.join(names)}")


def values_of(row: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """The values of a row by the keys of a record; an id of several columns is a tuple."""
    values = {key: row.get(theirs) for key, theirs in keys.items()}
    if "," in keys.get("id", ""):
        values["id"] = tuple(row[name] for name in keys["id"].split(","))
    return values
