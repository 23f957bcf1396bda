"""The names of a corpus's columns, and the checks of its files while it is opened."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources.base import COLUMNS, Columns, SourceFile, SourceOptions

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


def usual_columns(
    columns: Columns, names: Collection[str], default: Columns = COLUMNS
) -> dict[str, str]:
    """The columns, with usual names for those of which only the default is known and is missing.

    Capitals do not matter. A column without a default, such as a time in `COLUMNS`, stays unknown.
    """
    usual, by_lower_case = dict(columns), {name.lower(): name for name in names}
    for ours, theirs in columns.items():
        if theirs and theirs == default[ours] and theirs not in names:
            for other in (theirs, ours, *USUAL_NAMES.get(ours, ())):
                if other in by_lower_case:
                    usual[ours] = by_lower_case[other]
                    break
    return usual


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
        self,
        file: SourceFile,
        names: Collection[str],
        columns: Columns,
        also_read: Iterable[str] = (),
    ) -> None:
        """Add a file with the ``names`` of its columns; raises if it lacks text or audio."""
        missing = [ours for ours in ("text", "audio") if columns[ours] not in names]
        if file.rows and missing:
            # If two are missing, nobody knows which column is which.
            unused = [name for name in names if name not in columns.values()]
            theirs = unused[0] if unused and len(missing) == 1 else "COLUMN"
            example = " ".join(f"--column {ours}={theirs}" for ours in missing)
            lacks = " and no column ".join(columns[ours] for ours in missing)
            raise SourceError(
                f"{file.name}: no column {lacks}; found the columns {', '.join(names)}. "
                f"Map yours, such as {example}"
            )
        self.files.append(file)
        self.names |= dict.fromkeys(names)
        self.read.update(also_read)
        for theirs in columns.values():
            self.read.update(theirs.split(","))

    def checked(self) -> tuple[SourceFile, ...]:
        """All files; raises if there are no rows, or if no file has a column of ``--column``."""
        if not any(file.rows for file in self.files):
            reason = "no rows in the" if self.files else "found no"
            raise SourceError(f"{self.location}: {reason} {self.what}")
        requested = [pair.partition("=")[2] for pair in self.options.columns]
        missing = [name for name in ",".join(requested).split(",") if name not in self.names]
        if requested and missing:
            raise SourceError(
                f"--column: no file has {', '.join(missing)}; found {', '.join(self.names)}"
            )
        return tuple(self.files)

    def notes(self) -> tuple[str, ...]:
        """A line for people about columns that are not read, if there are any."""
        ignored = [name for name in self.names if name and name not in self.read]
        if not ignored:
            return ()
        read = ", ".join(name for name in self.names if name in self.read)
        return (f"read {read}; ignored {', '.join(ignored)} (--column OURS=THEIRS takes one)",)
