"""Where the cards of built datasets and finished runs are found.

That is ``data/parquet/cards`` below the working directory, and the directories that
``$DANISH_ASR_ASSETS`` names (separated by ``os.pathsep``).
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from danish_asr.base.schema import CARDS_DIR


def card_directories() -> list[Path]:
    """Return the directories that are searched for cards."""
    named = os.environ.get("DANISH_ASR_ASSETS", "").split(os.pathsep)
    usual = Path("data", "parquet", CARDS_DIR)
    return without_nested([usual, *(Path(name) for name in named if name)])


def without_nested(paths: Iterable[Path], searched: Sequence[Path] = ()) -> list[Path]:
    """Leave out directories inside another one, or inside one that is already searched.

    fairseq2 searches directories recursively, and refuses an asset that it finds twice.
    """
    places = list(dict.fromkeys(path.expanduser().resolve() for path in paths))
    others = {*searched, *places}
    return [p for p in places if p not in searched and others.isdisjoint(p.parents)]
