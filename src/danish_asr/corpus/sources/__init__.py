"""The corpora that can be converted: a table of kinds.

A source is written ``KIND:WHERE``. Without a kind, a manifest is recognised by its suffix, a folder
by the files in it, and a dataset of the hub is CoRal. docs/extending.md shows how to add a kind
without changing this package.
"""

import fnmatch
import os
from collections.abc import Callable
from pathlib import Path
from pickle import dumps
from pkgutil import resolve_name
from typing import Final, NamedTuple

from danish_asr.base.errors import SourceError, user_code
from danish_asr.base.schema import SPLITS
from danish_asr.corpus.sources.base import Source, SourceFile, SourceOptions, Utterance
from danish_asr.corpus.sources.leaderboard import open_leaderboard
from danish_asr.corpus.sources.listed import AUDIO_SUFFIXES
from danish_asr.corpus.sources.location import PARQUET_SUFFIXES, hub_hint
from danish_asr.corpus.sources.manifest import SUFFIXES, open_manifest
from danish_asr.corpus.sources.metadata import speaker
from danish_asr.corpus.sources.pairs import open_pairs
from danish_asr.corpus.sources.parquet import open_coral, open_hf_parquet
from danish_asr.corpus.sources.published import (
    is_fleurs,
    open_common_voice,
    open_fleurs,
    open_ft_speech,
    open_nst,
)

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
    check: Callable[[Path], bool] = lambda _: True


_AUDIO: Final = tuple(f"**/*{suffix}" for suffix in AUDIO_SUFFIXES)
_SPLIT_LISTS: Final = tuple(f"{split}.tsv" for split in SPLITS)

SOURCES: Final[dict[str, SourceKind]] = {
    "coral": SourceKind(
        location="FOLDER or hf:CoRal-project/coral-v2[:read_aloud|conversation][@REVISION]",
        about="CoRal v1, v2 or v3: from the hub, from its cache (offline) or from a local copy",
        open=open_coral,
        signs=(("**/*.parquet", "**/*.pq"),),
    ),
    "hf-parquet": SourceKind(
        location="FOLDER, FILE or hf:OWNER/NAME[:SUBFOLDER][@REVISION]",
        about="any Hugging Face audio Parquet; takes --corpus, --column and --split",
        open=open_hf_parquet,
    ),
    "common-voice": SourceKind(
        location="FOLDER",
        about="Mozilla Common Voice: train.tsv, dev.tsv, test.tsv and clips",
        open=open_common_voice,
        signs=(("clips", "da/clips"), (*_SPLIT_LISTS, "validated.tsv", "da/*.tsv")),
    ),
    "fleurs": SourceKind(
        location="FOLDER",
        about="FLEURS's archive of a language: train.tsv, dev.tsv, test.tsv and audio",
        open=open_fleurs,
        signs=(_SPLIT_LISTS,),
        check=is_fleurs,
    ),
    "ft-speech": SourceKind(
        location="FOLDER",
        about="FT Speech: text/ft-speech_*.tsv and audio",
        open=open_ft_speech,
        signs=(("text/ft-speech_*.tsv", "ft-speech_*.tsv"),),
    ),
    "nst": SourceKind(
        location="FOLDER",
        about="NST's Danish database, reorganised: sessions as JSON, and WAV",
        open=open_nst,
        signs=(("**/dk[0-9]*.json",), ("**/dk[0-9]*.wav",)),
    ),
    "manifest": SourceKind(
        location="FILE or FOLDER",
        about="JSON lines, CSV or TSV with audio paths (NeMo's keys or other usual names); takes "
        "--corpus, --column and --split",
        open=open_manifest,
        signs=(tuple(f"*{suffix}" for suffix in SUFFIXES),),
    ),
    "pairs": SourceKind(
        location="FOLDER",
        about="audio files with a .txt file of the same name, such as 0001.wav and 0001.txt; takes "
        "--corpus, --split and --column speaker_id=folder",
        open=open_pairs,
        signs=(_AUDIO, ("**/*.txt",)),
    ),
    "leaderboard": SourceKind(
        location="FOLDER, hf or FOLDER,hf",
        about="the five test sets of RyeAI's Danish leaderboard, from FOLDER/coral_read_aloud, "
        "coral_conversation, cv17_da, fleurs_da and ftspeech, or from the hub",
        open=open_leaderboard,
    ),
    "synthetic": SourceKind(
        location="FOLDER",
        about="the output of `danish-asr synthesize`; it has CoRal's columns",
        open=open_coral,
    ),
}


def resolve_source(spec: str) -> tuple[str, str]:
    """The kind and the location that a command line names; without a kind, it is recognised."""
    kind, colon, location = spec.partition(":")
    if colon and kind in SOURCES:
        return kind, location
    path = Path(spec)
    if kind == "hf" or (spec.lower().endswith(PARQUET_SUFFIXES) and path.is_file()):
        return "coral", spec
    if colon and not path.exists():
        return kind, location
    if spec.endswith(SUFFIXES):
        return "manifest", spec
    return _recognise(path), spec


def open_source(spec: str, options: SourceOptions | None = None) -> Source:
    """Open the source that a command line names.

    ``KIND`` is one of `SOURCES`, or the dotted name of an `OpenSource` function, such as
    ``my_corpora.radio.open_radio``.
    """
    kind, location = resolve_source(spec)
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
        source = open_kind(location, options or SourceOptions())
        if not isinstance(source, Source):
            raise TypeError(f"expected a Source, found {source!r}")
        dumps(source)  # workers get a copy
    return source


def _recognise(folder: Path) -> str:
    """The name of the kind of a local folder."""
    if not folder.exists():
        raise SourceError(f"{folder}: no such file or folder{hub_hint(str(folder))}")
    walk = os.walk(folder, followlinks=True)  # one walk serves all signs
    names = {name.lower() for _, _, names in walk for name in names if not name.startswith(".")}

    def has_one(patterns: tuple[str, ...]) -> bool:
        for pattern in patterns:
            at_any_depth = pattern.removeprefix("**/")
            if at_any_depth == pattern and any(folder.glob(pattern)):
                return True
            if at_any_depth != pattern and fnmatch.filter(names, at_any_depth):
                return True
        return False

    for name, kind in SOURCES.items():
        if kind.signs and all(map(has_one, kind.signs)) and kind.check(folder):
            return name
    raise SourceError(
        f"{folder}: not a known kind of source; `danish-asr convert --list` shows all kinds. Save "
        "a spreadsheet as CSV in UTF-8"
    )
