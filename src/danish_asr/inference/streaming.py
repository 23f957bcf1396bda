"""From a stream of audio to segments, in constant memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding import Decoder, decode
from danish_asr.decoding.alignment import align_words
from danish_asr.decoding.transcript import Segment
from danish_asr.inference.acoustic_model import AcousticModel
from danish_asr.inference.joining import join, separate
from danish_asr.inference.sound import Sound
from danish_asr.inference.voice_activity import VoiceActivity
from danish_asr.inference.windows import Cutter, Cutting, Window

ShowProgress = Callable[[float, float | None], None]
"""Called with the seconds that are done and those that there are, None if unknown."""


_UNKNOWN: Final = "⁇"
"""How SentencePiece writes the unknown symbol, which a model can have learnt to emit for letters
that its tokenizer lacks; a transcript leaves it out."""


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
            found = iter(model.log_probs([window.samples for window in channel.waiting]))
            for start, joined in channel.finish(found, model.separator):
                yield start / SAMPLE_RATE, joined
        if progress is not None:
            progress(sound.seconds, sound.total)


@dataclass
class Recogniser:
    """Recognises sounds: a forward pass for about ``batch_seconds`` of their speech."""

    model: AcousticModel
    decoder: Decoder
    batch_seconds: float
    cutting: Cutting

    def __call__(
        self, sounds: Iterable[Sound], progress: ShowProgress | None = None
    ) -> Iterator[tuple[int, Segment]]:
        """Yield the number of a sound and a segment, of each sound in the order of their starts.

        Sounds are read one after the other, and share forward passes.
        """
        found: list[tuple[int, Segment]] = []
        channels: list[_Channel] = []
        for number, sound in enumerate(sounds):
            # Those of earlier sounds have at most windows that wait.
            channels = [channel for channel in channels if channel.waiting]
            added = [
                _Channel(
                    number, index if sound.split else None, Cutter(self.cutting, VoiceActivity())
                )
                for index in range(sound.channels)
            ]
            channels += added
            for block in sound:
                for samples, channel in zip(block.T, added, strict=True):
                    channel.waiting += channel.cutter(samples)
                if _seconds(channels) >= self.batch_seconds:
                    found += self._recognise(channels)
                    settled = min(channel.cutter.settled for channel in added) / SAMPLE_RATE
                    ready = [(n, s) for n, s in found if n < number or s.start < settled]
                    found = [(n, s) for n, s in found if n == number and s.start >= settled]
                    yield from sorted(ready, key=_order)
                if progress is not None:
                    progress(sound.seconds, sound.total)
            for channel in added:
                channel.waiting += channel.cutter(np.empty(0, np.float32), last=True)
        yield from sorted(found + self._recognise(channels), key=_order)

    def _recognise(self, channels: Sequence[_Channel]) -> list[tuple[int, Segment]]:
        windows = [window.samples for channel in channels for window in channel.waiting]
        log_probs = iter(self.model.log_probs(windows, batch_seconds=self.batch_seconds))
        regions = [
            (channel, start / SAMPLE_RATE, joined)
            for channel in channels
            for start, joined in channel.finish(log_probs, self.model.separator)
        ]
        if not regions:
            return []
        tensors = [joined for _, _, joined in regions]
        lengths = [len(joined) for joined in tensors]
        texts = decode(self.decoder, pad_sequence(tensors, batch_first=True), lengths)
        segments = []
        for (channel, offset, joined), text in zip(regions, texts, strict=True):
            known = text.replace(_UNKNOWN, "")
            words = align_words(joined, known, self.model.tokenizer, offset=offset)
            if words:
                segment = Segment(words[0].start, words[-1].end, words, channel.number)
                segments.append((channel.sound, segment))
        return segments


def _seconds(channels: Sequence[_Channel]) -> float:
    return sum(len(w.samples) for channel in channels for w in channel.waiting) / SAMPLE_RATE


def _order(found: tuple[int, Segment]) -> tuple[int, float]:
    return found[0], found[1].start
