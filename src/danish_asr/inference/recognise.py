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

_ChannelWindow = tuple[int | None, Window]

_LONGEST_SEGMENT: Final = 30.0

_UNKNOWN: Final = "⁇"
"""How SentencePiece writes the unknown symbol, which a model can have learnt to emit for letters
that its tokenizer lacks; a transcript leaves it out."""


class Heard(NamedTuple):
    """What a model hears in a window of speech."""

    channel: int | None  # from 0; None if the channels were mixed
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
    batch: list[_ChannelWindow] = []
    seconds, limit = 0.0, model.seconds_of_batch(batch_seconds)
    for channel, window in _windows(sound, model.longest, progress):
        batch.append((channel, window))
        seconds += len(window.samples) / SAMPLE_RATE
        if seconds >= limit:
            yield from _hear(model, batch, limit)
            batch, seconds = [], 0.0
    yield from _hear(model, batch, limit)


def _windows(
    sound: Sound, longest: float, progress: ShowProgress | None
) -> Iterator[_ChannelWindow]:
    """Cut the channels of a sound into windows of speech."""
    channels: Sequence[int | None] = range(sound.channels) if sound.split else [None]
    cutters = [Cutter(longest, VoiceActivity()) for _ in channels]
    for block in sound:
        for channel, cutter, samples in zip(channels, cutters, block.T, strict=True):
            for window in cutter(samples):
                yield channel, window
        if progress is not None:
            progress(sound.seconds, sound.total)
    for channel, cutter in zip(channels, cutters, strict=True):
        for window in cutter(np.empty(0, np.float32), last=True):
            yield channel, window


def _hear(model: Model, batch: Sequence[_ChannelWindow], batch_seconds: float) -> Iterator[Heard]:
    """Run the model on the windows of a batch, and decode each of them alone."""
    rows = model.log_probs([window.samples for _, window in batch], batch_seconds=batch_seconds)
    texts = decode(model.decoder, rows)
    for (channel, window), log_probs, text in zip(batch, rows, texts, strict=True):
        start = window.start / SAMPLE_RATE
        spoken = SpokenText.of(text.replace(_UNKNOWN, ""), model.tokenizer)
        words = spoken.align(log_probs, offset=start)
        yield Heard(channel, start, window.continues, log_probs, words)


def segments(heard: Iterable[Heard]) -> Iterator[Segment]:
    """Join windows to segments, up to a pause of 0.6 s and at most 30 s, as soon as they end."""
    words: dict[int | None, list[Word]] = {}  # of a channel's segment so far
    for item in heard:
        own = words.setdefault(item.channel, [])
        end = item.words[-1].end if item.words else item.start
        if own and not (item.continues and end - own[0].start <= _LONGEST_SEGMENT):
            yield Segment.of(own, item.channel)
            own = words[item.channel] = []
        own += item.words
    for channel, own in words.items():
        if own:
            yield Segment.of(own, channel)
