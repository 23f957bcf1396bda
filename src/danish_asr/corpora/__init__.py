"""The corpora that can be converted, one reader each.

A source is written ``KIND:WHERE``; a folder alone is a local copy of CoRal.
"""

from __future__ import annotations

from pathlib import Path

from danish_asr.corpora import coral
from danish_asr.corpora.base import Source


def open_source(spec: str) -> Source:
    """Open the source that a command line names.

    Raises:
        SourceError: It is not there, is empty or has not the columns that are needed.
    """
    return coral.open_folder(Path(spec))
