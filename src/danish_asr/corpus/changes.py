"""How a conversion finds that its source has changed: by the size and time of all local files.

They are compared when a conversion starts, continues and completes.
"""

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from stat import S_ISDIR
from typing import Final

from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.sources.base import Source, SourceFile
from danish_asr.corpus.tasks import digest

_NO_FILE: Final = (-1, -1)


def key_of(source: Source, options: ConvertOptions) -> str:
    """A digest of all that decides the bytes of a dataset; looks at all files of the source.

    Size and time of change of local files, external audio included, are part of it.
    """
    files = []
    for file in source.files:
        sizes_and_times = array("q")
        for path in _local_files(source, file):
            sizes_and_times.extend(_size_and_time(path))
        local = hashlib.sha256(sizes_and_times).hexdigest()
        files.append((file.name, file.corpus, file.split, file.fingerprint, local))
    chosen = asdict(options)
    del chosen["max_drop"]  # decides whether there is a dataset, not what is in it
    return digest([chosen, source.options, files])


def _local_files(source: Source, file: SourceFile) -> Iterator[Path]:
    """The local files of a source file, once each if the rows of a recording are neighbours."""
    return (path for path, _ in groupby(source.local_files(file)))


def _size_and_time(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return _NO_FILE
    if S_ISDIR(status.st_mode):  # named as audio; what is written into it is no change
        return _NO_FILE
    return status.st_size, status.st_mtime_ns
