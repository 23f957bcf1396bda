"""The corpora that can be converted: a table of readers, one file each.

A source is written ``KIND:WHERE``. Without a kind, a manifest is known by its suffix; all else is
taken for CoRal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from danish_asr.errors import SourceError
from danish_asr.schema import SPLIT_ALIASES, SPLITS
from danish_asr.sources import manifest
from danish_asr.sources.base import Source
from danish_asr.sources.columns import Columns, parse_columns
from danish_asr.sources.coral import open_coral
from danish_asr.sources.huggingface import open_hf_parquet

_CORPUS_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a source cannot say itself; CoRal's says all of it.

    Attributes:
        corpus: Name of the corpus in the built dataset.
        columns: ``OURS=THEIRS`` assignments.
        split: The split of all files; None to tell it from their names.
    """

    corpus: str | None = None
    columns: tuple[str, ...] = ()
    split: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One kind of source."""

    where: str
    what: str
    open: Callable[[str, SourceOptions], Source]


def _open_coral(where: str, options: SourceOptions) -> Source:
    if options != SourceOptions():
        raise SourceError("CoRal says itself what --corpus, --column and --split would say")
    return open_coral(where)


def _open_hf_parquet(where: str, options: SourceOptions) -> Source:
    return open_hf_parquet(
        where,
        corpus=_corpus(options),
        columns=parse_columns(options.columns, Columns()),
        split=_split(options),
    )


def _open_manifest(where: str, options: SourceOptions) -> Source:
    return manifest.open_manifest(
        where,
        corpus=_corpus(options),
        columns=parse_columns(options.columns, manifest.COLUMNS),
        split=_split(options),
    )


READERS: Final[Mapping[str, Reader]] = {
    "coral": Reader(
        where="FOLDER or hf:CoRal-project/coral-v2[:read_aloud|conversation][@REVISION]",
        what="CoRal v1, v2 or v3: from the hub, from its cache (offline) or from a local copy",
        open=_open_coral,
    ),
    "hf-parquet": Reader(
        where="FOLDER or hf:OWNER/NAME[:SUBFOLDER][@REVISION]",
        what="any Hugging Face audio Parquet; needs --corpus, takes --column and --split",
        open=_open_hf_parquet,
    ),
    "manifest": Reader(
        where="FILE or FOLDER",
        what="JSON lines or CSV with audio paths (NeMo's keys); needs --corpus, takes --column "
        "and --split",
        open=_open_manifest,
    ),
    "synthetic": Reader(
        where="FOLDER",
        what="what `danish-asr synthesize` made; it has CoRal's shape",
        open=_open_coral,
    ),
}


def open_source(spec: str, options: SourceOptions | None = None) -> Source:
    """Open the source that a command line names.

    Raises:
        SourceError: It is not there, is empty or has not the columns that are needed.
    """
    kind, colon, where = spec.partition(":")
    if not colon or kind not in READERS:
        kind, where = "manifest" if spec.endswith(manifest.SUFFIXES) else "coral", spec
    return READERS[kind].open(where, options or SourceOptions())


def _corpus(options: SourceOptions) -> str:
    if options.corpus is None or not _CORPUS_NAME.fullmatch(options.corpus):
        raise SourceError(
            f"--corpus {options.corpus or ''}: this kind of source needs a name for its corpus, of "
            "up to 100 letters, digits, '_', '-' and '.'"
        )
    return options.corpus


def _split(options: SourceOptions) -> str | None:
    if options.split is None:
        return None
    split = SPLIT_ALIASES.get(options.split, options.split)
    if split not in SPLITS:
        raise SourceError(f"--split {options.split}: expected one of {', '.join(SPLITS)}")
    return split
