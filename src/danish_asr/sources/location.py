"""Where a source lies: in a local folder, or on the Hugging Face hub (`hub`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from danish_asr.errors import SourceError

HUB_PREFIX: Final = "hf:"


@dataclass(frozen=True, kw_only=True)
class Location:
    """A directory of some file system, and the part of it that was asked for.

    Attributes:
        fs: The file system.
        root: The directory.
        subset: Name of the wanted subset, or None for all.
    """

    fs: AbstractFileSystem
    root: str
    subset: str | None = None


def locate(where: str) -> Location:
    """Resolve a local folder or a place on the hub (``hf:OWNER/NAME[:SUBSET][@REVISION]``).

    Raises:
        SourceError: There is nothing there, or no right to read it.
    """
    if where.startswith(HUB_PREFIX):
        # Half of what a worker would import is for the hub alone.
        from danish_asr.sources.hub import locate_on_hub  # noqa: PLC0415

        return locate_on_hub(where)
    if not Path(where).is_dir():
        raise SourceError(
            f"{where}: no such folder; `danish-asr convert --list` shows what a source can be"
        )
    return Location(fs=LocalFileSystem(), root=str(Path(where).resolve()))
