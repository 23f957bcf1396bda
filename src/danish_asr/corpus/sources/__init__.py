"""The corpora that can be converted: a table of kinds.

A source is written ``KIND:WHERE``. Without a kind, a manifest is recognised by its suffix, a folder
by the files in it, and a dataset of the hub is CoRal. docs/howto/add-a-corpus.md adds a kind
without changing this package.
"""

import fnmatch
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from pickle import dumps
from pkgutil import resolve_name
from typing import Final, NamedTuple

from danish_asr.base.errors import SourceError, user_code
from danish_asr.base.files import walk
from danish_asr.corpus.sources.base import (
    AUDIO_SUFFIXES,
    Source,
    SourceFile,
    SourceOptions,
    Utterance,
)
from danish_asr.corpus.sources.location import PARQUET_SUFFIXES, hub_hint
from danish_asr.corpus.sources.manifest import SUFFIXES, has_manifest, open_manifest
from danish_asr.corpus.sources.metadata import speaker
from danish_asr.corpus.sources.pairs import has_pairs, open_pairs
from danish_asr.corpus.sources.parquet import is_coral, open_coral, open_hf_parquet
from danish_asr.corpus.sources.timed import has_transcripts, open_timed
from danish_asr.corpus.sources.timed_files import is_transcript
from danish_asr.corpus.sources.unknown import describe_unknown

__all__ = [
    "SOURCES",
    "OpenSource",
    "Source",
    "SourceFile",
    "SourceKind",
    "SourceOptions",
    "Utterance",
    "open_source",
    "resolve_source",
    "speaker",
]

OpenSource = Callable[[str, SourceOptions], Source]
"""Opens the source at a location; raises `SourceError` if it does not exist or is unusable."""


class SourceKind(NamedTuple):
    """One kind of source: what ``danish-asr convert --list`` shows, and what opens it.

    A folder is of the first kind whose ``signs`` are all there, each a choice of glob patterns, and
    whose ``check`` agrees. A kind without signs is never recognised.
    """

    location: str
    about: str
    open: OpenSource
    signs: tuple[tuple[str, ...], ...] = ()
    check: Callable[[Path], str | bool] = lambda _: ""


_PARQUET: Final = tuple(f"**/*{suffix}" for suffix in PARQUET_SUFFIXES)
_AUDIO: Final = tuple(f"**/*{suffix}" for suffix in AUDIO_SUFFIXES)
_TIMED: Final = {
    "textgrid": (".textgrid", "Praat's anna.TextGrid beside anna.wav; takes --tier"),
    "elan": (".eaf", "ELAN's anna.eaf beside anna.wav; takes --tier"),
    "srt": (".srt", "subtitles in SubRip, anna.srt beside anna.wav"),
    "vtt": (".vtt", "subtitles in WebVTT, anna.vtt beside anna.wav"),
    "json": (".json", "transcripts of `transcribe` or Whisper, anna.json beside anna.wav"),
}
"""Kinds of timed text, with their suffixes."""

SOURCES: Final[dict[str, SourceKind]] = {
    "coral": SourceKind(
        location="FOLDER or hf:CoRal-project/coral-v2[:read_aloud|conversation][@REVISION]",
        about="CoRal v1, v2 or v3: from the hub, from its cache (offline) or from a local copy",
        open=open_coral,
        signs=(_PARQUET,),
        check=is_coral,
    ),
    "hf-parquet": SourceKind(
        location="FOLDER, FILE or hf:OWNER/NAME[:SUBFOLDER][@REVISION]",
        about="any Hugging Face audio Parquet; takes --corpus, --column and --split",
        open=open_hf_parquet,
        signs=(_PARQUET,),
    ),
    "manifest": SourceKind(
        location="FILE or FOLDER",
        about="JSON lines, CSV or TSV with audio paths (NeMo's keys or other usual names); takes "
        "--corpus, --column and --split",
        open=open_manifest,
        signs=(tuple(f"{name}{suffix}" for suffix in SUFFIXES for name in ("*", "**/metadata")),),
        check=has_manifest,
    ),
    **{
        kind: SourceKind(
            location="FOLDER or FILE",
            about=about,
            open=partial(open_timed, suffix),
            signs=((f"**/*{suffix}",), _AUDIO),
            check=has_transcripts if suffix == ".json" else lambda _: "",
        )
        for kind, (suffix, about) in _TIMED.items()
    },
    "pairs": SourceKind(
        location="FOLDER",
        about="audio files with a .txt file of the same name, such as 0001.wav and 0001.txt; takes "
        "--corpus, --split and --column speaker_id=folder",
        open=open_pairs,
        signs=(_AUDIO, ("**/*.txt", "**/*.lab")),
        check=has_pairs,
    ),
    "synthetic": SourceKind(
        location="FOLDER",
        about="a synthetic corpus; it has CoRal's columns",
        open=open_coral,
    ),
}


