"""What a corpus gives to conversion: files, and their rows as utterances."""

import atexit
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

import pyarrow as pa

from danish_asr.base.errors import SourceError
from danish_asr.base.schema import SPLIT_ALIASES, SPLITS

Columns = Mapping[str, str]
"""Our names of columns, and the corpus's. That of ``id`` may be several, separated by commas."""

SPEAKER_COLUMNS: Final = ("speaker_id", "dialect", "age", "gender", "country_birth")

COLUMNS: Final = {name: name for name in ("text", "audio", "id", *SPEAKER_COLUMNS, "validated")} | {
    "start": "",
    "seconds": "",
    "end": "",
    "channel": "",
}
"""The names by default. Only text and audio are required. ``start`` and ``seconds``, or else
``end``, cut an utterance out of its audio, ``channel`` (from 1) takes one of its channels; rows
with "rejected" in ``validated`` are dropped."""

_PATH_NAMES: Final = (
    "audio_filepath path audio_path file filename file_name wav wav_filename lydfil"
)

USUAL_NAMES: Final = {
    "audio": ("audio", *_PATH_NAMES.split()),
    "text": ("sentence", "transcript", "transcription", "tekst"),
    "speaker_id": ("speaker", "client_id", "taler"),
    "dialect": ("accent", "accents", "dialekt"),
    "age": ("alder",),
    "gender": ("sex", "speaker_gender", "køn"),
    "start": ("start_time",),
    "end": ("end_time",),
}
"""Other names that corpora use for our columns, in lower case; the first that is there is taken."""

AUDIO_SUFFIXES: Final = (
    *(".wav", ".flac", ".mp3", ".ogg", ".opus", ".aif", ".aiff"),
    *(".m4a", ".mp4", ".aac", ".webm", ".wma"),
)

_ROWS_TOGETHER: Final = 100

_Raw = TypeVar("_Raw")

_reading: dict[Hashable, tuple[int, Iterator[Any]]] = {}  # in this process; at most one
atexit.register(_reading.clear)  # a generator cannot close its file when modules are gone


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
class Speaker:
    """Metadata of a speaker; None where the corpus has no value."""

    speaker_id: str | None = None
    dialect: str | None = None
    sub_dialect: str | None = None
    age: int | None = None
    age_group: str | None = None
    gender: str | None = None
    country_birth: str | None = None
    unread_age: str | None = None  # a value that is no number of years
    country: str | None = None  # what ``country_birth`` was read as; see `metadata.country_of`


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
    whole: bool = False  # no start: the file is meant, and what ``seconds`` leaves of it is listed
    channel: int | None = None  # from 1; None for their mean
    refused: str | None = None  # why the corpus itself excludes the row


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """A corpus that can be converted. It is sent to worker processes, so it must pickle."""

    name: str  # what the user typed
    files: tuple[SourceFile, ...]  # in an order that does not depend on the machine
    notes: tuple[str, ...] = ()  # for people: what is not read
    options: tuple[object, ...] = ()  # that decide what is read; `open_source` sets them

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
    """``--corpus``, ``--column`` (``OURS=THEIRS``), ``--split`` and ``--tier``."""

    corpus: str | None = None
    columns: tuple[str, ...] = ()
    split: str | None = None
    tiers: tuple[str, ...] = ()  # names or patterns, of files with timed text
    # What the defaults depend on; these are no options of the source.
    name: str | None = field(default=None, compare=False)  # of the card
    by_speaker: bool = field(default=False, compare=False)  # rows are divided by speaker later

    @property
    def decisive(self) -> tuple[object, ...]:
        """The options that decide what is read."""
        return self.corpus, self.columns, self.split, self.tiers

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
            if ours not in COLUMNS or not (theirs or ours in {"start", "seconds", "end"}):
                raise SourceError(
                    f"--column {assignment}: expected OURS=THEIRS, OURS one of {', '.join(COLUMNS)}"
                )
            columns[ours] = theirs
        return columns

    def split_of(self, path: PurePosixPath) -> str:
        """The split of a file: ``split``, or from its name or a folder above it.

        Where they say none, all rows are ``train`` until they are divided by speaker.
        """
        if self.split is not None:
            split = SPLIT_ALIASES.get(self.split, self.split)
            choices = ("train",) if self.by_speaker else SPLITS  # else --split-by-speaker divides
            if split not in choices:
                raise SourceError(f"--split {split}: expected one of {', '.join(choices)}")
            return split
        for part in (path.name, *reversed(path.parent.parts)):
            beginning = re.split("[-_.]", part.lower())[0]
            split = SPLIT_ALIASES.get(beginning, beginning)
            if split in SPLITS:
                return split
        if self.by_speaker:
            return "train"
        raise SourceError(
            f"{path}: cannot infer the split; expected a file name that begins with "
            f"{', '.join((*SPLITS, *SPLIT_ALIASES))}, or --split train, or --split-by-speaker "
            "80/10/10"
        )


