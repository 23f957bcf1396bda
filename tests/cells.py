"""Containers with codecs: what happens to a file of each, and whether it is heard where it is."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from danish_asr.base.audio import decode
from tests.media import lags, noise, recording

REFUSED, HALF = "refused", "half of it, no length in its header is read"
ID3 = b"ID3\x04\0\0" + bytes([0, 0, 1, 0]) + bytes(128)
MORE = "more audio than its header says"


class Cell(NamedTuple):
    """A container with a codec, the rate, and what happens to a file."""

    container: str
    codec: str
    rate: int
    lag: float  # ms that a codec may delay it by, always the same
    late: str = ""  # why it cannot begin late; below: why it cannot have a gap
    gap: str = ""
    joined: str | float = MORE  # why two are refused, or the lag of the second in ms
    cut: str = REFUSED  # what happens to half of a file


NO_CLOCK = "its samples have no times"
CELLS = [
    Cell("mp4", "aac", 48_000, 1),
    Cell("ipod", "alac", 44_100, 0),
    Cell("mov", "pcm_s16le", 48_000, 0, gap="FFmpeg writes none"),
    Cell("matroska", "libopus", 48_000, 1, joined=1),
    Cell("matroska", "aac", 44_100, 1, joined=21),
    Cell("matroska", "flac", 48_000, 0, joined=0),
    Cell("webm", "libopus", 48_000, 1, joined=1),
    Cell("mpegts", "aac", 48_000, 24, joined=55, cut=HALF),
    Cell("mpegts", "mp2", 48_000, 12, joined=27, cut=HALF),
    Cell("mpeg", "mp2", 48_000, 12, joined=27, cut=HALF),
    Cell("flv", "aac", 44_100, 25, joined=70),
    Cell("flv", "libmp3lame", 44_100, 26, joined=70),
    Cell("avi", "libmp3lame", 48_000, 24, NO_CLOCK, NO_CLOCK, joined=64),
    Cell("asf", "wmav2", 44_100, 47),
    Cell("ogg", "libopus", 48_000, 0, NO_CLOCK, NO_CLOCK, joined=0),
    Cell("ogg", "flac", 48_000, 0, NO_CLOCK, NO_CLOCK, joined=0),
    Cell("mp3", "libmp3lame", 44_100, 0, NO_CLOCK, NO_CLOCK, joined=38),
    Cell("mp3", "libmp3lame", 16_000, 0, NO_CLOCK, NO_CLOCK, joined=97),
    Cell("adts", "aac", 44_100, 24, NO_CLOCK, NO_CLOCK, joined=67),
    Cell("ac3", "ac3", 48_000, 6, NO_CLOCK, NO_CLOCK, joined=22, cut=HALF),
    Cell("tta", "tta", 48_000, 0, NO_CLOCK, NO_CLOCK),
    Cell("wv", "wavpack", 48_000, 0, NO_CLOCK, NO_CLOCK, joined="undecodable audio"),
    Cell("voc", "pcm_s16le", 48_000, 0, NO_CLOCK, NO_CLOCK, cut=HALF),
    Cell("wtv", "mp2", 48_000, 12, "FFmpeg reads none", "FFmpeg reads none"),
    Cell("wav", "pcm_s16le", 48_000, 0, NO_CLOCK, NO_CLOCK),
    Cell("w64", "pcm_s16le", 48_000, 0, NO_CLOCK, NO_CLOCK),
    Cell("flac", "flac", 48_000, 0, NO_CLOCK, NO_CLOCK, joined=0),
    Cell("aiff", "pcm_s16be", 48_000, 0, NO_CLOCK, NO_CLOCK),
    Cell("au", "pcm_s16be", 48_000, 0, NO_CLOCK, NO_CLOCK),
    Cell("caf", "pcm_s16be", 48_000, 0, NO_CLOCK, NO_CLOCK),
    Cell("caf", "alac", 48_000, 0, NO_CLOCK, NO_CLOCK),
]


def table(cells: Iterable[Cell]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cell", [*cells], ids=lambda c: f"{c[0]}-{c[1]}-{c[2]}")


def made(cell: Cell, *pieces: tuple[float, NDArray[np.float32]], picture: bool = False) -> bytes:
    return recording(cell.container, cell.codec, *pieces, rate=cell.rate, picture=picture)


@cache
def plain(cell: Cell, seed: int = 1) -> bytes:
    """A file with two seconds of noise."""
    return made(cell, (0, noise(2, cell.rate, seed)))


def check(audio: bytes | Path, cell: Cell, *expected: NDArray[np.float32], lag: float) -> None:
    """Each half second of what is expected is heard where it is, at most so many ms beside it."""
    whole = np.concatenate(expected)
    heard, rate = decode(audio)
    assert rate == cell.rate
    assert len(heard) / rate == pytest.approx(len(whole) / rate, abs=0.05 + lag / 500)
    found = lags(heard, whole, rate)
    assert max(map(abs, found)) <= lag * rate / 1_000
    loud = np.sqrt(np.mean(np.square(heard)) / np.mean(np.square(whole)))
    assert loud == pytest.approx(1, abs=0.1)
