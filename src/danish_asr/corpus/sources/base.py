"""What a corpus gives to conversion: files, and their rows as utterances."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pyarrow as pa

from danish_asr.base.errors import SourceError
from danish_asr.base.schema import SPLIT_ALIASES, SPLITS
from danish_asr.corpus.sources.metadata import Speaker, clean, plain, speaker

Columns = Mapping[str, str]
"""Our names of columns, and the corpus's. That of ``id`` may be several, separated by commas."""

_SPEAKER: Final = ("speaker_id", "dialect", "age", "gender", "country_birth")
_ALWAYS: Final = ("text", "audio", "id", *_SPEAKER, "validated")

COLUMNS: Final = {name: name for name in _ALWAYS} | {"start": "", "seconds": ""}
"""The names by default. Only text and audio are required. ``start`` and ``seconds`` cut an
utterance out of its audio; rows with "rejected" in ``validated`` are dropped."""

USUAL_NAMES: Final = {
    "audio": (
        "audio",
        "audio_filepath",
        "path",
        "audio_path",
        "file",
        "filename",
        "file_name",
        "wav",
        "lydfil",
    ),
    "text": ("sentence", "transcript", "transcription", "tekst"),
    "speaker_id": ("speaker", "client_id", "taler"),
    "dialect": ("accent", "accents", "dialekt"),
    "age": ("alder",),
    "gender": ("sex", "speaker_gender", "køn"),
    "start": ("start_time",),
}
"""Other names that corpora use for our columns, in lower case; the first that is there is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file of a corpus; ``name`` is its path below the source's root."""

    name: str
    corpus: str  # its name in the built dataset
    split: str  # one of `danish_asr.base.schema.SPLITS`
    row_groups: tuple[int, ...]  # rows of each part that is cheapest to read as a whole
    fingerprint: str  # changes with the content

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise SourceError(
                f"{self.name}: unknown split {self.split!r}; expected one of {', '.join(SPLITS)}"
            )

    @property
    def rows(self) -> int:
        """Rows in the file."""
        return sum(self.row_groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One source row as the corpus has it, before it is checked or converted."""

    row: int  # position in its file, from 0
    id: str  # unique in the corpus; conversion drops duplicates
    text: str | None
    audio: bytes | Path | None  # an encoded audio file, or the path of one
    speaker: Speaker = field(default_factory=Speaker)
    start: float = 0.0  # seconds into the audio
    seconds: float | None = None  # None for all of the audio from the start
    refused: str | None = None  # why the corpus itself excludes the row


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """A corpus that can be converted. It is sent to worker processes, so it must pickle."""

    name: str  # what the user typed
    files: tuple[SourceFile, ...]  # in an order that does not depend on the machine
    notes: tuple[str, ...] = ()  # for people: what is not read

    @abstractmethod
    def read(self, file: SourceFile, start: int, stop: int) -> Iterator[Utterance]:
        """Yield rows ``start`` to ``stop - 1`` of a file, without holding them all in memory."""

    def ids(self, file: SourceFile) -> pa.Array:
        """The id of every row of a file, as strings, in order."""
        return pa.array((row.id for row in self.read(file, 0, file.rows)), pa.string())

    def without_audio(self, file: SourceFile) -> Iterator[Utterance]:
        """Yield all rows of a file; their audio may be missing."""
        return self.read(file, 0, file.rows)

    def place(self, file: SourceFile, row: int) -> str:
        """Where people find a row."""
        return f"{file.name}, row {row}"

    def local_files(self, file: SourceFile) -> Iterator[Path]:  # noqa: ARG002
        """The local files that a file's rows are read from; conversion detects their changes."""
        yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options ``--corpus``, ``--column`` (``OURS=THEIRS``) and ``--split``."""

    corpus: str | None = None
    columns: tuple[str, ...] = ()
    split: str | None = None
    # What the defaults depend on; these are no options of the source.
    name: str | None = field(default=None, compare=False)  # of the card
    by_speaker: bool = field(default=False, compare=False)  # rows are divided by speaker later

    def checked_corpus(self) -> str:
        """The name of the corpus, or the card's; `SourceError` if it is missing or invalid."""
        corpus = self.corpus or self.name or ""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", corpus):
            raise SourceError(
                f"--corpus {corpus}: expected a name of up to 100 letters, digits, '_', '-' and "
                "'.'; the default is --name"
            )
        return corpus

    def checked_columns(self, default: Columns = COLUMNS) -> Columns:
        """The columns with the user's names; raises `SourceError` for an invalid assignment."""
        columns = dict(default)
        for assignment in self.columns:
            ours, _, theirs = assignment.partition("=")
            if ours not in COLUMNS or not theirs:
                ours = ", ".join(COLUMNS)
                raise SourceError(
                    f"--column {assignment}: expected OURS=THEIRS, OURS one of {ours}"
                )
            columns[ours] = theirs
        return columns

    def split_of(self, path: PurePosixPath) -> str:
        """The split of a file; without ``split``, from its name or a folder above it.

        Where they say none, all rows are ``train`` until they are divided by speaker.
        """
        if self.split is not None:
            split = SPLIT_ALIASES.get(self.split, self.split)
            if split not in SPLITS:
                raise SourceError(f"--split {split}: expected one of {', '.join(SPLITS)}")
            if self.by_speaker and split != "train":
                raise SourceError(
                    f"--split {split}: expected no --split, or train, with --split-by-speaker, "
                    "which divides all rows"
                )
            return split
        for part in (path.name, *reversed(path.parent.parts)):
            first = re.split("[-_.]", part.lower())[0]
            if (split := SPLIT_ALIASES.get(first, first)) in SPLITS:
                return split
        if self.by_speaker:
            return "train"
        raise SourceError(
            f"{path}: cannot infer the split; expected a file name that begins with "
            f"{', '.join((*SPLITS, *SPLIT_ALIASES))}, or --split train for all "
            "files, or --split-by-speaker 80/10/10"
        )


def usual_columns(
    columns: Columns, found: Collection[str], default: Columns = COLUMNS
) -> dict[str, str]:
    """The columns, with usual names for those of which only the default is known and not found.

    Capitals do not matter. A column without a default, such as a time in `COLUMNS`, stays unknown.
    """
    usual, lower = dict(columns), {name.lower(): name for name in found}
    for ours, name in columns.items():
        if name and name == default[ours] and name not in found:
            others = (name, ours, *USUAL_NAMES.get(ours, ()))
            usual[ours] = next((lower[other] for other in others if other in lower), name)
    return usual


def ignored_columns(used: Iterable[str], found: Collection[str]) -> tuple[str, ...]:
    """A line for people about columns that no file's rows are read from, if there are any."""
    known = {part for name in used for part in name.split(",")}
    read = ", ".join(name for name in found if name in known)
    ignored = ", ".join(name for name in found if name and name not in known)
    return (f"read {read}; ignored {ignored} (--column OURS=THEIRS takes one)",) if ignored else ()


def list_files(
    where: str,
    files: Iterable[tuple[SourceFile, Collection[str]]],
    columns: Mapping[str, Columns],
    options: SourceOptions,
    what: str,
) -> tuple[SourceFile, ...]:
    """Check the files of a source, which come with the names of their columns."""
    listed, found = [], dict[str, None]()
    for file, names in files:
        listed.append(file)
        found |= dict.fromkeys(names)
        usual = usual_columns(columns[file.corpus], names)
        missing = [ours for ours in ("text", "audio") if usual[ours] not in names]
        if file.rows and missing:
            # Of two that are missing nobody knows which column is which.
            unused = (name for name in names if name not in usual.values() and len(missing) == 1)
            theirs = next(unused, "COLUMN")
            example = " ".join(f"--column {ours}={theirs}" for ours in missing)
            raise SourceError(
                f"{file.name}: no column {' and no column '.join(usual[ours] for ours in missing)};"
                f" found the columns {', '.join(names)}. Map yours, such as {example}"
            )
    if not any(file.rows for file in listed):
        raise SourceError(f"{where}: {'no rows in the' if listed else 'found no'} {what}")
    requested = [name for pair in options.columns for name in pair.partition("=")[2].split(",")]
    if missing := [name for name in requested if name not in found]:
        raise SourceError(f"--column: no file has {', '.join(missing)}; found {', '.join(found)}")
    return tuple(listed)


def utterance(
    values: Mapping[str, Any] | None,
    columns: Columns,
    file: SourceFile,
    row: int,
    *,
    country_codes: bool = False,
) -> Utterance:
    """Make an utterance of values, or a refused one (of None, or of an invalid text or time).

    ``country_codes`` is that of `speaker`.
    """
    id_, reading = f"{file.name}:{row}", "row"

    def get(ours: str) -> Any:
        nonlocal reading
        reading = ours
        return (values or {}).get(columns[ours])

    if values is not None:
        with suppress(ValueError, TypeError):
            "".join(
                each for each in values.values() if isinstance(each, str)
            ).encode()  # surrogates
            reading = "id"
            parts = [plain(values.get(name)) for name in columns["id"].split(",")]
            id_ = id_ if {None, ""} & {*parts} else "_".join(map(str, parts))
            rejected = (clean(get("validated")) or "").lower() == "rejected"
            text = plain(get("text"))
            if not isinstance(text, str | int | None):  # a table may hold a whole number
                raise TypeError
            return Utterance(
                row=row,
                id=id_,
                text=None if text is None else str(text),
                audio=get("audio"),
                speaker=speaker(
                    **{name: clean(get(name)) for name in _SPEAKER}, country_codes=country_codes
                ),
                start=_seconds(get("start")) or 0.0,
                seconds=_seconds(get("seconds")),
                refused="rejected" if rejected else None,
            )
    return Utterance(row=row, id=id_, text=None, audio=None, refused=f"malformed {reading}")


def _seconds(value: Any) -> float | None:
    if value is None or not str(value).strip():
        return None
    seconds = float(str(value).replace(",", "."))  # "0,5" in Danish tables
    if not 0 <= seconds < math.inf:
        raise ValueError
    return seconds
