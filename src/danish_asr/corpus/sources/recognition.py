"""Recognises the kind of a source by the files in its folder."""

import fnmatch
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources.base import Source, SourceOptions
from danish_asr.corpus.sources.location import hub_hint

OpenSource = Callable[[str, SourceOptions], Source]
"""Opens the source at a place; raises `SourceError` if it does not exist or is unusable."""


class SourceKind(NamedTuple):
    """One kind of source: what ``danish-asr convert --list`` shows, and what opens it.

    A folder is of the first kind whose ``signs`` are all there, each a choice of glob patterns, and
    whose ``check`` agrees. A kind without signs is never recognised.
    """

    where: str
    what: str
    open: OpenSource
    signs: tuple[tuple[str, ...], ...] = ()
    check: Callable[[Path], bool] = lambda _: True


def recognise(where: str, kinds: Mapping[str, SourceKind]) -> str:
    """The name of the kind of a local folder; raises `SourceError` with the nearest kind."""
    folder = Path(where)
    if folder.is_file():
        raise SourceError(
            f"{where}: this kind of file is not read; expected a folder, *.csv, *.tsv, *.jsonl or "
            "*.parquet. Save a spreadsheet as CSV in UTF-8"
        )
    if not folder.is_dir():
        raise SourceError(
            f"{where}: no such file or folder{hub_hint(where)}; expected a folder, a manifest, "
            "KIND:WHERE or hf:OWNER/NAME (`danish-asr convert --list`)"
        )
    _names_below.cache_clear()
    if not _names_below(folder):
        raise SourceError(f"{where}: holds no files, so no audio")
    nearest, fewest = "", 1.0
    for name, kind in kinds.items():
        missing = [
            choice for choice in kind.signs if not any(_has(folder, sign) for sign in choice)
        ]
        if kind.signs and not missing and kind.check(folder):
            return name
        if kind.signs and len(missing) / len(kind.signs) < fewest:
            fewest = len(missing) / len(kind.signs)
            lacks = " and no ".join(Path(choice[0]).name for choice in missing)
            found = f"found no {lacks}" if lacks else "the content of these files is another"
            nearest = f". Nearest is {name} ({kind.what.partition(';')[0]}); {found}"
    raise SourceError(
        f"{where}: not a known kind of source{nearest}. `danish-asr convert --list` shows all kinds"
    )


def _has(folder: Path, sign: str) -> bool:
    everywhere = sign.removeprefix("**/")
    if everywhere != sign:
        return bool(fnmatch.filter(_names_below(folder), everywhere))
    return any(folder.glob(sign))


@lru_cache(maxsize=1)
def _names_below(folder: Path) -> set[str]:
    """The names of all files, in lower case; one walk serves all signs."""
    walk = os.walk(folder, followlinks=True)
    return {name.lower() for _, _, names in walk for name in names if not name.startswith(".")}
