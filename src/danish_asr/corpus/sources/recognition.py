"""Kinds of sources, and how the kind of a folder is recognised by its files."""

import fnmatch
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources.base import Source, SourceOptions
from danish_asr.corpus.sources.location import hub_hint

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


def recognise(location: str, kinds: Mapping[str, SourceKind]) -> str:
    """The name of the kind of a local folder; raises `SourceError` with the nearest kind."""
    folder = Path(location)
    if folder.is_file():
        raise SourceError(
            f"{location}: this kind of file is not read; expected a folder, *.csv, *.tsv, *.jsonl "
            "or *.parquet. Save a spreadsheet as CSV in UTF-8"
        )
    if not folder.is_dir():
        raise SourceError(
            f"{location}: no such file or folder{hub_hint(location)}; expected a folder, a "
            "manifest, KIND:WHERE or hf:OWNER/NAME (`danish-asr convert --list`)"
        )
    names = _names_below(folder)
    if not names:
        raise SourceError(f"{location}: holds no files, so no audio")
    nearest, least_missing = "", 1.0
    for name, kind in kinds.items():
        if not kind.signs:
            continue
        missing = [choice for choice in kind.signs if not _has_one(folder, names, choice)]
        if not missing and kind.check(folder):
            return name
        share = len(missing) / len(kind.signs)
        if share < least_missing:
            least_missing = share
            lacks = " and no ".join(Path(choice[0]).name for choice in missing)
            reason = f"found no {lacks}" if lacks else "the content of these files is another"
            nearest = f". Nearest is {name} ({kind.about.partition(';')[0]}); {reason}"
    raise SourceError(
        f"{location}: not a known kind of source{nearest}. `danish-asr convert --list` shows all "
        "kinds"
    )


def _has_one(folder: Path, names: Collection[str], choice: tuple[str, ...]) -> bool:
    """Whether a folder has a file of one of the patterns; ``**/`` is any folder below it."""
    for sign in choice:
        if sign.startswith("**/"):
            if fnmatch.filter(names, sign.removeprefix("**/")):
                return True
        elif any(folder.glob(sign)):
            return True
    return False


def _names_below(folder: Path) -> set[str]:
    """The names of all files, in lower case; one walk serves all signs."""
    walk = os.walk(folder, followlinks=True)
    return {name.lower() for _, _, names in walk for name in names if not name.startswith(".")}
