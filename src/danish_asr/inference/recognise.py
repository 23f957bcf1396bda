"""From recordings to words with times, in constant memory.

Recordings come in; windows of their speech go through the model, each is decoded alone, and its
words get times. Out come `Heard` windows, or segments and transcripts of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from torch import Tensor

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding.alignment import align_words
from danish_asr.decoding.decoders import decode
from danish_asr.decoding.transcript import Segment, Word
from danish_asr.inference.sound import Audio, Channels, Sound, open_sound
from danish_asr.inference.voice_activity import VoiceActivity
from danish_asr.inference.windows import Cutter, Window

if TYPE_CHECKING:
    from danish_asr.inference.model import Model

ShowProgress = Callable[[float, float | None], None]
"""Called with the seconds that are done and those that there are, None if unknown."""

_LONGEST_SEGMENT: Final = 30.0

_UNKNOWN: Final = "⁇"
"""How SentencePiece writes the unknown symbol, which a model can have learnt to emit for letters
that its tokenizer lacks; a transcript leaves it out."""


class Heard(NamedTuple):
    """What a model hears in a window of speech."""

    number: int
    """Of the recording."""
    channel: int | None
    """From 0; None if the channels were mixed."""
    start: float
    """Seconds from the beginning of the recording."""
    continues: bool
    """Whether its speech continues that of the window before."""
    log_probs: Tensor
    """(S, V)"""
    words: list[Word]


class Ended(NamedTuple):
    """A recording from which no more windows come."""

    number: int
    seconds: float
    file: str | None
    error: Exception | None
    """Why it could not be read to its end."""


class _Waiting(NamedTuple):
    """A window that waits for the model."""

    number: int
    channel: int | None
    window: Window


def hear(
    model: Model,
    audios: Iterable[Audio],
    *,
    rate: int | None = None,
    channels: Channels = "mix",
    batch_seconds: float | None = None,
    progress: ShowProgress | None = None,
) -> Iterator[Heard | Ended]:
    """Yield the windows of recordings, and after those of each its end.

    Recordings are read one after the other, and share forward passes of about ``batch_seconds``.
    One that cannot be read ends with its error, and the next begins.
    """
    batch: list[_Waiting | Ended] = []
    seconds, limit = 0.0, model.seconds_of_batch(batch_seconds)
    for number, audio in enumerate(audios):
        opened = open_sound(audio, rate=rate, channels=channels)
        for item in _windows(model.longest, number, opened, progress):
            batch.append(item)
            if isinstance(item, _Waiting):
                seconds += len(item.window.samples) / SAMPLE_RATE
            if seconds >= limit:
                yield from _hear(model, batch, limit)
                batch, seconds = [], 0.0
    yield from _hear(model, batch, limit)


def _windows(
    longest: float,
    number: int,
    opened: AbstractContextManager[Sound],
    progress: ShowProgress | None,
) -> Iterator[_Waiting | Ended]:
    """Cut a recording into windows of speech."""
    sound, error = Sound(iter(()), SAMPLE_RATE, ""), None
    try:
        with opened as sound:
            cutters = [Cutter(longest, VoiceActivity()) for _ in range(sound.channels)]
            for block in sound:
                for index, cutter in enumerate(cutters):
                    for window in cutter(block[:, index]):
                        yield _Waiting(number, index if sound.split else None, window)
                if progress is not None:
                    progress(sound.seconds, sound.total)
            for index, cutter in enumerate(cutters):
                for window in cutter(np.empty(0, np.float32), last=True):
                    yield _Waiting(number, index if sound.split else None, window)
    except Exception as fault:  # noqa: BLE001 - whatever breaks, other recordings go on
        error = fault
    yield Ended(number, sound.seconds, sound.file, error)


def _hear(
    model: Model, batch: Sequence[_Waiting | Ended], batch_seconds: float
) -> Iterator[Heard | Ended]:
    """Run the model on the windows of a batch, and decode each of them alone."""
    waiting = [item for item in batch if isinstance(item, _Waiting)]
    waveforms = [item.window.samples for item in waiting]
    rows = model.log_probs(waveforms, batch_seconds=batch_seconds)
    texts = decode(model.decoder, rows)
    heard = zip(waiting, rows, texts, strict=True)
    for item in batch:
        if isinstance(item, Ended):
            yield item
            continue
        (number, channel, window), log_probs, text = next(heard)
        start = window.start / SAMPLE_RATE
        text = text.replace(_UNKNOWN, "")
        words = align_words(log_probs, text, model.tokenizer, offset=start)
        yield Heard(number, channel, start, window.continues, log_probs, words)


def segments(heard: Iterable[Heard | Ended]) -> Iterator[tuple[int, Segment] | Ended]:
    """Join windows to segments, up to a pause of 0.6 s and at most 30 s.

    Each comes with the number of its recording, as soon as it ends. The end of a recording comes
    after its last segment.
    """
    words: dict[int | None, list[Word]] = {}  # of a channel's segment so far
    for item in heard:
        if isinstance(item, Ended):
            for channel in [*words]:
                yield from _segment(item.number, channel, words.pop(channel))
            yield item
            continue
        own = words.setdefault(item.channel, [])
        end = item.words[-1].end if item.words else item.start
        if own and not (item.continues and end - own[0].start <= _LONGEST_SEGMENT):
            yield from _segment(item.number, item.channel, own)
            own = words[item.channel] = []
        own += item.words


def _segment(number: int, channel: int | None, words: list[Word]) -> Iterator[tuple[int, Segment]]:
    if words:
        yield number, Segment(words[0].start, words[-1].end, words, channel)
