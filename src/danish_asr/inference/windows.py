"""Cuts a stream into windows of speech that fit a model.

Speech without a long pause is a region. A region that a model can take is one window. A longer one
is cut where it is quietest, into windows that overlap. A short pause within a region can end a
window too, and says where two words may be separated. `danish_asr.inference.regions` puts the
log-probabilities of a region's windows together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.inference.levels import FRAME, levelled, pauses
from danish_asr.inference.voice_activity import CHUNK

Activity = Callable[[NDArray[np.float32], bool], NDArray[np.float32]]
"""Takes the next samples of a stream, and whether they are the last; see `VoiceActivity`."""

_QUIET: Final = 0.01
"""Root mean square of a window that is amplified to it: a model's normalisation adds 1e-5 to the
variance, which matters below."""


@dataclass(frozen=True)
class Cutting:
    """How a stream is cut; times in seconds."""

    speech: float = 0.5
    """Probability from which a chunk begins speech."""

    silence: float = 0.35
    """Probability below which a chunk within speech is silence."""

    pause: float = 0.6
    """Silence that ends a region."""

    breath: float = 0.09
    """Pause within a window, as quiet as the noise, that may separate words.
    A stop consonant has about 0.05 s of silence."""

    doubt: float = 0.03
    """A shorter pause, where a language model may separate words."""

    gap: float = 0.12
    """Silence within a region that ends a window of ``shortest`` seconds or more, and separates
    words."""

    shortest: float = 1.0
    """So that words keep their context."""

    margin: float = 0.3
    """Audio that a region has before and after its speech."""

    longest: float = 28.0
    """A region that is longer is cut; with the overlap, what models take that are trained on 30 s
    and more."""

    overlap: float = 1.0
    """What a window has on either side of a cut."""

    joined: float = 120.0
    """A region ends at the first cut after this, so that memory stays constant."""

    @classmethod
    def for_training(cls, longest: float) -> Cutting:
        """For a model that was trained on utterances of up to ``longest`` seconds."""
        return cls(longest=min(cls.longest, max(longest - 2 * cls.overlap, 4 * cls.overlap)))


@dataclass(frozen=True, eq=False)
class Window:
    """Audio for one pass of the model, and what of it counts."""

    samples: NDArray[np.float32]
    """Mono, 16 kHz; speakers of different levels are levelled, and a quiet window amplified."""

    region: int
    """The sample of the stream at which its region begins."""

    start: int
    """The sample of the stream at which it begins: a whole number of frames after its region."""

    cut: int
    """The sample at which the next window of the region takes over."""

    last: bool
    """Whether it is the last of its region."""

    breaths: Sequence[int]
    """Samples of the stream, each in the middle of a short pause, up to the cut."""

    doubts: Sequence[int]
    """The same of shorter pauses, which can be silences of stop consonants."""


class Cutter:
    """Takes a stream of one channel block by block and returns windows when they are complete.

    Positions are samples of the stream. Within a region, in this order::

        _settled   _region      _start   _cut       _spoken    now
        |          |            |        |          |          |
        end of     the region   the window begins,  end of the end of the
        the last   begins       and counts from     last       last chunk
        region                  its cut on          speech

    Between ``_start`` and ``_cut`` the window overlaps the one before.
    """

    def __init__(self, cutting: Cutting, activity: Activity) -> None:
        self.cutting = cutting
        self._activity = activity
        self._chunks = 0  # that the activity is known of
        self._samples = np.empty(0, np.float32)  # those kept: all that a window may still need
        self._base = 0  # the position of the first one kept
        self._region: int | None = None  # None between regions
        self._settled = 0
        self._start = 0
        self._cut = 0
        self._spoken = 0

    def __call__(self, samples: NDArray[np.float32], *, last: bool = False) -> Iterator[Window]:
        """Yield the windows that are complete with these samples; ``last`` ends the stream."""
        self._samples = np.concatenate([self._samples, samples])
        for probability in self._activity(samples, last):
            self._chunks += 1
            yield from self._advance(float(probability))
        if last and self._region is not None:
            yield self._end_region()
        if self._region is None:
            # Where a region would begin that the next chunk belongs to.
            begin = self._chunks * CHUNK - self._size(self.cutting.margin)
            self._settled = max(self._settled, begin)
            self._start = self._settled
        self._samples = self._samples[max(0, self._start - self._base) :]
        self._base = max(self._base, self._start)

    @property
    def settled(self) -> int:
        """The sample before which no window will begin that is not out yet."""
        return self._settled if self._region is None else self._region

    def _size(self, seconds: float) -> int:
        """Seconds in samples, a whole number of frames."""
        return round(seconds * SAMPLE_RATE / FRAME) * FRAME

    def _advance(self, probability: float) -> Iterator[Window]:
        now = self._chunks * CHUNK
        if self._region is None:
            if probability < self.cutting.speech:
                return
            begin = now - CHUNK - self._size(self.cutting.margin)
            self._begin_region(max(self._settled, begin))
            self._spoken = now
        if probability >= self.cutting.silence:
            yield from self._end_at_gap(now - CHUNK - self._spoken)
            self._spoken = now
        elif now - self._spoken >= self._size(self.cutting.pause):
            yield self._end_region()
            return
        if now >= self._cut + self._size(self.cutting.longest + self.cutting.overlap):
            yield self._cut_window()

    def _begin_region(self, position: int) -> None:
        self._region = position
        self._start = position
        self._cut = position

    def _end_at_gap(self, silent: int) -> Iterator[Window]:
        """Speech goes on after so many samples."""
        assert self._region is not None
        middle = self._spoken + silent // 2
        middle -= (middle - self._region) % FRAME
        if silent >= self.cutting.gap * SAMPLE_RATE and (
            middle - self._start >= self._size(self.cutting.shortest)
        ):
            yield self._window(middle + FRAME, middle, last=False, at_gap=True)
            self._start = middle
            self._cut = middle

    def _end_region(self) -> Window:
        end = self._spoken + self._size(self.cutting.margin)
        end = min(end, self._base + len(self._samples))
        window = self._window(end, end, last=True)
        self._region = None
        self._settled = end
        return window

    def _cut_window(self) -> Window:
        """Cut the window in its second half, where the fifth of a second around is quietest."""
        assert self._region is not None
        longest = self._size(self.cutting.longest)
        overlap = self._size(self.cutting.overlap)
        first = self._cut + longest // (2 * FRAME) * FRAME
        last = self._cut + longest
        around = self._size(0.1)
        part = self._samples[first - around - self._base : last + around - self._base]
        energy = np.square(part.reshape(-1, FRAME)).mean(axis=1)
        frames = 2 * around // FRAME
        smooth = np.convolve(energy, np.ones(frames), mode="valid")
        cut = first + int(np.argmin(smooth[: (last - first) // FRAME])) * FRAME
        ends = cut - self._region >= self._size(self.cutting.joined)
        window = self._window(cut if ends else cut + overlap, cut, last=ends)
        if ends:
            self._begin_region(cut)
        else:
            self._start = cut - overlap
            self._cut = cut
        return window

    def _window(self, end: int, cut: int, *, last: bool, at_gap: bool = False) -> Window:
        assert self._region is not None
        samples = levelled(self._samples[self._start - self._base : end - self._base])
        if 0 < (level := float(np.sqrt(np.square(samples).mean()))) < _QUIET:
            samples *= np.float32(_QUIET / level)
        breaths, doubts = list[int](), list[int]()
        for middle, seconds in pauses(samples, self.cutting.doubt):
            place = self._start + middle
            place -= (place - self._region) % FRAME
            if self._cut < place < cut:
                (breaths if seconds >= self.cutting.breath else doubts).append(place)
        if at_gap:
            breaths.append(cut)
        return Window(samples, self._region, self._start, cut, last, breaths, doubts)