_BY_SUFFIX: Final = (
    dict.fromkeys(SUFFIXES, "manifest")
    | dict.fromkeys(PARQUET_SUFFIXES, "hf-parquet")
    | {suffix: kind for kind, (suffix, _) in _TIMED.items() if suffix != ".json"}
)
"""The kind of a single file."""


class Resolved(NamedTuple):
    """What a command line names."""

    kind: str
    location: str
    why: str = ""  # what the kind was recognised by; empty if it was named


def resolve_source(spec: str) -> Resolved:
    """The kind and the location that a command line names; without a kind, it is recognised."""
    kind, colon, location = spec.partition(":")
    if colon and kind in SOURCES:
        return Resolved(kind, location)
    path = Path(spec)
    if kind == "hf":
        return Resolved("coral", spec, "a dataset of the hub")
    if colon and not path.exists():
        return Resolved(kind, location)
    suffix = path.suffix.lower()
    if path.is_dir() or not path.exists() or suffix not in _BY_SUFFIX:
        return _recognise(path)
    kind = _BY_SUFFIX[suffix]
    if suffix in PARQUET_SUFFIXES and is_coral(path):
        kind = "coral"
    elif suffix == ".json" and is_transcript(path):
        kind = "json"
    return Resolved(kind, spec, f"its name ends in {suffix}")


def open_source(spec: str, options: SourceOptions | None = None) -> Source:
    """Open the source that a command line names.

    ``KIND`` is one of `SOURCES`, or the dotted name of an `OpenSource` function, such as
    ``my_corpora.radio.open_radio``.
    """
    kind, location, _ = resolve_source(spec)
    options = options or SourceOptions()
    if options.tiers and kind not in {"textgrid", "elan"}:
        raise SourceError(f"--tier: {location} is read as {kind}, which has no tiers")
    if kind in SOURCES:
        open_kind = SOURCES[kind].open
    else:
        try:
            open_kind = resolve_name(kind)
        except Exception as error:  # whatever the import of a user's module raises
            raise SourceError(
                f"unknown kind of source '{kind}' ({type(error).__name__}: {error}); expected one "
                f"of {', '.join(SOURCES)}, or PACKAGE.MODULE.FUNCTION of a module that is "
                "installed or on PYTHONPATH"
            ) from error
    with user_code(open_kind, f"opening {location}"):
        source = open_kind(location, options)
        if not isinstance(source, Source):
            raise TypeError(f"expected a Source, found {source!r}")
        dumps(source)  # workers get a copy
    return replace(source, options=options.decisive)


def _recognise(folder: Path) -> Resolved:
    """The kind of a local folder."""
    if not folder.exists():
        raise SourceError(f"{folder}: no such file or folder{hub_hint(str(folder))}")
    if folder.is_file():
        raise SourceError(f"{folder}: {describe_unknown(folder)}")
    names = [name for _, files in walk(folder) for name in files]  # one walk serves all signs
    kinds: list[Resolved] = []
    for name, kind in SOURCES.items():
        found = [_first_of(patterns, folder, names) for patterns in kind.signs]
        if found and None not in found and (sign := kind.check(folder)) is not False:
            why = sign if isinstance(sign, str) and sign else " and ".join(filter(None, found))
            kinds.append(Resolved(name, str(folder), f"it has {why}"))
    if not kinds:
        raise SourceError(f"{folder}: {describe_unknown(folder)}")
    if len(kinds) > 1 and {*_TIMED, "pairs"} >= {kind.kind for kind in kinds}:
        choices = " or ".join(f"{kind.kind}:{folder}" for kind in kinds)
        raise SourceError(
            f"{folder}: several kinds of transcripts are beside the recordings; choose {choices}"
        )
    return kinds[0]


def _first_of(patterns: tuple[str, ...], folder: Path, names: list[str]) -> str | None:
    """The first file of a folder that a pattern fits; ``names`` are those at any depth."""
    for pattern in patterns:
        any_depth = pattern.removeprefix("**/")
        if "/" in any_depth:
            found = [pattern] if any(folder.glob(pattern)) else []
        else:
            among = (
                names if any_depth != pattern else sorted(path.name for path in folder.iterdir())
            )
            shown = (name for name in among if not name.startswith("."))
            found = [name for name in shown if fnmatch.fnmatchcase(name.lower(), any_depth)]
        if found:
            return found[0]
    return None
