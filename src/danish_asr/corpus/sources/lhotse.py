"""Lhotse's manifests: ``recordings`` and ``supervisions``, or ``cuts``, as JSON lines with gzip.

One utterance per supervision. Read by the format, without the package ``lhotse``.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.base.schema import SPLIT_ALIASES, SPLITS
from danish_asr.corpus.sources.base import SourceOptions
from danish_asr.corpus.sources.listed import ListedSource, Row, open_lists, resolve_audio

_UNCHANGED: Final = {"Resample"}  # transforms that leave times and voices as they are


def open_lhotse(where: str, options: SourceOptions) -> ListedSource:
    """Open a folder; cuts are read if there are no supervisions."""

    def split_of(path: PurePosixPath) -> str:
        tokens = re.split(r"[-_.]", path.name)
        named = [token for token in tokens if SPLIT_ALIASES.get(token, token) in SPLITS]
        return options.split_of(path.with_name(named[0]) if named else path)

    what = "supervisions with recordings, or cuts (*.jsonl.gz or *.jsonl)"
    return open_lists(where, options, _lists, _rows, _values, what=what, split_of=split_of)


def _lists(folder: Path) -> Iterator[Path]:
    paths = [*folder.glob("*.jsonl.gz"), *folder.glob("*.jsonl")]
    supervisions = [path for path in paths if "supervisions" in path.name]
    for path in supervisions:
        if not _recordings_of(path).is_file():
            raise SourceError(f"{path}: expected {_recordings_of(path).name} beside it")
    yield from supervisions or (path for path in paths if "cuts" in path.name)


def _recordings_of(path: Path) -> Path:
    return path.with_name(path.name.replace("supervisions", "recordings"))


def _rows(path: Path, start: int) -> Iterator[dict[str, Any]]:
    """Supervisions with their recording (or its id), in the times of the recording."""
    if "supervisions" in path.name:
        yield from _read_lines(path, start)
    else:
        rows = chain.from_iterable(map(_rows_of_cut, _read_lines(path)))
        yield from islice(rows, start, None)


def _rows_of_cut(cut: dict[str, Any]) -> Iterator[dict[str, Any]]:
    recording = cut.get("recording")
    if recording is None:
        what = cut.get("type", "cut without a recording")
        raise SourceError(f"cut {cut.get('id')} is a {what}; expected MonoCut with a recording")
    for supervision in cut.get("supervisions") or ():
        start = max(0.0, supervision["start"])
        end = min(cut["duration"], supervision["start"] + supervision["duration"])
        times = {"start": cut["start"] + start, "duration": end - start}
        yield supervision | times | {"recording": recording}


def _values(root: Path, name: str, row: dict[str, Any]) -> Row:
    folder = (root / name).parent
    recording = row.get("recording")
    if recording is None:
        recording = _read_recordings(_recordings_of(root / name)).get(row.get("recording_id"))
    sources = (recording or {}).get("sources") or [{}]
    transforms = {item.get("name") for item in (recording or {}).get("transforms") or ()}
    refused = None
    if len(sources) > 1 or len(sources[0].get("channels") or [0]) > 1:
        refused = "one channel of several"
    elif transforms - _UNCHANGED:
        refused = "transformed recording"
    elif sources[0].get("type", "file") != "file":
        refused = "audio outside of files"
    path = sources[0].get("source")
    return (row.get("custom") or {}) | {
        "id": row.get("id"),
        "text": row.get("text"),
        "audio": None if refused or not path else resolve_audio(path, folder),
        "start": row.get("start"),
        "seconds": row.get("duration"),
        "speaker_id": row.get("speaker"),
        "gender": row.get("gender"),
        "refused": refused,
    }


@lru_cache(maxsize=2)
def _read_recordings(path: Path) -> dict[Any, dict[str, Any]]:
    return {item.get("id"): item for item in _read_lines(path)}


def _read_lines(path: Path, start: int = 0) -> Iterator[dict[str, Any]]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in islice(enumerate(lines, 1), start, None):
                try:
                    item = json.loads(line)
                except ValueError:
                    item = None
                if not isinstance(item, dict):
                    raise SourceError(f"{path}: line {number} is not a JSON object")
                yield item
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"{path}: cannot be read ({error})") from error