def row_groups(rows: int) -> tuple[int, ...]:
    """Cut a file without row groups into parts of a hundred rows."""
    starts = range(0, rows, _ROWS_TOGETHER)
    return tuple(min(_ROWS_TOGETHER, rows - start) for start in starts)


def read_on(
    key: Hashable, rows: Callable[[int], Iterator[_Raw]], start: int, stop: int
) -> Iterator[_Raw]:
    """Yield ``rows(0)`` from ``start`` to ``stop - 1``, and go on there with the next call.

    Shards that are read in their order then cost one pass over a file without row groups, and not
    one each. ``key`` names the file and its content.
    """
    position, remaining = _reading.pop(key, (stop, None))
    if remaining is None or position > start:
        position, remaining = start, rows(start)
    yield from islice(remaining, start - position, stop - position)
    _reading.clear()
    _reading[key] = stop, remaining


def split_path(root: Path, name: str) -> PurePosixPath:
    """A file's path for `SourceOptions.split_of`, with its root's name if that is a split's."""
    is_split = root.name.lower() in {*SPLITS, *SPLIT_ALIASES}
    return PurePosixPath(root.name, name) if is_split else PurePosixPath(name)


def fingerprint(path: Path) -> str:
    """Size and time of change of a local file."""
    status = path.stat()
    return f"{status.st_size}-{status.st_mtime_ns}"


def usual_columns(
    columns: Columns, names: Collection[str], default: Columns = COLUMNS
) -> dict[str, str]:
    """The columns, with usual names for those of which only the default is known and is missing.

    Capitals and spaces for "_" do not matter. A column without a default, such as a time in
    `COLUMNS`, stays unknown.
    """
    renamed, by_lower_case = dict(columns), {name.lower().replace(" ", "_"): name for name in names}
    for ours, theirs in columns.items():
        if theirs and theirs == default[ours] and theirs not in names:
            for other in (theirs, ours, *USUAL_NAMES.get(ours, ())):
                if other in by_lower_case:
                    renamed[ours] = by_lower_case[other]
                    break
    return renamed


def check_required(file: str, names: Collection[str], columns: Columns) -> None:
    """Raise `SourceError` if a file lacks the column of text or that of audio."""
    for ours in ("text", "audio"):
        if columns[ours] in names:
            continue
        shown = ", ".join(name[:60] for name in list(names)[:20])
        advice = f"Name yours: --column {ours}=COLUMN"
        usual = {*COLUMNS, *chain.from_iterable(USUAL_NAMES.values())}
        if usual.isdisjoint(map(str.lower, names)):
            advice = (
                "If its first line is a row, write a header above it, such as path,text,speaker "
                f"(for LJ Speech path|raw|text). Otherwise name yours: --column {ours}=COLUMN"
            )
        raise SourceError(f"{file}: no column {columns[ours]}; found the columns {shown}. {advice}")


@dataclass
class FileListing:
    """The files of a source that is being opened; each is checked when it is added."""

    location: str
    options: SourceOptions
    what: str  # what the files are, for the message if there are none
    files: list[SourceFile] = field(default_factory=list)
    names: dict[str, None] = field(default_factory=dict)  # of all files' columns, in order
    read: set[str] = field(default_factory=set)

    def add(
        self, file: SourceFile, names: Collection[str], columns: Columns, *also_read: str
    ) -> None:
        """Add a file with the ``names`` of its columns; raises if it lacks text or audio."""
        if file.rows:
            check_required(file.name, names, columns)
        self.files.append(file)
        self.names |= dict.fromkeys(names)
        self.read.update(also_read, ",".join(columns.values()).split(","))

    def checked(self) -> tuple[SourceFile, ...]:
        """All files; raises if there are no rows, or if no file has a column of ``--column``."""
        if not any(file.rows for file in self.files):
            reason = "no rows in the" if self.files else "found no"
            raise SourceError(f"{self.location}: {reason} {self.what}")
        requested = ",".join(pair.partition("=")[2] for pair in self.options.columns)
        missing = [name for name in requested.split(",") if name and name not in self.names]
        if missing:
            raise SourceError(
                f"--column: no file has {', '.join(missing)}; found {', '.join(self.names)}"
            )
        return tuple(self.files)

    def notes(self) -> tuple[str, ...]:
        """A line for people about columns that are not read, if there are any."""
        unread = (name for name in self.names if not name or name not in self.read)
        ignored = [name or "a column without a name" for name in unread]
        if not ignored:
            return ()
        read = ", ".join(name for name in self.names if name and name in self.read)
        return (f"read {read}; ignored {', '.join(ignored)} (--column OURS=THEIRS takes one)",)
