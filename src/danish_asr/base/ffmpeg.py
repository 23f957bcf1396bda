"""Read audio through FFmpeg and PyAV, on the clock of its container.

It is read forwards, to the end, a block at a time: the first of several audio streams, which
``streams`` counts, and files that were joined one after the other. Second 0 is where the
container's first stream begins. Where timestamps leave a gap of `SLACK` or more there is silence,
which ``filled`` counts; where they go back, the sound goes on. A codec's delay is left out. A frame
with another rate or other channels than the first is brought to those.
"""

from collections.abc import Generator, Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import IO, Any, Final, cast

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.container import InputContainer

from danish_asr.base.containers import (
    SLACK,
    UNKNOWN_LENGTH,
    Samples,
    has_no_end,
    is_half_a_frame,
    missing_share,
    stated_in_mp3,
    stream_of,
)
from danish_asr.base.errors import AudioError

_LONGEST_GAP: Final = 60  # seconds
_LAST_PICTURE: Final = 1  # seconds that it may be shown for
_FRAMES_AT_ONCE: Final = 1 << 14
_DAMAGED: Final = (av.FFmpegError, ValueError, IndexError)
"""What PyAV raises for a damaged file."""

av.logging.set_level(av.logging.PANIC)  # what is wrong with a file is said by an error


class ForwardDecoder:
    """The first audio stream of a file, through PyAV.

    It seeks by decoding, because FFmpeg's own way is not exact. Opening and reading raise
    `AudioError` for a file that cannot be decoded or is refused. ``begins`` are the places of the
    files in a joined one: FFmpeg would lose what is before or behind a joint.
    """

    frames, header_fault, closed = UNKNOWN_LENGTH, "", False

    def __init__(self, audio: bytes | Path, begins: Sequence[int] = (0,)) -> None:
        self._audio, self._begins = audio, begins
        self.samplerate, self.channels = 1, 1  # of the first frame
        self.streams = 1  # of sound, that there are
        self.expected: float | None = None  # seconds; FFmpeg's estimate, if it has one
        self._open()

    def _open(self) -> None:
        self.filled: list[tuple[int, int]] = []  # first frames and lengths of silence put in
        self._decoded = 0  # frames
        self._origin, self._end = 0.0, 0.0  # second 0 of its timestamps, and where its sound ends
        self._packet = b""  # the last one of the sound
        self.may_be_cut = False  # known at the end: no mark of it, or half a frame before it
        self._blocks = self._decode()
        self._error: AudioError | None = None  # that ended the file, for whoever reads on
        block = self._next()
        self._begin = 0  # of what was decoded and is not forgotten
        self._held = [np.empty((0, 1), np.float32) if block is None else block]

    def close(self) -> None:
        """Close the file."""
        self._blocks.close()

    def read(self, first: int, frames: int, *, again: int | None = None) -> Samples:
        """Decode up to ``frames`` frames from ``first`` on to ``(frames, channels)``.

        What is before ``again`` (else ``first``) is forgotten: to read it means to decode the file
        from its start.
        """
        if first < self._begin:
            self.close()
            self._open()
        kept = first if again is None else again
        end = self._begin + sum(map(len, self._held))
        while end < first + frames and (block := self._next()) is not None:
            if end <= kept:
                self._begin, self._held = end, []
            self._held.append(block)
            end += len(block)
        held = np.concatenate(self._held)
        samples: Samples = held[max(0, first - self._begin) :][:frames]
        forgotten = min(max(0, kept - self._begin), len(held))
        self._begin, self._held = self._begin + forgotten, [held[forgotten:]]
        return samples

    def _next(self) -> Samples | None:
        """The next block, None at the end; the error that ended the file is raised again."""
        if self._error is not None:
            raise self._error
        try:
            return next(self._blocks, None)
        except AudioError as error:
            self._error = error
            raise

    def _decode(self) -> Generator[Samples]:
        """Yield the blocks of the file; its rate and channels are known with the first one."""
        try:
            with (
                stream_of(self._audio) as file,
                av.open(self._part(file, 0), "r", metadata_errors="ignore") as container,
            ):
                if not container.streams.audio:
                    raise AudioError("no sound in the file")
                for block in self._on_its_clock(container, file):
                    yield block
                    self._decoded += len(block)
        except _DAMAGED:
            raise AudioError("undecodable audio") from None

    def _on_its_clock(self, container: InputContainer, file: IO[bytes]) -> Iterator[Samples]:
        self.expected = (container.duration or 0) / av.time_base or None
        frames = self._all_frames(container, file)
        for first in frames:  # whose rate that in a header may be half of, in HE-AAC
            self.samplerate, self.channels = first.sample_rate, first.layout.nb_channels
            frames = chain([first], frames)
            break
        held = _Held()
        try:
            for _, alike in groupby(frames, _kind_of):
                held, resampler = _Held(), av.AudioResampler("fltp", first.layout, self.samplerate)
                for frame in alike:
                    time = self._end if frame.time is None else frame.time - self._origin
                    if (gap := time - self._end) >= SLACK:
                        yield from held.add(resampler.resample(None))
                        yield from held.all()
                        yield self._silence(gap)
                        resampler = av.AudioResampler("fltp", first.layout, self.samplerate)
                    self._end = time + frame.samples / frame.sample_rate
                    frame.pts = None  # a resampler of its own clock would warn
                    yield from held.add(resampler.resample(frame))
                yield from held.add(resampler.resample(None))
                yield from held.all()
        except (AudioError, *_DAMAGED):
            yield from held.all()
            raise
        self.may_be_cut = _may_be_cut(container, file, self._packet)

    def _silence(self, gap: float) -> Samples:
        if gap > _LONGEST_GAP:
            raise AudioError(f"a gap of more than {_LONGEST_GAP} s in its timestamps")
        silence = np.zeros((round(gap * self.samplerate), self.channels), np.float32)
        self.filled.append((self._decoded, len(silence)))
        return silence

    def _part(self, file: IO[bytes], number: int) -> Any:
        if len(self._begins) == 1:
            return file
        file.seek(self._begins[number])
        return _Part(file, [*self._begins[1:], None][number])

    def _all_frames(self, container: InputContainer, file: IO[bytes]) -> Iterator[AudioFrame]:
        yield from self._frames(container, file)
        for number in range(1, len(self._begins)):
            with av.open(self._part(file, number), "r", metadata_errors="ignore") as behind:
                yield from self._frames(behind, file)

    def _frames(self, container: InputContainer, file: IO[bytes]) -> Iterator[AudioFrame]:
        """Yield the frames of the first audio stream, also after a packet that is none.

        Such packets stand where files were joined. One at the end is the rest of a frame that was
        cut. The sound goes on where that of the container before ended.
        """
        stream, error = container.streams.audio[0], None
        start, begin = (container.start_time or 0) / av.time_base, self._end
        self._origin, ends = start - begin, dict[int, int]()  # of packets by stream, on its clock
        for packet in container.demux():
            place = packet.stream_index
            if packet.pts is not None:
                ends[place] = max(ends.get(place, 0), packet.pts + (packet.duration or 0))
            if place != stream.index:
                self.streams = max(self.streams, len(container.streams.audio))
                continue
            if packet.size:
                self._packet = bytes(packet)
            try:
                frames = packet.decode()
            except av.InvalidDataError as found:
                error = found
            else:
                error = None if frames else error
                yield from cast("list[AudioFrame]", frames)
        if error is not None:
            raise error
        clocks = [stream.time_base or 0 for stream in container.streams]
        last = max((float(end * clocks[place]) for place, end in ends.items()), default=0.0)
        is_flac = container.format.name == "flac"
        missing = (container.duration or 0) / av.time_base - last if is_flac else 0.0
        if max(missing, _missing_seconds(container, file, self._end - begin, last - start)) > SLACK:
            raise AudioError("truncated audio")


