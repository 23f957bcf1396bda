"""Recordings by their names: the file that a table or a transcript means.

A name may lack its ending, be in another Unicode form than on the disk, as from a Mac, or be that
of a single file in some folder below the source.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from unicodedata import normalize

import pyarrow as pa

from danish_asr.base.errors import AudioError
from danish_asr.base.folders import Listing, is_audio, name_key, version_of
from danish_asr.corpus.rows import Audio, of_each


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

    def version(path: str) -> str | None:
        return version_of(root / path) or version_of(root / (find_recording(files, path) or path))

    return of_each(rows["recording"], version)


def paths_of(rows: pa.Table, files: Listing) -> pa.Array:
    """The paths of the recordings that rows name, as `find_recording` finds them."""
    return of_each(rows["audio"], lambda name: find_recording(files, name))


def find_recording(files: Listing, name: str) -> str | None:
    """The path of a recording below the root; the name itself if there is none, None of several."""
    plain = name.strip().replace("\\", "/")  # written on Windows, or with spaces around it
    spellings = (name, plain, normalize("NFC", plain), normalize("NFD", plain))
    for spelling in dict.fromkeys(spellings):
        place = os.path.join(files.root, spelling)  # noqa: PTH118 - for millions of rows
        if os.path.isfile(place):  # noqa: PTH113 - no error for impossible names
            return spelling
    path = Path(plain)
    stem = path.stem if is_audio(plain) else path.name
    wanted = f"/{name_key(plain).lstrip('/')}"
    paths = [
        other
        for same in files.recordings.get(name_key(stem), {}).values()
        for other in same
        if any(name_key(str(own)).endswith(wanted) for own in (other, other.with_suffix("")))
    ]
    if len({other.parent for other in paths}) > 1:
        return None
    return str(paths[0].relative_to(files.root)) if paths else name
