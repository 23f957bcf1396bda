"""The five test sets of RyeAI's Danish leaderboard as one source, a corpus for each of its columns.

Where they lie on the hub, and which splits and columns are scored, is as in the leaderboard's code
(github.com/Rye-A1/danish-asr-leaderboard, ``datasets.py`` and README, read in November 2026).
Mozilla's own Common Voice 17 has no Parquet on the hub.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

import pyarrow as pa

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources import base
from danish_asr.corpus.sources.location import locate
from danish_asr.corpus.sources.parquet import ParquetSource, open_coral, open_parquet_files
from danish_asr.corpus.sources.recognition import SourceKind, recognise

SETS: Final = {
    "coral_read_aloud": ("hf:CoRal-project/coral-v3:read_aloud", None),
    "coral_conversation": ("hf:CoRal-project/coral-v3:conversation", None),
    "cv17_da": ("hf:RyeAI/common-voice-25-da-test", ""),
    # Its "id" is that of a sentence, which several speakers read.
    "fleurs_da": ("hf:google/fleurs:da_dk@refs/convert/parquet", ""),
    "ftspeech": ("hf:alexandrainst/ftspeech", "utterance_id"),
}
"""The place on the hub, and the column of ids, empty if there is none; None for CoRal's own."""

_GENDERS: Final = {"0": "male", "1": "female", "2": "other"}
"""FLEURS's class labels."""


@dataclass(frozen=True, kw_only=True)
class ScoredSets(base.Source):
    """Several sources as one; a file's name and the ids begin with the name of its corpus."""

    parts: Mapping[str, base.Source]

    def read(self, file: base.SourceFile, start: int, stop: int) -> Iterator[base.Utterance]:
        """See `Source.read`."""
        for row in self.parts[file.corpus].read(_own(file), start, stop):
            gender = _GENDERS.get(row.speaker.gender or "", row.speaker.gender)
            speaker = replace(row.speaker, gender=gender)
            yield replace(row, id=f"{file.corpus}/{row.id}", speaker=speaker)

    def ids(self, file: base.SourceFile) -> pa.Array:
        """See `Source.ids`."""
        own = self.parts[file.corpus].ids(_own(file)).to_pylist()
        return pa.array([f"{file.corpus}/{id_}" for id_ in own], pa.string())

    def local_files(self, file: base.SourceFile) -> Iterator[Path]:
        """See `Source.local_files`."""
        return self.parts[file.corpus].local_files(_own(file))


def _own(file: base.SourceFile) -> base.SourceFile:
    return replace(file, name=file.name.partition("/")[2])


def open_leaderboard(
    where: str, options: base.SourceOptions, kinds: Mapping[str, SourceKind]
) -> ScoredSets:
    """Open ``FOLDER`` with a folder per set, ``hf`` for the hub, or ``FOLDER,hf`` for both."""
    names = options.corpus.split(",") if options.corpus else list(SETS)
    if options.columns or options.split or not set(names) <= set(SETS):
        raise SourceError(
            f"leaderboard: takes --corpus with some of {', '.join(SETS)} and commas between them, "
            "and neither --column nor --split"
        )
    folder, _, last = where.rpartition(",")
    on_hub = last == "hf"
    folder = folder if on_hub else where
    local = {name for name in names if folder and Path(folder, name).exists()}
    if not on_hub and (missing := [name for name in names if name not in local]):
        raise SourceError(
            f"{where}: no folder {', '.join(missing)}; put a copy of each test set there (Parquet, "
            "or a layout of `danish-asr convert --list`), read the others from the hub with "
            f"leaderboard:{where},hf, or name those to convert: --corpus "
            f"{','.join(sorted(local) or ['NAME'])}"
        )
    parts: dict[str, base.Source] = {}
    files: list[base.SourceFile] = []
    for name in names:
        place = Path(folder, name)
        hub = SETS[name][0]
        parts[name] = _open_local(name, place, kinds) if name in local else _open_parquet(name, hub)
        tests = [f for f in parts[name].files if f.split == "test" and f.corpus == name]
        if not any(file.rows for file in tests):
            raise SourceError(f"{place if name in local else hub}: no test split")
        files += [replace(file, name=f"{name}/{file.name}") for file in tests]
    return ScoredSets(name=where, files=tuple(files), parts=parts)


def _open_local(name: str, folder: Path, kinds: Mapping[str, SourceKind]) -> base.Source:
    kind = recognise(str(folder), kinds)
    if kind == "coral":
        return _open_parquet(name, str(folder))
    return kinds[kind].open(str(folder), base.SourceOptions(corpus=name))


def _open_parquet(name: str, where: str) -> ParquetSource:
    """Open the Parquet files of a set's test split."""
    id_column = SETS[name][1]
    if id_column is None:
        return open_coral(where, base.SourceOptions(), split="test")
    own = {**base.COLUMNS, "id": id_column}
    columns: dict[str, base.Columns] = {name: own}

    def corpus_of(found: list[str], path: str) -> str | None:
        if PurePosixPath(path).name.startswith("test_other"):  # FT Speech's second test set
            return None
        columns[name] = base.usual_columns(own, found)
        return name

    options = base.SourceOptions(corpus=name)
    location = locate(where)
    return open_parquet_files(where, location, columns, corpus_of, options, split="test")
