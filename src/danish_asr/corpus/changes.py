"""How a conversion finds that its source has changed: by size and time, and then by content.

The state of every local file is compared when a conversion starts, continues and completes.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import count, groupby
from pathlib import Path
from stat import S_ISDIR
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.shard import Record
from danish_asr.corpus.sources.base import Source, SourceFile
from danish_asr.corpus.tasks import ShardTask, digest

_NO_FILE: Final = (-1, -1, 0)


class SourceState(NamedTuple):
    """The state of a source and of the options that it is converted with."""

    key: str  # digest of all that decides the bytes of a dataset
    identities: NDArray[np.int64]  # of each local file: changes with its inode and its status


def state_of(source: Source, options: ConvertOptions) -> SourceState:
    """Look at all files of a source.

    Size and time of change of local files, external audio included, are part of the key.
    """
    files, identities = [], array("q")
    for file in source.files:
        sizes_and_times = array("q")
        for path in _local_files(source, file):
            size, time, identity = _status(path)
            sizes_and_times.extend((size, time))
            identities.append(identity)
        local = hashlib.sha256(sizes_and_times).hexdigest()
        files.append((file.name, file.corpus, file.split, file.fingerprint, local))
    chosen = asdict(options)
    del chosen["max_drop"]  # decides whether there is a dataset, not what is in it
    return SourceState(digest([chosen, source.options, files]), np.frombuffer(identities, np.int64))


def to_text(identities: NDArray[np.int64]) -> str:
    """What `from_text` reads."""
    return identities.tobytes().hex()


def from_text(text: str) -> NDArray[np.int64]:
    """The identities of a `SourceState`."""
    return np.frombuffer(bytes.fromhex(text), np.int64)


def exchanged_files(
    source: Source,
    differ: NDArray[np.bool_],
    done: Iterable[tuple[ShardTask, Record]],
    convert: Callable[..., Record],
    scratch: Path,
) -> list[Path]:
    """Files of the same size and time that have another content than when they were read.

    ``differ`` says where the identities do. A copy or a backup can be the reason too, so what is
    read from these files is converted again, below ``scratch``: the sha256 of a shard stands for
    the content that was read.
    """
    places, number = {*np.flatnonzero(differ).tolist()}, count()
    suspected: dict[str, set[Path]] = {}
    for file in source.files if places else ():
        paths = {path for path in _local_files(source, file) if next(number) in places}
        if paths:
            suspected[file.name] = paths
    tasks = [(task, record, _audio_of(source, task, suspected)) for task, record in done]
    audio = set[Path]().union(*(own for _, _, own in tasks))
    exchanged: set[Path] = set()
    for task, record, own in tasks:
        names = {part.file.name for part in task.slices} & suspected.keys()
        lists = set[Path]().union(*(suspected[name] for name in names)) - audio
        if paths := lists | own:
            with TemporaryDirectory(dir=scratch) as root:
                if convert(task, root=Path(root)) != record:
                    exchanged |= paths
    return sorted(exchanged)


def _audio_of(source: Source, task: ShardTask, suspected: Mapping[str, set[Path]]) -> set[Path]:
    """Those of the suspected files that are the audio of a task's rows."""
    found: set[Path] = set()
    for part in task.slices:
        if paths := suspected.get(part.file.name):
            rows = source.read(part.file, part.start, part.stop)
            found |= paths.intersection(row.audio for row in rows if isinstance(row.audio, Path))
    return found


def _local_files(source: Source, file: SourceFile) -> Iterator[Path]:
    """The local files of a source file, once each if the rows of a recording are neighbours."""
    return (path for path, _ in groupby(source.local_files(file)))


def _status(path: Path) -> tuple[int, int, int]:
    """Size, time of change, and what also changes if another file takes the place of this one."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return _NO_FILE
    if S_ISDIR(status.st_mode):  # named as audio; what is written into it is no change
        return _NO_FILE
    return status.st_size, status.st_mtime_ns, hash((status.st_ino, status.st_ctime_ns))
