"""Where reports may be written: over an earlier one, and never over what a score is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from danish_asr.errors import ConfigError

_REPORTS: Final = (".html", ".csv", ".md")
"""Neither a run nor a dataset has such files of its own."""

_SCORES: Final = b'{\n  "settings"'
"""How JSON with scores begins."""


def check_outputs(
    outputs: Iterable[Path | None], *, inputs: Sequence[Path], folders: Sequence[Path] = ()
) -> None:
    """Refuse outputs that would harm what is read, all of them at once, before any work is done.

    Args:
        outputs: Files to write; None for what is not asked for.
        inputs: Files that are read.
        folders: Directories that are read from: a run, a dataset. An earlier report in there may be
            replaced, and no other file.

    Raises:
        ConfigError: An output is an input, stands twice, or is no place for a report.
    """
    taken = {path.resolve() for path in inputs}
    faults = []
    for output in outputs:
        if output is None:
            continue
        place = output.resolve()
        if place in taken:
            faults.append(f"{output} is read or written already; choose another output")
        elif place.exists() and not place.is_file():
            faults.append(f"{output} is no file; choose a file's name")
        elif any(place.is_relative_to(folder.resolve()) for folder in folders) and _is_other(place):
            faults.append(f"{output} belongs to what is read; choose another output")
        taken.add(place)
    if faults:
        raise ConfigError(faults, where="the command")


def _is_other(place: Path) -> bool:
    """Whether a file is there and no earlier report."""
    if not place.exists() or place.suffix in _REPORTS:
        return False
    with place.open("rb") as stream:
        return stream.read(len(_SCORES)) != _SCORES
