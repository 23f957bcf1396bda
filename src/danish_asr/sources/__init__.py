"""The corpora that can be converted: a table of kinds, one file each.

A source is written ``KIND:WHERE``. Without a kind, a manifest is recognised by its suffix, and
everything else is CoRal. docs/extending.md shows how to add a kind without changing this package.
"""

from collections.abc import Callable
from pathlib import Path
from pickle import dumps
from pkgutil import resolve_name
from typing import Final, NamedTuple

from danish_asr.errors import SourceError
from danish_asr.extending import user_code
from danish_asr.sources.base import Source, SourceFile, SourceOptions, Utterance
from danish_asr.sources.manifest import SUFFIXES, open_manifest
from danish_asr.sources.metadata import speaker
from danish_asr.sources.parquet import open_coral, open_hf_parquet

__all__ = [
    "SOURCES",
    "Source",
    "SourceFile",
    "SourceKind",
    "SourceOptions",
    "Utterance",
    "open_source",
    "speaker",
]

OpenSource = Callable[[str, SourceOptions], Source]
"""Opens the source at a place; raises `SourceError` if it does not exist or is unusable."""


class SourceKind(NamedTuple):
    """One kind of source: what ``danish-asr convert --list`` shows, and what opens it."""

    where: str
    what: str
    open: OpenSource


SOURCES: Final[dict[str, SourceKind]] = {
    "coral": SourceKind(
        where="FOLDER or hf:CoRal-project/coral-v2[:read_aloud|conversation][@REVISION]",
        what="CoRal v1, v2 or v3: from the hub, from its cache (offline) or from a local copy",
        open=open_coral,
    ),
    "hf-parquet": SourceKind(
        where="FOLDER or hf:OWNER/NAME[:SUBFOLDER][@REVISION]",
        what="any Hugging Face audio Parquet; needs --corpus, takes --column and --split",
        open=open_hf_parquet,
    ),
    "manifest": SourceKind(
        where="FILE or FOLDER",
        what="JSON lines, CSV or TSV with audio paths (NeMo's keys); needs --corpus, takes "
        "--column and --split",
        open=open_manifest,
    ),
    "synthetic": SourceKind(
        where="FOLDER",
        what="the output of `danish-asr synthesize`; it has CoRal's columns",
        open=open_coral,
    ),
}


def open_source(spec: str, options: SourceOptions | None = None) -> Source:
    """Open the source that a command line names.

    ``KIND`` is one of `SOURCES`, or the dotted name of an `OpenSource` function, such as
    ``my_corpora.radio.open_radio``.
    """
    kind, colon, where = spec.partition(":")
    if colon and kind in SOURCES:
        open_kind = SOURCES[kind].open
    elif not colon or kind == "hf" or Path(spec).exists():
        where = spec
        open_kind = open_manifest if spec.endswith(SUFFIXES) else open_coral
    else:
        try:
            open_kind = resolve_name(kind)
        except Exception as error:  # whatever the import of a user's module raises
            raise SourceError(
                f"unknown kind of source '{kind}' ({type(error).__name__}: {error}); expected one "
                f"of {', '.join(SOURCES)}, or PACKAGE.MODULE.FUNCTION of a module that is "
                "installed or on PYTHONPATH"
            ) from error
    with user_code(open_kind, f"opening {where}"):
        source = open_kind(where, options or SourceOptions())
        if not isinstance(source, Source):
            raise TypeError(f"expected a Source, found {source!r}")
        dumps(source)  # workers get a copy
    return source
