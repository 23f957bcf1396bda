"""Tell which split a file belongs to by what it is called."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from danish_asr.errors import SourceError
from danish_asr.schema import SPLIT_ALIASES, SPLITS

_SPLIT_NAME: Final = re.compile(r"^([a-z]+)(?=[-_.]|$)")


def split_of(path: PurePosixPath) -> str:
    """Our name for the split that a file belongs to, from its name or a folder above it.

    Raises:
        SourceError: Neither names a split.
    """
    for part in (path.name, *reversed(path.parent.parts)):
        match = _SPLIT_NAME.match(part)
        split = SPLIT_ALIASES.get(match[1], match[1]) if match else None
        if split in SPLITS:
            return split
    known = ", ".join((*SPLITS, *SPLIT_ALIASES))
    raise SourceError(
        f"{path}: the name tells no split; let it begin with one of {known}, or name the split of "
        "the whole source with --split"
    )
