"""The corpora that can be converted: a table of kinds, one file each.

A source is written ``KIND:WHERE``. Without a kind, a manifest is recognised by its suffix, and
everything else is CoRal. docs/extending.md shows how to add a kind without changing this package.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from danish_asr.errors import SourceError
from danish_asr.sources.base import Source, SourceFile, SourceOptions, Utterance
from danish_asr.sources.coral import open_coral
from danish_asr.sources.manifest import SUFFIXES, open_manifest
from danish_asr.sources.metadata import speaker
from danish_asr.sources.parquet import open_hf_parquet

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

_DOTTED_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


OpenSource = Callable[[str, SourceOptions], Source]
"""Opens the source at a place; raises `SourceError` if it does not exist or is unusable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind:
    """One kind of source.

    Attributes:
        where: What to write after ``KIND:``, for ``danish-asr convert --list``.
        what: A description, for the same list.
        open: Opens it.
    """

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
"""Every kind of source by its name."""


def open_source(spec: str, options: SourceOptions | None = None) -> Source:
    """Open the source that a command line names.

    Args:
        spec: ``KIND:WHERE``, with a kind of `SOURCES` or the dotted name of an `OpenSource`
            function, such as ``my_corpora.radio.open_radio``; or only ``WHERE``.
        options: What the source does not define itself.

    Raises:
        SourceError: The kind is unknown, or the source does not exist, is empty or lacks columns.
    """
    kind, colon, where = spec.partition(":")
    if colon and kind in SOURCES:
        open_kind = SOURCES[kind].open
    elif colon and _DOTTED_NAME.fullmatch(kind):
        open_kind = _import(kind)
    elif colon and re.fullmatch(r"[\w-]+", kind) and kind != "hf" and not Path(spec).exists():
        raise SourceError(
            f"unknown kind of source '{kind}'; expected one of {', '.join(SOURCES)}, or "
            "PACKAGE.MODULE.FUNCTION"
        )
    else:
        where = spec
        open_kind = open_manifest if spec.endswith(SUFFIXES) else open_coral
    return open_kind(where, options or SourceOptions())


def _import(name: str) -> OpenSource:
    module, _, function = name.rpartition(".")
    try:
        found: OpenSource = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise SourceError(
            f"{name}: cannot be imported ({error}); expected a function in a module that is "
            "installed or on PYTHONPATH"
        ) from error
    return found
