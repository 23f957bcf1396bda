"""From a stream of audio to segments, in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Protocol

import numpy as np
from fairseq2.data.tokenizers import Tokenizer
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding.alignment import align_words
from danish_asr.decoding.beam import BeamDecoder
from danish_asr.decoding.decoders import Decoder, decode
from danish_asr.decoding.transcript import Alternative, Segment
from danish_asr.inference.regions import join, separate
from danish_asr.inference.sound import Sound
from danish_asr.inference.voice_activity import VoiceActivity
from danish_asr.inference.windows import Cutter, Cutting, Window

ShowProgress = Callable[[float, float | None], None]
"""Called with the seconds that are done and those that there are, None if unknown."""


_UNKNOWN: Final = "⁇"
"""How SentencePiece writes the unknown symbol, which a model can have learnt to emit for letters
that its tokenizer lacks; a transcript leaves it out."""


class AcousticModel(Protocol):
    """What this file needs of `danish_asr.inference.model.Model`."""

    tokenizer: Tokenizer
    separator: int
    cutting: Cutting
    batch_seconds: float

    def log_probs(
        self, waveforms: Sequence[NDArray[np.float32]], *, batch_seconds: float | None = None
    ) -> list[Tensor]:
        """Return the log-probabilities of each waveform, (S, V)."""


@dataclass
class _Channel:
    """A channel's windows that wait for the model, and those of its unfinished region."""

    sound: int
    number: int | None
    cutter: Cutter
    waiting: list[Window] = field(default_factory=list)
    region: list[tuple[Window, Tensor]] = field(default_factory=list)

    def finish(self, log_probs: Iterator[Tensor], separator: int) -> Iterator[tuple[int, Tensor]]:
        """Take the results of the waiting windows; yield where regions begin, and theirs."""
        for window in self.waiting:
            self.region.append((window, next(log_probs)))
            if window.last:
                yield window.region, separate(join(self.region), self.region, separator)
                self.region = []
        self.waiting = []


def read_regions(
    model: AcousticModel, sound: Sound, progress: ShowProgress | None = None
) -> Iterator[tuple[float, Tensor]]:
    """Yield the speech of a sound's first channel: its start in seconds, its log-probabilities."""
    channel = _Channel(0, None, Cutter(model.cutting, VoiceActivity()))
    for block in chain(sound, [None]):
        samples = np.empty(0, np.float32) if block is None else block[:, 0]
        channel.waiting += channel.cutter(samples, last=block is None)
        if block is None or _seconds([channel]) >= model.batch_seconds:
            log_probs = iter(model.log_probs([window.samples for window in channel.waiting]))
            for start, joined in channel.finish(log_probs, model.separator):
                yield start / SAMPLE_RATE, joined
        if progress is not None:
            progress(sound.seconds, sound.total)


def recognise(
    model: AcousticModel,
    decoder: Decoder,
    sounds: Iterable[Sound],
    *,
    batch_seconds: float,
    progress: ShowProgress | None = None,
) -> Iterator[tuple[int, Segment]]:
    """Yield the number of a sound and a segment, of each sound in the order of their starts.

    Sounds are read one after the other, and share forward passes of about ``batch_seconds``.
    """
    pending: list[tuple[int, Segment]] = []  # a channel of the sound may have earlier ones
    channels: list[_Channel] = []
    for number, sound in enumerate(sounds):
        # Channels of earlier sounds have at most windows that wait.
        channels = [channel for channel in channels if channel.waiting]
        added = []
        for index in range(sound.channels):
            cutter = Cutter(model.cutting, VoiceActivity())
            added.append(_Channel(number, index if sound.split else None, cutter))
        channels += added
        for block in sound:
            for samples, channel in zip(block.T, added, strict=True):
                channel.waiting += channel.cutter(samples)
            if _seconds(channels) >= batch_seconds:
                pending += _recognise(model, decoder, channels, batch_seconds)
                settled = min(channel.cutter.settled for channel in added) / SAMPLE_RATE
                ready = [(n, s) for n, s in pending if n < number or s.start < settled]
                pending = [(n, s) for n, s in pending if n == number and s.start >= settled]
                yield from sorted(ready, key=_order)
            if progress is not None:
                progress(sound.seconds, sound.total)
        for channel in added:
            channel.waiting += channel.cutter(np.empty(0, np.float32), last=True)
    yield from sorted(pending + _recognise(model, decoder, channels, batch_seconds), key=_order)


def _recognise(
    model: AcousticModel, decoder: Decoder, channels: Sequence[_Channel], batch_seconds: float
) -> list[tuple[int, Segment]]:
    """Run the model on the waiting windows; return the segments that are complete."""
    windows = [window.samples for channel in channels for window in channel.waiting]
    log_probs = iter(model.log_probs(windows, batch_seconds=batch_seconds))
    regions = [
        (channel, start / SAMPLE_RATE, joined)
        for channel in channels
        for start, joined in channel.finish(log_probs, model.separator)
    ]
    if not regions:
        return []
    tensors = [joined for _, _, joined in regions]
    lengths = [len(joined) for joined in tensors]
    logits, alternatives = pad_sequence(tensors, batch_first=True), list[Sequence[Alternative]]()
    if isinstance(decoder, BeamDecoder) and decoder.nbest > 1:
        alternatives += decoder.alternatives(logits, lengths)
        texts = [found[0].text for found in alternatives]
    else:
        texts = decode(decoder, logits, lengths)
        alternatives += [()] * len(texts)
    segments = []
    for (channel, offset, joined), text, found in zip(regions, texts, alternatives, strict=True):
        words = align_words(joined, text.replace(_UNKNOWN, ""), model.tokenizer, offset=offset)
        if words:
            segment = Segment(words[0].start, words[-1].end, words, channel.number, found)
            segments.append((channel.sound, segment))
    return segments


def _seconds(channels: Sequence[_Channel]) -> float:
    return sum(len(w.samples) for channel in channels for w in channel.waiting) / SAMPLE_RATE


def _order(numbered: tuple[int, Segment]) -> tuple[int, float]:
    return numbered[0], numbered[1].start
