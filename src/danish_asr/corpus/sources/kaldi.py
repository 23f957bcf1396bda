"""Kaldi's data folders: ``text`` and ``wav.scp``, and perhaps segments, speakers and channels.

Each folder with both files is a list. Commands in ``wav.scp`` are not run.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from danish_asr.base.audio import AudioError, open_audio
from danish_asr.base.errors import SourceError
from danish_asr.base.files import walk
from danish_asr.base.tables import read_lines
from danish_asr.corpus.sources.base import Source, SourceOptions
from danish_asr.corpus.sources.listed import Values, open_lists

_TABLES = ("wav.scp", "segments", "utt2spk", "spk2gender", "reco2file_and_channel")
_CHANNELS = {"A": 1, "B": 2, "1": 1, "2": 2}


def open_kaldi(location: str, options: SourceOptions) -> Source:
    """Open a data folder, or a folder of several."""
    options = replace(options, columns=("channel=channel", *options.columns))
    return open_lists(
        location, options, _lists, _rows, _values, what="text beside wav.scp, as Kaldi has them"
    )


def _lists(folder: Path) -> Iterator[Path]:
    for parent, names in walk(folder):
        if {"text", "wav.scp"} <= {*names}:
            yield parent / "text"


def _rows(path: Path, start: int) -> list[dict[str, Any]]:
    audio, segments, speakers, genders, sides = (_table(path.with_name(name)) for name in _TABLES)
    sided = {name for side in sides.values() for name in (side or "").split()[:1]}
    rows = []
    for id_, text in _pairs(path)[start:]:
        segment, speaker = segments.get(id_, id_), speakers.get(id_)
        recording, *times = (segment or "").split() or [id_]
        twice = None in (segment, speakers.get(id_, ""), audio.get(recording, ""))
        refused = "no segment" if segments and id_ not in segments else None
        rows.append(
            {
                "id": id_,
                "text": text,
                "recording": audio.get(recording) or "",
                "sided": recording in sides or recording in sided,
                "channel": _CHANNELS.get("".join((sides.get(recording) or "").split()[1:])),
                "start": times[0] if len(times) == 2 else None,
                "end": times[1] if len(times) == 2 else None,
                "speaker_id": speaker,
                "gender": genders.get(speaker or ""),
                "refused": "duplicate id" if twice else refused,
            }
        )
    return rows


def _table(path: Path) -> dict[str, str | None]:
    """The keys and values of one of Kaldi's files; None for a key with several values."""
    table: dict[str, str | None] = {}
    for key, value in _pairs(path) if path.is_file() else ():
        table[key] = value if table.get(key, value) == value else None
    return table


def _pairs(path: Path) -> list[tuple[str, str]]:
    lines = (line.split(maxsplit=1) for line in read_lines(path, SourceError))
    return [(key, "".join(value).strip()) for key, *value in filter(None, lines)]


def _values(root: Path, name: str, row: dict[str, Any]) -> Values:
    folder, recording = (root / name).parent, row["recording"]
    values = row | {"audio": None}
    for table in _TABLES:
        if (folder / table).is_file():
            values[f"{table}_file"] = folder / table
    if recording.endswith("|"):
        return values | {"refused": "a command in wav.scp"}
    if not recording:
        return values
    try:
        seconds = None if row["end"] is None else float(row["end"]) - float(row["start"])
    except ValueError:
        return values | {"refused": "malformed segments"}
    beside = folder / recording
    audio = beside if beside.is_file() or not Path(recording).is_file() else Path(recording)
    values |= {"audio": audio.resolve(), "seconds": seconds}
    if not row["sided"] or _channels(values["audio"]) < 2:  # the sides are in files of their own
        return values | {"channel": None}
    return values if row["channel"] else values | {"refused": row["refused"] or "no known channel"}


@lru_cache(maxsize=64)
def _channels(audio: Path) -> int:
    try:
        with open_audio(audio) as file:
            return int(file.channels)
    except (AudioError, SourceError, RuntimeError):  # said where it is decoded
        return 1