class _Part:
    """A file from where it is to ``end``; None: to its own."""

    def __init__(self, file: IO[bytes], end: int | None) -> None:
        self._file, self._end = file, end

    def read(self, size: int) -> bytes:
        left = size if self._end is None else self._end - self._file.tell()
        return self._file.read(min(size, left))


def _kind_of(frame: AudioFrame) -> tuple[int, str, str]:
    return frame.sample_rate, frame.layout.name, frame.format.name


class _Held:
    """Frames of one kind that become one array: an array each would take longer than decoding."""

    def __init__(self) -> None:
        self._frames = av.AudioFifo()

    def add(self, frames: list[AudioFrame]) -> Iterator[Samples]:
        for frame in frames:
            frame.pts = None
            self._frames.write(frame)
        if self._frames.samples >= _FRAMES_AT_ONCE:
            yield from self.all()

    def all(self) -> Iterator[Samples]:
        if (frame := self._frames.read()) is not None:
            yield np.asarray(frame.to_ndarray().T, np.float32)


def _missing_seconds(
    container: InputContainer, file: IO[bytes], sound: float, last: float
) -> float:
    """How much longer a container says that it is than where its sound and last packet end.

    0 or less if it is not, or does not say.
    """
    name, stream = container.format.name, container.streams.audio[0]
    if name in {"iff", "avi", "asf"}:
        return missing_share(file) * sound
    if name.startswith(("mov,mp4", "nistsphere")):
        return float((stream.duration or 0) * (stream.time_base or 0)) - sound
    if name.startswith(("matroska", "flv", "caf")):  # end of the last stream, perhaps a picture
        picture = _LAST_PICTURE * (len(container.streams) > 1)
        return (container.duration or 0) / av.time_base - max(sound, last) - picture
    return stated_in_mp3(file, stream.rate) - sound if name == "mp3" else 0.0


def _may_be_cut(container: InputContainer, file: IO[bytes], last: bytes) -> bool:
    """Whether an OGG has no mark of its end, or the ``last`` packet of an MP3 is half a frame."""
    if container.format.name == "ogg":
        return has_no_end(file)
    stream = container.streams.audio[0]
    is_mp3 = container.format.name == "mp3" and stream.codec.name.startswith("mp3")
    return is_mp3 and is_half_a_frame(last, stream.rate)
