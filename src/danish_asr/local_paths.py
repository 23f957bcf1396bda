"""Checkpoints and tokenizers below any directory, such as ``/home/søren/my runs``."""

from __future__ import annotations

from pathlib import Path
from urllib.request import url2pathname

from fairseq2.assets import LocalAssetDownloadManager
from fairseq2.utils.uri import Uri


def read_any_local_path() -> None:
    """Make fairseq2 find files whose path has a space or a letter beyond ASCII.

    fairseq2 0.6 turns a path of a card into a URI, ``file:///home/s%C3%B8ren``, and takes that for
    the path again as it stands: "cannot be opened: No such file or directory". Its container takes
    no second provider for ``file``, so its own is mended in place.
    """
    LocalAssetDownloadManager._to_path = staticmethod(_to_path)  # type: ignore[method-assign] # noqa: SLF001


def _to_path(uri: Uri) -> Path:
    return Path(url2pathname(uri.path))
