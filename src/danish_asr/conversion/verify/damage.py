"""Make faults of what parsers raise over damaged files, in one place for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from danish_asr.yaml_text import YAMLError

DAMAGE: Final = (
    OSError,
    ValueError,  # not UTF-8, no number, and most of Arrow's errors
    RuntimeError,  # libsndfile, SentencePiece, a loop of links
    MemoryError,  # a damaged length that asks for terabytes
    AssertionError,  # ruamel, over a %YAML directive that it does not know
    LookupError,  # the same
    pa.ArrowException,
    YAMLError,
)
"""What the libraries that read a dataset's files raise over wrong bytes, as far as was seen."""

_LONGEST: Final = 200
"""Characters of a library's message that are told."""


def guarded(place: str, faults: Iterable[str]) -> Iterator[str]:
    """Yield the faults that the check of a file finds; what it raises is the last of them.

    Args:
        place: The file, as faults name it.
        faults: The check, which may raise `DAMAGE`.
    """
    try:
        yield from faults
    except FileNotFoundError:
        yield f"{place}: is missing"
    except DAMAGE as error:
        yield f"{place}: cannot be read ({_reason(error)})"


def _reason(error: BaseException) -> str:
    words = error.strerror if isinstance(error, OSError) else None
    told = " ".join((words or str(error)).split()) or type(error).__name__
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]} ..."
