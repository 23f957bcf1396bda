"""Transcribe many recordings: short ones share batches, a long one is streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from danish_asr.base.errors import DanishAsrError
from danish_asr.decoding.transcript import Transcript
from danish_asr.inference.model import Model
from danish_asr.inference.sound import open_sound
from danish_asr.inference.streaming import Progress

SHORT: Final = 30.0
"""Seconds; a longer recording is alone."""

GROUP: Final = 64
"""Most short recordings at a time; where the command is killed, these start again."""

_BYTES_PER_SECOND: Final = 16_000
"""Of a file that does not say its length; 128 kbit/s."""

Result: TypeAlias = Transcript | DanishAsrError


def transcribe_many(
    model: Model,
    paths: Sequence[Path],
    progress: Callable[[Path], Progress],
    **options: Any,
) -> Iterator[tuple[Path, Result]]:
    """Yield each recording with its transcript, or with the error if it cannot be transcribed.

    ``progress`` returns what is called while a recording is read; ``options`` are those of
    `Model.transcribe`.
    """
    for group in _groups(paths):
        if len(group) > 1:
            try:
                transcripts = model.transcribe([*group], **options)
            except DanishAsrError:
                pass  # one by one, to find which it is
            else:
                yield from zip(group, transcripts, strict=True)
                continue
        for path in group:
            try:
                yield path, model.transcribe(path, progress=progress(path), **options)
            except DanishAsrError as error:
                yield path, error


def _groups(paths: Sequence[Path]) -> Iterator[list[Path]]:
    short: list[Path] = []
    for path in paths:
        if _seconds(path) > SHORT:
            yield [path]
        else:
            short.append(path)
        if len(short) == GROUP:
            yield short
            short = []
    if short:
        yield short


def _seconds(path: Path) -> float:
    """How long a recording is, about; infinite if it cannot be opened, so that it is alone."""
    try:
        with open_sound(path) as sound:
            return sound.total or path.stat().st_size / _BYTES_PER_SECOND
    except DanishAsrError:
        return float("inf")
