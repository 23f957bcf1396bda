"""From a recording to words with times, in constant memory.

A sound comes in; windows of its speech go through the model, each is decoded alone, and its words
get times. Out come `Heard` windows, or segments of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from torch import Tensor

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding.alignment import SpokenText
from danish_asr.decoding.decoders import decode
from danish_asr.decoding.transcript import Segment, Word
from danish_asr.inference.sound import Sound
from danish_asr.inference.voice_activity import VoiceActivity
from danish_asr.inference.windows import Cutter, Window

if TYPE_CHECKING:
    from danish_asr.inference.model import Model

ShowProgress = Callable[[float, float | None], None]
"""Called with the seconds that are done and those that there are, None if the file does not say."""

_LONGEST_SEGMENT: Final = 30.0

_UNKNOWN: Final = "⁇"
"""How SentencePiece writes the unknown symbol, which a model can have learnt to emit for letters
that its tokenizer lacks; a transcript leaves it out."""


class Heard(NamedTuple):
    """What a model hears in a window of speech."""

    start: float  # seconds from the beginning of the recording
    continues: bool  # whether its speech continues that of the window before
    log_probs: Tensor  # (S, V)
    words: list[Word]


def hear(
    model: Model,
    sound: Sound,
    *,
    batch_seconds: float | None = None,
    progress: ShowProgress | None = None,
) -> Iterator[Heard]:
    """Yield the windows of a sound, which share forward passes of about ``batch_seconds``.

    Raises TranscriptionError if it is damaged or empty.
    """
    batch: list[Window] = []
    seconds, limit = 0.0, model.seconds_of_batch(batch_seconds)
    for window in _windows(sound, model.longest, progress):
        batch.append(window)
        seconds += len(window.samples) / SAMPLE_RATE
        if seconds >= limit:
            yield from _hear(model, batch, limit)
            batch, seconds = [], 0.0
    yield from _hear(model, batch, limit)


def _windows(sound: Sound, longest: float, progress: ShowProgress | None) -> Iterator[Window]:
    """Cut a sound into windows of speech."""
    cutter = Cutter(longest, VoiceActivity())
    for block in sound:
        yield from cutter(block)
        if progress is not None:
            progress(sound.seconds, sound.total)
    yield from cutter(np.empty(0, np.float32), last=True)


def _hear(model: Model, batch: Sequence[Window], batch_seconds: float) -> Iterator[Heard]:
    """Run the model on the windows of a batch, and decode each of them alone."""
    rows = model.log_probs([window.samples for window in batch], batch_seconds=batch_seconds)
    texts = decode(model.decoder, rows)
    for window, log_probs, text in zip(batch, rows, texts, strict=True):
        start = window.start / SAMPLE_RATE
        spoken = SpokenText.of(text.replace(_UNKNOWN, ""), model.tokenizer)
        words = spoken.align(log_probs, offset=start)
        yield Heard(start, window.continues, log_probs, words)


def segments(heard: Iterable[Heard], channel: int | None = None) -> Iterator[Segment]:
    """Join windows to segments, up to a pause of 0.6 s and at most 30 s, as soon as they end."""
    words: list[Word] = []  # of the segment so far
    for item in heard:
        end = item.words[-1].end if item.words else item.start
        if words and not (item.continues and end - words[0].start <= _LONGEST_SEGMENT):
            yield Segment.of(words, channel)
            words = []
        words += item.words
    if words:
        yield Segment.of(words, channel)
