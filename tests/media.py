"""Recordings whose samples have a known place, in any container, through PyAV's encoders."""

import io
from fractions import Fraction
from functools import cache
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from danish_asr.base.ffmpeg import ForwardDecoder

Samples = NDArray[np.float32]


@cache
def noise(seconds: float, rate: int, seed: int = 1) -> Samples:
    """Noise below 1.5 kHz, which codecs keep and which is like itself at no other place."""
    chosen = np.random.default_rng(seed).standard_normal(round(seconds * 3_000))
    places = np.arange(round(seconds * rate)) * 3_000 / rate
    wave: Samples = (0.2 * np.interp(places, np.arange(len(chosen)), chosen)).astype(np.float32)
    return wave


def recording(
    container: str,
    codec: str,
    *pieces: tuple[float, Samples],
    rate: int,
    layout: str = "mono",
    picture: bool = False,
    options: dict[str, str] | None = None,
) -> bytes:
    """A file with pieces of sound, each with its first second, after a picture at second 0.

    ``options`` are those of FFmpeg for the container.
    """
    file = io.BytesIO()
    with av.open(file, "w", format=container, options=options) as out:
        pictures: Any = (
            out.add_stream(PICTURES.get(container, "mpeg4"), rate=25) if picture else None
        )
        stream: Any = out.add_stream(codec, rate=rate, layout=layout)
        if codec.startswith("wma"):
            stream.bit_rate = 64_000
        stream.codec_context.open()
        if pictures is not None:
            pictures.width = pictures.height = 64
            pictures.pix_fmt = "yuv420p"
            for number in range(5):
                image = av.VideoFrame(64, 64, "yuv420p")
                for plane in image.planes:
                    plane.update(bytes(plane.buffer_size))
                image.pts, image.time_base = number, Fraction(1, 25)
                out.mux(pictures.encode(image))
        form, size = stream.codec_context.format, stream.codec_context.frame_size or 1_024
        for start, wave in pieces:
            channels = stream.codec_context.layout.nb_channels
            frame = av.AudioFrame.from_ndarray(np.repeat(wave[None], channels, 0), "fltp", layout)
            frame.sample_rate = rate
            resampler, place = av.AudioResampler(form, layout, rate, frame_size=size), 0
            for part in (*resampler.resample(frame), *resampler.resample(None)):
                part.pts, part.time_base = round(start * rate) + place, Fraction(1, rate)
                place += part.samples
                out.mux(stream.encode(part))
        if pictures is not None:
            out.mux(pictures.encode(None))
        out.mux(stream.encode(None))
    return file.getvalue()


def several_streams(container: str, count: int) -> bytes:
    """A file with so many streams of sound: two seconds of 16 kHz, of another seed in each."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as out:
        streams = [out.add_stream("flac", rate=16_000, layout="mono") for _ in range(count)]
        for seed, stream in enumerate(streams, 1):
            frame = av.AudioFrame.from_ndarray(noise(2, 16_000, seed)[None], "fltp", "mono")
            frame.sample_rate, frame.pts, frame.time_base = 16_000, 0, Fraction(1, 16_000)
            out.mux(stream.encode(frame))
            out.mux(stream.encode(None))
    return file.getvalue()


PICTURES = {"webm": "vp8", "flv": "flv1", "mpeg": "mpeg2video", "mpegts": "mpeg2video"}


def lags(heard: Samples, expected: Samples, rate: int) -> set[int]:
    """By how many samples of what was heard each half second of sound comes late."""
    found, size, reach = set[int](), rate // 2, rate // 8
    for start in range(reach, len(expected) - size - reach, size):
        piece = expected[start : start + size]
        if np.abs(piece).min() == 0 and not piece.any():
            continue
        window = heard[start - reach : start + size + reach]
        if len(window) < size + 2 * reach:
            continue
        # Through the spectrum: no lag that is asked for wraps around.
        spectrum = np.fft.rfft(window) * np.fft.rfft(piece, len(window)).conj()
        match = np.fft.irfft(spectrum, len(window))[: 2 * reach + 1]
        found.add(int(match.argmax()) - reach)
    return found


def openings(monkeypatch: pytest.MonkeyPatch) -> list[ForwardDecoder]:
    """A decoder for each time that a file is opened, or decoded from its start again."""
    opened: list[ForwardDecoder] = []
    open_it = ForwardDecoder._open

    def open_and_count(decoder: ForwardDecoder) -> None:
        opened.append(decoder)
        open_it(decoder)

    monkeypatch.setattr(ForwardDecoder, "_open", open_and_count)
    return opened
