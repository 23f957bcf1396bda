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
from danish_asr.corpus.sources.parquet import FileKind, open_coral, open_parquet_files

SETS: Final = {
    "coral_read_aloud": "hf:CoRal-project/coral-v3:read_aloud",
    "coral_conversation": "hf:CoRal-project/coral-v3:conversation",
    "cv17_da": "hf:RyeAI/common-voice-25-da-test",
    "fleurs_da": "hf:google/fleurs:da_dk@refs/convert/parquet",
    "ftspeech": "hf:alexandrainst/ftspeech",
}
"""Each test set's dataset on the hub."""

_PARQUET: Final = {"coral", "hf-parquet"}

_GENDERS: Final = {"0": "male", "1": "female", "2": "other"}
"""FLEURS's class labels."""


@dataclass(frozen=True, kw_only=True)
class LeaderboardSource(base.Source):
    """Several sources as one; a file's name and the ids begin with the name of its corpus."""

    parts: Mapping[str, base.Source]

    def read(self, file: base.SourceFile, start: int, stop: int) -> Iterator[base.Utterance]:
        """See `Source.read`."""
        for row in self.parts[file.corpus].read(_in_part(file), start, stop):
            gender = _GENDERS.get(row.speaker.gender or "", row.speaker.gender)
            speaker = replace(row.speaker, gender=gender)
            yield replace(row, id=f"{file.corpus}/{row.id}", speaker=speaker)

    def ids(self, file: base.SourceFile) -> pa.Array:
        """See `Source.ids`."""
        ids = self.parts[file.corpus].ids(_in_part(file)).to_pylist()
        return pa.array([f"{file.corpus}/{id_}" for id_ in ids], pa.string())

    def local_files(self, file: base.SourceFile) -> Iterator[Path]:
        """See `Source.local_files`."""
        return self.parts[file.corpus].local_files(_in_part(file))


def _in_part(file: base.SourceFile) -> base.SourceFile:
    return replace(file, name=file.name.removeprefix(f"{file.corpus}/"))


def open_leaderboard(location: str, options: base.SourceOptions) -> LeaderboardSource:
    """Open ``FOLDER`` with a folder per set, ``hf`` for the hub, or ``FOLDER,hf`` for both."""
    names = options.corpus.split(",") if options.corpus else list(SETS)
    if options.columns or options.split or not set(names) <= set(SETS):
        raise SourceError(
            f"leaderboard: takes --corpus with some of {', '.join(SETS)} and commas between them, "
            "and neither --column nor --split"
        )
    folder, _, ending = location.rpartition(",")
    on_hub = ending == "hf"
    if not on_hub:
        folder = location
    parts: dict[str, base.Source] = {}
    files: list[base.SourceFile] = []
    for name in names:
        own_location = str(Path(folder, name))
        if not folder or not Path(own_location).exists():
            if not on_hub:
                raise SourceError(
                    f"{location}: no folder {name}; put a copy of the test set there, read it from "
                    f"the hub with leaderboard:{location},hf, or name the sets with --corpus"
                )
            own_location = SETS[name]
        parts[name] = _open_set(name, own_location)
        tests = [f for f in parts[name].files if f.split == "test" and f.corpus == name]
        if not any(file.rows for file in tests):
            raise SourceError(f"{own_location}: no test split")
        files += [replace(file, name=f"{name}/{file.name}") for file in tests]
    return LeaderboardSource(name=location, files=tuple(files), parts=parts)


def _open_set(name: str, location: str) -> base.Source:
    # The package imports this module for its table.
    from danish_asr.corpus.sources import open_source, resolve_source  # noqa: PLC0415

    options = base.SourceOptions(corpus=name)
    if not location.startswith("hf:") and resolve_source(location).kind not in _PARQUET:
        return open_source(location, options)
    if name.startswith("coral_"):
        return open_coral(location, base.SourceOptions(), split="test")
    # FLEURS's "id" is that of a sentence, which several speakers read; Common Voice has none.
    columns = base.COLUMNS | {"id": "utterance_id" if name == "ftspeech" else ""}

    def kind_of(names: list[str], path: str) -> FileKind | None:
        if PurePosixPath(path).name.startswith("test_other"):  # FT Speech's second test set
            return None
        return FileKind(name, base.usual_columns(columns, names))

    listing = base.FileListing(location, options, "Parquet files")
    return open_parquet_files(listing, locate(location), kind_of, split="test")
