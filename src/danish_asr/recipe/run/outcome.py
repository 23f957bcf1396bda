"""Why a run has ended before its time, in a file of its directory."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.files import publish_text

FAILED: Final = "failed.txt"
"""A run that starts again deletes it."""


@contextmanager
def noted(output_dir: Path) -> Iterator[None]:
    """Keep the message of an error that ends a run."""
    (output_dir / FAILED).unlink(missing_ok=True)
    try:
        yield
    except DanishAsrError as error:
        with suppress(DanishAsrError):  # the disk may be full
            publish_text(output_dir / FAILED, f"{error}\n")
        raise
