"""Open audio: which of two decoders reads a file.

libsndfile reads WAV, AIFF, CAF, AU and FLAC, where a seek is exact. FFmpeg (`base.ffmpeg`) reads
the rest: MP3, OGG, MP4, WebM, transport streams, NIST SPHERE and others, FLACs that were joined or
cut out of others, a WAV of MP3 or GSM or whose header has no length. miniaudio reads a whole FLAC
of one channel, for conversion and training, in half of the time. Refused are files that none of
them reads, one that is shorter or longer than its header says, and a gap of more than a minute.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import soundfile
from miniaudio import ffi, lib

from danish_asr.base.containers import (
    MORE_AUDIO,
    SLACK,
    STREAMED,
    UNKNOWN_LENGTH,
    Samples,
    begins_late,
    head_of,
    is_compressed_caf,
    is_followed_by_another,
    is_of_libsndfile,
    joints,
    stream_of,
)
from danish_asr.base.errors import AudioError

if TYPE_CHECKING:
    from danish_asr.base.ffmpeg import ForwardDecoder

_WAV: Final = {"WAV", "WAVEX", "RF64"}
_ENDS: Final = _WAV | {"W64", "AU"}
"""Formats of which libsndfile's log says where the samples end."""
_NOT_SOUGHT: Final = {"MPEG_LAYER_III", "GSM610"}
"""Codecs in a WAV in which libsndfile does not find a sample, or refuses to seek."""
_CORRECTED: Final = re.compile(
    r"(?:data|Data Size|SSND|riff|Riff size) *: (\d+) \(should be (\d+)\)"
)
"""Lengths in libsndfile's log, of WAV, AU, AIFF, W64 and RF64, and what they should be."""


class _SoundFile(soundfile.SoundFile):  # type: ignore[misc]  # untyped
    """A file that libsndfile reads, used as a `ForwardDecoder`."""

    filled: Sequence[tuple[int, int]] = ()
    may_be_cut, streams = False, 1

    @property
    def expected(self) -> float | None:
        return self.frames / self.samplerate if self.frames < UNKNOWN_LENGTH else None

    def seekable(self) -> bool:
        """False without a known length: soundfile would seek after each read, which fails."""
        return bool(super().seekable()) and self.frames < UNKNOWN_LENGTH

    def read(self, first: int, frames: int, **_: Any) -> Samples:
        try:
            if self.tell() != first:
                self.seek(first)
            samples: Samples = super().read(frames, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError:
            self.close()  # its place is unknown
            raise AudioError("undecodable audio") from None
        return samples

    @property
    def header_fault(self) -> str:
        """What is wrong with the length in the header; empty if nothing is.

        libsndfile reads the samples that are there, and refuses a FLAC or CAF that is cut itself.
        Its log has the length in the header, that which it should be, and where something begins
        behind the samples that is no chunk of a WAV or W64.
        """
        length = self._noted("Length", 0)
        slack = SLACK * self.samplerate * length / max(1, self.frames)
        for stated, there in _CORRECTED.findall(self.extra_info):
            if int(there) + slack < int(stated) < STREAMED:
                return "truncated audio"
        end = self._noted("data :(?s:.*?)position", length)
        if self.format == "AU" and (size := self._noted("Data Size", 0)):  # -1 if it is unknown
            end = self._noted("Data Offset", 0) + size
        is_known = self.format != "W64" or self._noted("riff", 0)  # 0 if written into a pipe
        return MORE_AUDIO if self.format in _ENDS and is_known and end + slack < length else ""

    def _noted(self, name: str, default: int) -> int:
        """A number in libsndfile's log, such as those of ``data : 64000 (should be 32000)``."""
        match = re.search(rf"{name}[ :]+(\d+)\b", self.extra_info)
        return int(match[1]) if match else default


Decoder: TypeAlias = "_SoundFile | ForwardDecoder"


def open_audio(audio: bytes | Path) -> Decoder:
    """Open a file for reading in blocks.

    Raises:
        AudioError: There is no such file, or it is empty or refused, or cannot be decoded.
        SourceError: The file exists and cannot be read.
    """
    head = head_of(audio)
    if head.startswith(b"NIST_1A") and b",embedded-" in head:
        raise AudioError("compressed NIST SPHERE; decompress it with sph2pipe")
    if begins := joints(audio, head):
        return _through_ffmpeg(audio, begins)
    if not is_of_libsndfile(head) or (head.startswith(b"fLaC") and begins_late(audio)):
        return _through_ffmpeg(audio)
    try:
        file = _SoundFile(stream_of(audio) if isinstance(audio, bytes) else os.fsencode(audio))
    except soundfile.LibsndfileError:
        if is_compressed_caf(head):
            return _through_ffmpeg(audio)
        with stream_of(audio) as stream:  # it refuses a WAV or an AIFF behind which is another one
            is_joined = is_followed_by_another(stream)
        raise AudioError(MORE_AUDIO if is_joined else "undecodable audio") from None
    is_not_sought = file.subtype in _NOT_SOUGHT and not file.header_fault
    if file.format in _WAV and (is_not_sought or not file.frames):  # a program left the length 0
        file.close()
        return _through_ffmpeg(audio)
    return file


def _through_ffmpeg(audio: bytes | Path, begins: Sequence[int] = (0,)) -> "ForwardDecoder":
    from danish_asr.base.ffmpeg import ForwardDecoder  # noqa: PLC0415 - PyAV takes 0.1 s

    return ForwardDecoder(audio, begins)


def decode_flac(
    encoded: bytes, max_seconds: float = 7200.0, out: Samples | None = None
) -> tuple[Samples, int] | None:
    """Return the samples and the rate of a FLAC file of one channel.

    They are in ``out``, if that is as long as the header says; then a second file behind the first
    is not looked for. None if the file is something else, damaged, too long, or joined of several,
    or has no length in its header.
    """
    if not encoded.startswith(b"fLaC"):
        return None
    flac = lib.ma_dr_flac_open_memory(encoded, len(encoded), ffi.NULL)
    try:
        if not flac or flac.channels != 1:
            return None
        rate, samples = int(flac.sampleRate), int(flac.totalPCMFrameCount)
        if not 0 < samples <= rate * max_seconds:
            return None
        if out is None or len(out) != samples:
            if encoded.rfind(b"fLaC"):  # which takes half of the time of `find`
                return None
            out = np.empty(samples, np.float32)
        place = ffi.from_buffer("float[]", out)
        count = lib.ma_dr_flac_read_pcm_frames_f32(flac, samples, place)
        return (out, rate) if count == samples else None
    finally:
        lib.ma_dr_flac_close(flac)
