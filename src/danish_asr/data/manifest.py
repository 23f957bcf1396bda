"""An index over upstream's manifests: ``<split>.tsv`` with audio files, ``<split>.wrd`` with texts.

The first line of the TSV is the audio's directory; each other line is a path below it, a tab and
the number of samples. A path may be ``file:offset:size``, a slice of an uncompressed archive, as
fairseq2's ``FileMapper`` reads it. Line n of the ``.wrd`` file is the text of row n.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from danish_asr.data.audio_source import OpenFiles
from danish_asr.data.index import Index
from danish_asr.data.shards import Partition
from danish_asr.errors import DatasetError
from danish_asr.schema import LANGUAGE, METADATA_COLUMNS


def manifest_splits(directory: Path) -> list[str]:
    """The splits of a manifest directory.

    Raises:
        DatasetError: There is no such directory, or no manifest in it.
    """
    names = sorted(path.stem for path in directory.glob("*.tsv"))
    if not names:
        raise DatasetError(f"{directory}: no manifest found; expected <split>.tsv and <split>.wrd")
    return names


def read_manifest(directory: Path, split: str) -> Index:
    """The rows of ``<split>.tsv`` with the texts of ``<split>.wrd``; the audio is not read.

    Ids are the paths of the TSV, the corpus is named after the directory, metadata is unknown.

    Raises:
        DatasetError: No such split (the message names those that exist), or a file breaks the
            format described above.
    """
    known = manifest_splits(directory)
    if split not in known:
        raise DatasetError(f"split '{split}' has no manifest; {directory} has: {', '.join(known)}")
    tsv, wrd = directory / f"{split}.tsv", directory / f"{split}.wrd"
    root, *lines = _lines(tsv) or [""]
    if not root or not Path(root).is_dir():
        raise DatasetError(f"{tsv}:1: expected the directory of the audio, found '{root}'")
    texts = _lines(wrd)
    if len(texts) != len(lines) or not lines:
        raise DatasetError(
            f"{wrd}: expected one text per row of {tsv.name} ({len(lines)}), found {len(texts)}"
        )
    rows = [_parse(line, f"{tsv}:{number}") for number, line in enumerate(lines, start=2)]
    columns: dict[str, list[Any]] = {"id": [path for path, _ in rows], "text": texts}
    columns |= dict.fromkeys(METADATA_COLUMNS, [None] * len(rows))
    partition = Partition(directory.resolve().name, LANGUAGE)
    return Index(
        name=split,
        split=split,
        table=pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()}),
        lengths=np.array([length for _, length in rows], np.int32),
        partition_of=np.zeros(len(rows), np.int16),
        # Each row is a file of its own, so rows may be shuffled one by one.
        row_group_of=np.arange(len(rows), dtype=np.int32),
        partitions=(partition,),
        known_partitions=frozenset([partition]),
        audio=FileAudio([_slice(Path(root), path) for path, _ in rows]),
    )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: cannot be read ({error})") from error


def _parse(line: str, where: str) -> tuple[str, int]:
    path, _, length = line.rstrip("\r").partition("\t")
    if not path or not length.strip().isdecimal():
        raise DatasetError(f"{where}: expected <path><tab><samples>, found '{line}'")
    return path, int(length)


@dataclass(frozen=True, eq=False)
class FileAudio:
    """Audio files, or slices of files: path, first byte and size, -1 for the whole file."""

    slices: list[tuple[Path, int, int]]
    files: OpenFiles = field(default_factory=OpenFiles)

    def read(self, row: int) -> bytes:
        """One row's file content; thread-safe.

        Raises:
            DatasetError: The bytes cannot be read.
        """
        path, begin, size = self.slices[row]
        try:
            return path.read_bytes() if size < 0 else self.files.read(path, begin, size)
        except (OSError, ValueError) as error:
            raise DatasetError(f"{self.describe(row)}: cannot be read ({error})") from error

    def describe(self, row: int) -> str:
        """The file, and the slice of it, for messages."""
        path, begin, size = self.slices[row]
        return str(path) if size < 0 else f"{path}, {size} bytes from {begin}"

    def take(self, rows: NDArray[np.integer[Any]]) -> FileAudio:
        """A source for these rows, renumbered from 0."""
        return FileAudio([self.slices[row] for row in rows], self.files)


def _slice(root: Path, name: str) -> tuple[Path, int, int]:
    parts = name.rsplit(":", 2)
    if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
        return root / parts[0], int(parts[1]), int(parts[2])
    return root / name, 0, -1
