"""The corpora that can be converted: a table of kinds.

Comes in: what a command line names, ``KIND:WHERE``. Without a kind, a file is recognised by its
ending and a folder by the files in it. Goes out: a `Source`, the table of all rows and what fetches
their audio. docs/howto/extend.md adds a kind without changing this package.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, NamedTuple

from danish_asr.base.errors import SourceError, user_code
from danish_asr.base.folders import AUDIO_SUFFIXES, is_ours, walk
from danish_asr.base.schema import INVENTORY_FILE
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.columns import RECORD_KEYS
from danish_asr.corpus.rows import (
    Source,
    check_splits,
    is_alone,
    replaced,
    table_of,
    understood,
    without_duplicates,
)
from danish_asr.corpus.sources.parquet import PARQUET_SUFFIXES, open_parquet
from danish_asr.corpus.sources.recordings import fetch_files, recordings, versions_of_files
from danish_asr.corpus.sources.synthetic import open_synthetic
from danish_asr.corpus.sources.table import SUFFIXES, open_table, tables_in
from danish_asr.corpus.sources.timed import open_timed
from danish_asr.corpus.sources.timed_files import files_of, is_transcript


class Kind(NamedTuple):
    """A kind of source: what ``danish-asr convert --list`` shows, and what opens it."""

    location: str
    about: str
    open: Callable[[str, ConvertOptions], Source]  # raises `SourceError`
    suffixes: tuple[str, ...] = ()  # of its files


def _beside(suffix: str, about: str) -> Kind:
    return Kind("FOLDER or FILE", about, partial(open_timed, suffix), (suffix,))


SOURCES: Final[dict[str, Kind]] = {
    "parquet": Kind(
        "FOLDER, FILE or hf:OWNER/NAME[:SUBSET][@REVISION]",
        "Parquet with audio, here or on the hub; CoRal v1, v2 and v3 by their columns",
        open_parquet,
        PARQUET_SUFFIXES,
    ),
    "table": Kind(
        "FILE or FOLDER",
        "CSV, TSV or JSON lines with the paths of recordings: NeMo, audiofolder, Common Voice",
        open_table,
        SUFFIXES,
    ),
    "textgrid": _beside(".textgrid", "Praat's anna.TextGrid beside anna.wav; takes --tier"),
    "elan": _beside(".eaf", "ELAN's anna.eaf beside anna.wav; takes --tier"),
    "srt": _beside(".srt", "subtitles in SubRip, anna.srt beside anna.wav"),
    "vtt": _beside(".vtt", "subtitles in WebVTT, anna.vtt beside anna.wav"),
    "json": _beside(".json", "transcripts of `transcribe` or Whisper, anna.json beside anna.wav"),
    "pairs": _beside(".txt", "a .txt file beside each recording, 0001.wav and 0001.txt"),
    "synthetic": Kind("FOLDER", "synthetic Danish speech, made if it is missing", open_synthetic),
}

_EXPORT: Final = "export SRT or WebVTT, or write a table with path,start,end,text,speaker"

_WAYS_OUT: Final = {
    **dict.fromkeys((".ctm", ".stm", ".cha", ".trs", ".exb"), _EXPORT),
    **dict.fromkeys((".ass", ".ssa", ".ttml", ".dfxp"), _EXPORT),
    ".json": f"neither a table of recordings nor a transcript of Whisper; {_EXPORT}",
    ".tsv": "name the file itself if it has paths of recordings; of Whisper's, take its .srt",
    **dict.fromkeys((".zip", ".gz", ".tar"), "unpack it first"),
    ".xlsx": "save it as CSV in UTF-8",
    ".docx": "save a text as UTF-8 in a .txt",
    ".arrow": "write Parquet: datasets.load_from_disk(FOLDER).to_parquet('train.parquet')",
    **dict.fromkeys(AUDIO_SUFFIXES, "write a table of the recordings, with path,text,speaker"),
}
"""What to do with files that are not read, by their endings."""


def open_source(spec: str, options: ConvertOptions) -> Source:
    """Read the source that a command line names; its rows have splits, and one row of each id.

    ``KIND`` is one of `SOURCES`, or the dotted name of a function that yields a mapping for each
    row, from the location and the options.

    Raises:
        SourceError: There is no such source, or it cannot be read.
    """
    kind, location = resolve_source(spec)
    if options.tiers and kind not in {"textgrid", "elan"}:
        raise SourceError(f"--tier: {location} is read as {kind}, which has no tiers")
    opener = SOURCES[kind].open if kind in SOURCES else partial(_open_own, kind)
    recordings.cache_clear()
    source = opener(location, options)
    if not len(source.rows):
        raise SourceError(f"{location}: no rows")
    check_splits(source.rows, options)
    rows, counts = understood(source.rows, options)
    rows = without_duplicates(rows)
    found = replaced(rows, alone=is_alone(rows), version=source.versions(rows))
    return replace(source, rows=found, counts={**source.counts, **counts})


def resolve_source(spec: str) -> tuple[str, str]:
    """The kind and the location that a command line names; without a kind, it is recognised."""
    kind, colon, location = spec.partition(":")
    path = Path(spec)
    if kind == "hf":
        return "parquet", spec
    if colon and (kind in SOURCES or not path.exists()):
        return kind, location
    if path.is_dir():
        return _kind_of(path), str(path)
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder; of the hub: hf:{spec}")
    suffix = path.suffix.lower()
    if suffix == ".json" and is_transcript(path):
        return "json", spec
    for kind, source in SOURCES.items():
        if suffix in source.suffixes:
            return kind, spec
    raise SourceError(f"{path}: {_why_no_kind([path])}")


def _kind_of(folder: Path) -> str:
    """The kind of a folder by its files: Parquet, else tables, else texts beside recordings."""
    if is_ours(folder):
        raise SourceError(
            f"{folder}: holds a dataset of `danish-asr convert` ({INVENTORY_FILE}); name its "
            "source, or use `danish-asr combine` to join datasets and to leave rows out"
        )
    files = [parent / name for parent, names in walk(folder) for name in names]
    if any(path.suffix.lower() in PARQUET_SUFFIXES for path in files):
        return "parquet"
    if tables_in(folder):
        return "table"
    kinds = [
        kind
        for kind in ("textgrid", "elan", "srt", "vtt", "json", "pairs")
        if any(
            kind != "json" or is_transcript(path)
            for path in files_of(SOURCES[kind].suffixes[0], folder)
        )
    ]
    if len(kinds) > 1:
        choices = " or ".join(f"{kind}:{folder}" for kind in kinds)
        raise SourceError(f"{folder}: several kinds of transcripts; choose {choices}")
    if not kinds:
        raise SourceError(f"{folder}: {_why_no_kind(files)}")
    return kinds[0]


def _why_no_kind(files: Sequence[Path]) -> str:
    """Why nothing in a folder, or a file, is recognised, and what to do."""
    counts = Counter(path.suffix.lower() or "no ending" for path in files)
    listed = ", ".join(f"{count:,} of {suffix}" for suffix, count in counts.most_common(6))
    ways = [f"{suffix}: {_WAYS_OUT[suffix]}. " for suffix in _WAYS_OUT if suffix in counts]
    return (
        f"no known kind of source; it has {listed or 'no files'}. {''.join(ways)}"
        "`danish-asr convert --list` shows all kinds; docs/howto/extend.md adds one"
    )


def _open_own(name: str, location: str, options: ConvertOptions) -> Source:
    """Read a function of the user's own, which yields mappings with our names of columns."""
    try:
        rows_of = resolve_name(name)
        if not callable(rows_of):
            raise TypeError("no function")  # noqa: TRY301
    except Exception as error:  # whatever the import of a user's module raises
        raise SourceError(
            f"unknown kind of source '{name}' ({type(error).__name__}: {error}); expected one of "
            f"{', '.join(SOURCES)}, or PACKAGE.MODULE.FUNCTION of a module that is installed or on "
            "PYTHONPATH"
        ) from error
    file = name.rpartition(".")[2]

    def records() -> Iterator[Mapping[str, Any]]:
        for number, row in enumerate(rows_of(location, options)):
            if unread := [key for key in row if key not in RECORD_KEYS]:
                keys = ", ".join(unread)
                raise SourceError(f"{name}: unknown keys of a row: {keys}; docs/howto/extend.md")
            yield {"file": file, "row": number, **row}

    with user_code(rows_of, f"reading {location}"):
        rows = table_of(records(), options)
    root = Path(location).resolve()
    return Source(
        name=location,
        rows=rows,
        fetch=partial(fetch_files, root),
        versions=partial(versions_of_files, root),
    )
