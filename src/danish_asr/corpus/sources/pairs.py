"""A folder of recordings with a text file for each: ``0001.wav`` and ``0001.txt``.

The names of a recording's folders are the columns ``folder`` and ``folder_above``, so ``--column
speaker_id=folder`` makes speakers of folders; ``--split-by-speaker`` does so too.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from unicodedata import normalize

from danish_asr.base.errors import SourceError
from danish_asr.base.files import decode_line
from danish_asr.base.folders import AUDIO_SUFFIXES, walk
from danish_asr.base.schema import SPLIT_ALIASES, SPLITS
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.rows import Source, check_chosen, table_of, values_of
from danish_asr.corpus.sources.recordings import fetch_files

TEXTS: Final = (".txt", ".TXT", ".lab")  # the last one of the Montreal Forced Aligner

_COLUMNS: Final = ("folder", "folder_above", "file")
_LABELS: Final = re.compile(r"\d+([.,]\d+)?\s+\d+([.,]\d+)?\s+\S")


def open_pairs(location: str, options: ConvertOptions) -> Source:
    """Read a folder and all folders below it."""
    place = Path(location).resolve()
    if not place.is_dir():
        raise SourceError(f"{location}: not a folder")
    check_chosen([*_COLUMNS], options.columns)
    chosen = dict(options.columns)
    if options.split_by_speaker and "speaker_id" not in chosen:
        chosen["speaker_id"] = "folder"
    counts: dict[str, int] = {}
    records = [*_records(place, chosen, counts)]
    if not records:
        raise SourceError(f"{location}: found no recordings with .txt files of the same name")
    if options.split_by_speaker and "speaker_id" not in options.columns:
        _check_speakers(records)
    return Source(
        name=location,
        rows=table_of(records, options),
        fetch=partial(fetch_files, place),
        columns=chosen,
        counts=counts,
        in_tables=False,
    )


def _records(
    place: Path, chosen: Mapping[str, str], counts: dict[str, int]
) -> Iterator[dict[str, Any]]:
    for folder, names in walk(place):
        recordings = [name for name in names if name.lower().endswith(AUDIO_SUFFIXES)]
        texts = {_stem(name): name for name in reversed(names) if Path(name).suffix in TEXTS}
        alone = texts.keys() - map(_stem, recordings)
        if alone == texts.keys():
            continue  # none of these recordings has a text
        below = folder.relative_to(place.parent).as_posix()
        if alone:
            what = "text files without a recording"
            counts[what] = counts.get(what, 0) + len(alone)
        for row, name in enumerate(recordings):
            own = {
                "folder": folder.name,
                "folder_above": folder.parent.name,
                "file": Path(name).stem,
            }
            record = {ours: values_of(own, theirs) for ours, theirs in chosen.items()}
            record |= {"file": below, "row": row, "folders": below}
            record |= {"audio": (folder / name).relative_to(place).as_posix()}
            record.setdefault("id", f"{below}/{Path(name).stem}")
            text = texts.get(_stem(name))
            if text is None:
                yield record | {"refused": "no text file"}
            else:
                yield record | {"text": _text(folder / text)}


def _stem(name: str) -> str:
    return normalize("NFC", Path(name).stem)


def _text(path: Path) -> str:
    lines = path.read_bytes().removeprefix(BOM_UTF8).splitlines()
    numbered = enumerate(lines, start=1)
    text = "\n".join(decode_line(line, f"{path}:{n}", SourceError) for n, line in numbered).strip()
    if _LABELS.match(text):
        raise SourceError(
            f"{path}: begins with two numbers, as Audacity's labels and TIMIT do: {text[:40]!r}. A "
            "text file must hold the spoken words alone: write a table with path,start,end,text"
        )
    return text


def _check_speakers(records: list[dict[str, Any]]) -> None:
    """Refuse folders of one name, such as ``anna/day1`` and ``bo/day1``, as speakers."""
    first: dict[str, tuple[str, ...]] = {}
    for record in records:
        parts = Path(record["folders"]).parts
        place = tuple(part for part in parts if part.lower() not in {*SPLITS, *SPLIT_ALIASES})
        other = first.setdefault(place[-1] if place else "", place)
        if other != place:
            raise SourceError(
                f"--split-by-speaker: the folders {'/'.join(other)} and {'/'.join(place)} have one "
                "name, so who speaks is unclear. If the folder above names the speaker, add "
                "--column speaker_id=folder_above; if both are one person, --column "
                "speaker_id=folder"
            )
