"""An index over upstream's manifests: ``<split>.tsv`` with audio files, ``<split>.wrd`` with texts.

The first line of the TSV is the audio's directory; each other line is a path below it, a tab and
the number of samples. A path may be ``file:offset:size``, a slice of an uncompressed archive, as
fairseq2's ``FileMapper`` reads it. Line n of the ``.wrd`` file is the text of row n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from danish_asr.data.audio_source import OpenFiles
from danish_asr.data.index import Index, Partition
from danish_asr.data.packed_strings import PackedStrings
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
    """The rows of ``<split>.tsv`` with the texts of ``<split>.wrd``; the audio is not touched.

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
    unknown = pa.nulls(len(rows), pa.dictionary(pa.int32(), pa.string()))
    partition = Partition(directory.resolve().name, LANGUAGE)
    return Index(
        name=split,
        split=split,
        lengths=np.array([length for _, length in rows], np.int32),
        partition_of=np.zeros(len(rows), np.int16),
        # Each row is a file of its own, so the stream may be shuffled row by row.
        block_of=np.arange(len(rows), dtype=np.int32),
        ids=PackedStrings.pack(pa.array([path for path, _ in rows], pa.string())),
        texts=PackedStrings.pack(pa.array(texts, pa.string())),
        metadata=pa.table(dict.fromkeys(METADATA_COLUMNS, unknown)),
        partitions=(partition,),
        known_partitions=frozenset([partition]),
        audio=FileAudio.of(Path(root), [path for path, _ in rows]),
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
    """Audio files, or slices of files; a size of -1 is the whole file."""

    paths: tuple[Path, ...]
    begins: NDArray[np.int64]
    sizes: NDArray[np.int64]
    files: OpenFiles

    @classmethod
    def of(cls, root: Path, names: Sequence[str]) -> FileAudio:
        """The audio of a manifest's paths."""
        places = [_place(root, name) for name in names]
        paths = tuple(path for path, _, _ in places)
        return cls(
            paths=paths,
            begins=np.array([begin for _, begin, _ in places], np.int64),
            sizes=np.array([size for _, _, size in places], np.int64),
            files=OpenFiles(paths),
        )

    def read(self, row: int) -> bytes:
        """One row's file content; thread-safe.

        Raises:
            DatasetError: The bytes cannot be read.
        """
        try:
            if self.sizes[row] < 0:
                return self.paths[row].read_bytes()
            return self.files.read(row, int(self.begins[row]), int(self.sizes[row]))
        except (OSError, ValueError) as error:
            raise DatasetError(f"{self.describe(row)}: cannot be read ({error})") from error

    def describe(self, row: int) -> str:
        """The file, and the slice of it, for messages."""
        if self.sizes[row] < 0:
            return str(self.paths[row])
        return f"{self.paths[row]}, {self.sizes[row]} bytes from {self.begins[row]}"

    def take(self, rows: NDArray[np.integer[Any]]) -> FileAudio:
        """A source for these rows, renumbered from 0."""
        paths = tuple(self.paths[row] for row in rows)
        return FileAudio(paths, self.begins[rows], self.sizes[rows], OpenFiles(paths))


def _place(root: Path, name: str) -> tuple[Path, int, int]:
    parts = name.rsplit(":", 2)
    if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
        return root / parts[0], int(parts[1]), int(parts[2])
    return root / name, 0, -1
