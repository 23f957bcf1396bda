"""The corpora that can be converted: a table of kinds.

Comes in: what a command line names, ``KIND:WHERE``. Without a kind, a file is recognised by its
ending and a folder by the files in it, which are listed once. Goes out: a `Source`, the table of
all rows and what fetches their audio. docs/howto/extend.md adds a kind without changing this
package.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from danish_asr.base.errors import ConfigError, SourceError, user_code
from danish_asr.base.files import AnyPath
from danish_asr.base.folders import AUDIO_SUFFIXES, check_name, is_ours
from danish_asr.base.schema import INVENTORY_FILE
from danish_asr.base.tables import printable, read_rows
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
    without_gaps,
)
from danish_asr.corpus.sources.parquet import PARQUET_SUFFIXES, open_parquet
from danish_asr.corpus.sources.recordings import TextFolder, fetch_files, located, versions_of_files
from danish_asr.corpus.sources.synthetic import open_synthetic
from danish_asr.corpus.sources.table import (
    SUFFIXES,
    has_rows,
    open_table,
    tables_below,
    tables_in,
    tables_of_people,
)
from danish_asr.corpus.sources.timed import open_timed


class Kind(NamedTuple):
    """A kind of source: what ``danish-asr convert --list`` shows, and what opens it."""

    location: str
    about: str
    open: Callable[[str, ConvertOptions, TextFolder], Source]  # raises `SourceError`
    suffixes: tuple[str, ...] = ()  # of its files


class NamedSource(NamedTuple):
    """What a command line names."""

    kind: str  # one of `SOURCES`, or the dotted name of a function
    location: str
    files: TextFolder  # of a folder, or of that in which a file is


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

_SHOWN: Final = 5  # names of files

_WAYS_OUT: Final = {
    **dict.fromkeys((".ctm", ".stm", ".cha", ".trs", ".exb"), _EXPORT),
    **dict.fromkeys((".ass", ".ssa", ".ttml", ".dfxp"), _EXPORT),
    ".json": f"neither a table of recordings nor a transcript of Whisper; {_EXPORT}",
    ".tsv": "name the file itself if it has paths of recordings; of Whisper's, take its .srt",
    **dict.fromkeys((".zip", ".gz", ".tar"), "unpack it first"),
    ".xlsx": "save it as CSV in UTF-8",
    ".txt": "a table has the ending .csv or .tsv, a text the name of a recording beside it",
    ".docx": "save a text as UTF-8 in a .txt",
    ".arrow": "write Parquet: datasets.load_from_disk(FOLDER).to_parquet('train.parquet')",
    **dict.fromkeys(AUDIO_SUFFIXES, "write a table of the recordings, with path,text,speaker"),
}
"""What to do with files that are not read, by their endings."""


def open_source(named: AnyPath | NamedSource, options: ConvertOptions) -> Source:
    """Read the source that a command line names; its rows have splits, and one row of each id.

    ``KIND`` is one of `SOURCES`, or the dotted name of a function that yields a mapping for each
    row, from the location and the options.

    Raises:
        SourceError: There is no such source, or it cannot be read.
    """
    if not isinstance(named, NamedSource):
        named = resolve_source(str(named))
    kind, location, files = named
    if options.tiers and kind in SOURCES.keys() - {"textgrid", "elan"}:
        raise SourceError(f"--tier: {location} is read as {kind}, which has no tiers")
    opener = SOURCES[kind].open if kind in SOURCES else partial(_open_own, kind)
    source = opener(location, options, files)
    if not len(source.rows):
        raise SourceError(f"{location}: no rows")
    rows, not_understood = understood(check_splits(source.rows, options), options)
    rows = without_duplicates(without_gaps(rows))
    # A TextGrid says of all its recording what is speech: its ends were not rounded.
    alone = pc.and_(is_alone(rows), kind != "textgrid")
    rows, notes = located(replaced(rows, alone=alone), files)
    counts = {**source.counts, **notes, **not_understood, **_unused(named, rows)}
    return replace(source, rows=rows, counts=counts | _in_several_files(rows))


def _in_several_files(rows: pa.Table) -> dict[str, int]:
    """Recordings of which several files have rows, counted: their texts may be there twice."""
    if len(rows["file"].unique()) < 2:  # as one table of a million rows
        return {}
    names = rows.select(["recording", "file"])
    used = names.filter(pc.and_(pc.is_valid(rows["recording"]), pc.is_null(rows["refused"])))
    files = used.group_by("recording", use_threads=False).aggregate([("file", "distinct")])
    several = files.filter(pc.greater(pc.list_value_length(files["file_distinct"]), 1))
    if not len(several):
        return {}
    recording, texts = several["recording"][0], sorted(several["file_distinct"][0].as_py())
    what = "recordings whose texts are in several files, perhaps twice"
    return {f"{what}, such as {recording} ({_listed(texts)})": len(several)}


def _unused(named: NamedSource, rows: pa.Table) -> dict[str, int]:
    """What lies in a folder beside what is read, counted: tables of people, texts, recordings."""
    if named.kind not in SOURCES or not Path(named.location).is_dir():
        return {}
    root, of_people = named.files.root, tables_of_people(named.files)
    advice = "to use it, write its columns into a table of path,text,speaker"
    counts = {
        f"rows of {path.name}, a table of people that is not used ({advice})": sum(
            1 for _ in read_rows(path, SourceError)
        )
        for path in of_people
    }
    files = rows["file"].unique().to_pylist()
    used = {*of_people, *(place / file for file in files for place in (root, root.parent))}
    for suffix in sorted({suffix for kind in SOURCES.values() for suffix in kind.suffixes}):
        unread = [path for path in named.files.of(suffix) if path not in used]
        if unread:
            names = _listed([path.relative_to(root).as_posix() for path in unread])
            is_pair = named.kind == "pairs" and suffix == ".txt"
            why = ", as no recording beside them has their name" if is_pair else ""
            counts[f"{suffix} files of which nothing was read{why} ({names})"] = len(unread)
    if named.kind == "table":
        heard = {root / path for path in rows["recording"].unique().drop_null().to_pylist()}
        others = [path for path in named.files.of(*AUDIO_SUFFIXES) if path not in heard]
        if others:
            counts["recordings that no row names"] = len(others)
        if len(files) > 1:
            counts[f"tables that were read ({_listed(files)})"] = len(files)
    return counts


def _listed(names: Sequence[str]) -> str:
    more = ["..."] if len(names) > _SHOWN else []
    return ", ".join([*names[:_SHOWN], *more])


def resolve_source(spec: str) -> NamedSource:
    """What a command line names; without a kind, it is recognised."""
    check_name(Path(spec))
    kind, colon, location = spec.partition(":")
    path = Path(spec)
    if not spec or (colon and not location and kind in {"hf", *SOURCES}):
        raise SourceError(f"{spec!r} names no file, folder or corpus")
    if kind == "hf":
        return _named("parquet", spec)
    if colon and (kind in SOURCES or not path.exists()):
        if kind in SOURCES and kind != "synthetic" and not Path(location).exists():
            raise SourceError(f"{location}: no such file or folder")
        return _named(kind, location)
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder; of the hub: hf:{spec}")
    named = _named("", str(path))
    if path.is_dir():
        return named._replace(kind=_kind_of(named.files, path))
    suffix = path.suffix.lower()
    if suffix == ".json" and named.files.is_transcript(named.files.root / path.name):
        return named._replace(kind="json")
    is_list = suffix == ".txt" and not named.files.is_beside(named.files.root / path.name)
    for own, source in SOURCES.items():
        if suffix in source.suffixes and not is_list:
            return named._replace(kind=own)
    raise SourceError(f"{path}: {_why_no_kind({suffix: [path]})}")


def _named(kind: str, location: str) -> NamedSource:
    inner, colon, rest = location.partition(":")  # a function of one's own may open another kind
    path = Path(rest if colon and inner in SOURCES and kind not in SOURCES else location)
    return NamedSource(kind, location, TextFolder(path.parent if path.is_file() else path))


def _kind_of(files: TextFolder, folder: Path) -> str:
    """The kind of a folder by its files: Parquet, else tables, else texts beside recordings.

    A table whose columns are not known is the last choice.
    """
    if is_ours(folder):
        raise SourceError(
            f"{folder}: holds a dataset of `danish-asr convert` ({INVENTORY_FILE}); name its "
            "source, or use `danish-asr combine` to join datasets and to leave rows out"
        )
    if files.of(*PARQUET_SUFFIXES):
        return "parquet"
    tables = tables_in(files)
    if any(map(has_rows, tables)):
        return "table"
    kinds = [
        kind
        for kind in ("textgrid", "elan", "srt", "vtt", "json", "pairs")
        if any(
            files.is_transcript(path) if kind == "json" else files.is_text(path)
            for path in files.of(*SOURCES[kind].suffixes)
        )
    ]
    if len(kinds) > 1:
        choices = [f"{kind}:{folder}" for kind in (*kinds, *(["table"] if tables else []))]
        choices += [f"table:{folder / path}" for path in tables_below(files)]
        raise SourceError(
            f"{folder}: several kinds of transcripts; choose {' or '.join(choices)}, or read them "
            "together as in docs/howto/write-a-table.md"
        )
    if kinds:
        return kinds[0]
    if tables or tables_of_people(files):
        return "table"
    places = sorted({str(folder / path.parent) for path in tables_below(files)})
    below = f"its tables are in {', '.join(places)}: name that folder. " if places else ""
    raise SourceError(f"{folder}: {below}{_why_no_kind(files.by_suffix)}")


def _why_no_kind(files: Mapping[str, Sequence[Path]]) -> str:
    """Why nothing in a folder, or a file, is recognised, and what to do; files are by ending."""
    counts = Counter({suffix or "no ending": len(paths) for suffix, paths in files.items()})
    listed = ", ".join(
        f"{count:,} of {printable(suffix)}" for suffix, count in counts.most_common(6)
    )
    ways = [f"{suffix}: {_WAYS_OUT[suffix]}. " for suffix in _WAYS_OUT if suffix in counts]
    return (
        f"no known kind of source; it has {listed or 'no files'}. {''.join(ways)}"
        "`danish-asr convert --list` shows all kinds; docs/howto/extend.md adds one"
    )


def _open_own(name: str, location: str, options: ConvertOptions, files: TextFolder) -> Source:
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
    try:
        signature(rows_of).bind(location, options)
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"{name}: a source takes the location and the options ({error}); docs/howto/extend.md"
        ) from error
    file = name.rpartition(".")[2]

    def records() -> Iterator[Mapping[str, Any]]:
        for number, row in enumerate(rows_of(location, options) or ()):
            if not isinstance(row, Mapping):
                raise SourceError(f"{name}: expected mappings, found {row!r:.60}")
            if unread := [key for key in row if key not in RECORD_KEYS]:
                keys = ", ".join(unread)
                raise SourceError(f"{name}: unknown keys of a row: {keys}; docs/howto/extend.md")
            yield {"file": file, "row": number, **row}

    with user_code(rows_of, f"reading {location}"):
        rows = table_of(records(), options)
    _check_own(name, rows, options)
    in_files = pc.index_in(rows["file"], rows["file"].unique())
    about_columns = f"columns of --column, which {name} alone reads or leaves"
    return Source(
        name=location,
        rows=rows.take(pc.sort_indices(in_files)),  # the rows of a file together
        counts={about_columns: len(options.columns)},
        fetch=partial(fetch_files, files.root),
        versions=partial(versions_of_files, files.root),
    )


def _check_own(name: str, rows: pa.Table, options: ConvertOptions) -> None:
    """Raise `SourceError` for corpora and numbers of rows that no reader of ours would give."""
    for corpus in rows["corpus"].unique().to_pylist():
        try:
            replace(options, corpus=corpus)
        except ConfigError as error:
            raise SourceError(f"{name}: a row's corpus, as {error.faults[0]}") from error
    counted = rows.group_by(["file", "row"], use_threads=False).aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted["count_all"], 1))
    if len(repeated):
        (first,) = repeated.slice(0, 1).to_pylist()
        raise SourceError(
            f"{name}: {first['count_all']:,} rows are row {first['row']} of {first['file']}; count "
            "`row` from 0 in each `file`, or yield neither"
        )
