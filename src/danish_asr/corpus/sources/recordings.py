"""Recordings by their names: the file that a table or a transcript means, and texts beside them.

A name may lack its ending, be in another Unicode form than on the disk, as from a Mac, or be that
of a single file in some folder below the source.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from unicodedata import normalize

import pyarrow as pa
import pyarrow.compute as pc

from danish_asr.base.errors import AudioError, SourceError
from danish_asr.base.folders import Listing, is_audio, name_key, version_of
from danish_asr.corpus.rows import Audio, of_each, replaced
from danish_asr.corpus.sources.timed_files import TimedFile, read_timed


class TextFolder(Listing):
    """A folder with texts, in which a transcript is parsed once.

    Files in JSON have to be parsed to be recognised. Of those that are, the last one is kept.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._kept: dict[Path, TimedFile] = {}
        self._no_transcripts: set[Path] = set()

    def is_beside(self, path: Path) -> bool:
        """Whether a file lies beside a recording of its name."""
        return path.parent in self.recordings.get(name_key(path.stem), {})

    def is_text(self, path: Path) -> bool:
        """Whether a file has the text of a recording.

        A ``.txt`` has it beside its recording, and a ``.json`` there or if it is a transcript: one
        that was cut must not be lost.
        """
        suffix = path.suffix.lower()
        is_read = suffix not in {".txt", ".json"}
        return is_read or self.is_beside(path) or (suffix == ".json" and self.is_transcript(path))

    def is_transcript(self, path: Path) -> bool:
        """Whether a file is a transcript in JSON."""
        if path not in self._no_transcripts and path not in self._kept:
            if transcript := transcript_in(path):
                self._kept = {path: transcript}
            else:
                self._no_transcripts.add(path)
        return path in self._kept

    def read(self, path: Path) -> TimedFile:
        """Read a file as `read_timed` does."""
        return self._kept[path] if path in self._kept else read_timed(path)


def transcript_in(path: Path) -> TimedFile | None:
    """The transcript that a file in JSON holds, if it is one."""
    try:
        return read_timed(path)
    except SourceError:
        return None


_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z]{2,4})?|(?i:transcript)")
"""What follows the name in that of subtitles: ``da``, ``dan``, ``da-DK``; Zoom's ``transcript``."""


def stems_of(path: Path) -> list[str]:
    """The stems that a text's recording may have: anna.da.srt and anna.wav.srt are also of anna.

    So is Zoom's ``anna.transcript.vtt``. But ``anna.2.srt`` is only of ``anna.2``.
    """
    stem, _, last = path.stem.rpartition(".")
    is_shorter = stem and (is_audio(path.stem) or _LANGUAGE.fullmatch(last))
    return [path.stem, stem] if is_shorter else [path.stem]


def fetch_files(root: Path, rows: pa.Table) -> Iterator[Audio]:
    """Yield the paths of the recordings of rows, below ``root``."""
    for name, path in zip(rows["audio"].to_pylist(), rows["recording"].to_pylist(), strict=True):
        if name is None:
            yield None
        else:
            yield root / path if path else AudioError("several recordings of this name")


def versions_of_files(root: Path, rows: pa.Table) -> pa.Array:
    """The versions of the recordings of rows, below ``root``, as of now.

    One that was missing is looked for again, in a new listing.
    """
    files = Listing(root)
    return of_each(rows["recording"], lambda path: find_recording(files, path).version)


ELSEWHERE: Final = "recordings found in another folder than the source names"
SEVERAL: Final = "recordings that were chosen of several files"
"""What `Found` may have of note."""


class Found(NamedTuple):
    """The recording that a name means."""

    path: str | None  # below the root; the name itself if there is none, None if there are several
    version: str | None = None
    note: str = ""  # for people
    left_out: str = ""  # another recording of this name


def located(rows: pa.Table, files: Listing) -> tuple[pa.Table, dict[str, int]]:
    """The rows with the paths and versions of the recordings that they name; and counted notes."""
    paths, versions, notes = list[pa.Array](), list[pa.Array](), defaultdict[str, set[str]](set)
    for names in rows["audio"].chunks:
        encoded = names.dictionary_encode()
        found = [find_recording(files, name) for name in encoded.dictionary.to_pylist()]
        for own in found:
            if own.note:
                notes[own.note].add(f"{own.path}{own.left_out and f', not {own.left_out}'}")
        paths.append(pa.array([own.path for own in found], pa.string()).take(encoded.indices))
        versions.append(pa.array([own.version for own in found], pa.string()).take(encoded.indices))
    version = pc.coalesce(pa.chunked_array(versions, pa.string()), rows["version"])
    rows = replaced(rows, recording=pa.chunked_array(paths, pa.string()), version=version)
    return rows, {f"{note}, such as {min(own)}": len(own) for note, own in notes.items()}


def find_recording(files: Listing, name: str) -> Found:
    """Find a recording by its name: at that place, else alone of its name in some folder."""
    plain = name.strip().replace("\\", "/")  # written on Windows, or with spaces around it
    spellings = [name]
    if name != plain or not name.isascii():
        spellings += [plain, normalize("NFC", plain), normalize("NFD", plain)]
    for spelling in spellings:
        if version := version_of(_place(files, spelling)):
            return Found(spelling, version)
    if not files.recordings:
        return Found(name)
    last = plain.rpartition("/")[2]
    stem = last.rpartition(".")[0] if is_audio(last) else last
    places = files.recordings.get(name_key(stem), {})
    wanted = f"/{name_key(plain).lstrip('/')}"
    paths = [
        path
        for same in places.values()
        for path in same
        if any(name_key(str(own)).endswith(wanted) for own in (path, path.with_suffix("")))
    ]
    if not paths:
        return Found(name)
    if len({path.parent for path in paths}) > 1:
        return Found(None)
    place = os.path.normpath(Path(_place(files, plain)).parent)
    is_there = name_key(place) == name_key(str(paths[0].parent))
    note = ELSEWHERE if not is_there else SEVERAL if len(paths) > 1 else ""
    paths.sort(key=lambda path: path.stem != stem)  # of "Anna" and "anna" that which is named
    found, *others = [str(path.relative_to(files.root)) for path in paths]
    return Found(found, version_of(paths[0]), note, *others[:1])


def _place(files: Listing, name: str) -> str:
    """Where a name leads, without the cost of `Path` for each row."""
    return name if name.startswith("/") else files.prefix + name
