"""Measures of the audio of a sample of rows, and clips for the page."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from danish_asr.base.audio.decode import AudioError, decode, to_flac
from danish_asr.base.cluster.cpus import usable_cpus
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.report.components import audio_url
from danish_asr.report.explore.rows import Rows

FloatArray = NDArray[np.float64]

MAX_CLIP_SECONDS: Final = 20.0
MAX_PAGE_BYTES: Final = 20_000_000
"""FLAC on the page; base64 makes it a third larger."""

SILENCE: Final = 40.0
"""Windows this much (dB) below the loudest one are silence, if they are at an end."""

_WINDOW: Final = SAMPLE_RATE // 50
_FULL_SCALE: Final = 0.999  # as in the conversion's suspects
_FLOOR: Final = 1e-10


class Measures(NamedTuple):
    """Measures of an utterance."""

    loudness: float  # RMS in dB of full scale
    clipped: float  # share of the samples at full scale
    silence: float  # seconds at both ends
    snr: float  # dB


def measure(audio: bytes) -> Measures:
    """Measure an utterance; raises `AudioError` if it cannot be decoded.

    The SNR is the 95th minus the 15th percentile of the power in windows of 20 ms, which ISIP's
    tool signal_to_noise names as a usual choice. It assumes pauses: dense speech, music behind the
    voice and digital silence mislead it. It compares recordings of one kind, and is no measurement.
    """
    mono, _ = decode(audio)
    wave = mono.astype(np.float64)
    whole = len(wave) // _WINDOW * _WINDOW
    windows = wave[:whole].reshape(-1, _WINDOW) if whole else wave[None]
    levels = _decibels(np.square(windows).mean(axis=1))
    loud = np.flatnonzero(levels > levels.max() - SILENCE)
    low, high = np.percentile(levels, [15, 95])
    return Measures(
        loudness=float(_decibels(np.square(wave).mean())),
        clipped=float((np.abs(wave) >= _FULL_SCALE).mean()),
        silence=float(len(levels) - (loud[-1] - loud[0] + 1)) * _WINDOW / SAMPLE_RATE,
        snr=float(high - low),
    )


def _decibels(power: Any) -> Any:
    return 10 * np.log10(np.maximum(power, _FLOOR))


def stratified(
    strata: pa.ChunkedArray, size: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], FloatArray]:
    """Rows, as many of each stratum as possible, and how many rows each of them stands for."""
    codes = pc.index_in(strata, strata.unique()).to_numpy()
    counts, left = np.bincount(codes), min(size, len(codes))
    rows, weights = [np.empty(0, np.int64)], [np.empty(0)]
    for place, code in enumerate(np.argsort(counts, kind="stable")):
        quota = min(int(counts[code]), left // (len(counts) - place))
        left -= quota
        members = np.flatnonzero(codes == code)
        rows.append(np.sort(generator.choice(members, quota, replace=False)))
        weights.append(np.full(quota, len(members) / max(quota, 1)))
    return np.concatenate(rows), np.concatenate(weights)


def measure_rows(rows: Rows, chosen: NDArray[np.int64]) -> Iterator[Measures | None]:
    """Measure rows in their order; None stands for undecodable audio."""

    def one(row: int) -> Measures | None:
        try:
            return measure(rows.audio(row))
        except AudioError:
            return None

    with ThreadPoolExecutor(usable_cpus()) as pool:
        yield from pool.map(one, chosen.tolist())


class Sample:
    """The measured rows, how many rows each of them stands for, and their measures as arrays."""

    def __init__(
        self, rows: NDArray[np.int64], weights: FloatArray, measures: Sequence[Measures | None]
    ) -> None:
        good = np.array([each is not None for each in measures], bool)
        self.rows, self.weights, self.undecodable = rows[good], weights[good], int((~good).sum())
        values = np.array([each for each in measures if each], float).reshape(-1, 4)
        self.loudness, self.clipped, self.silence, self.snr = values.T


@dataclass
class Clips:
    """Audio as ``data:`` URLs, until the page is full."""

    rows: Rows
    size: int = 0
    left_out: int = 0
    _made: dict[int, tuple[str, str]] = field(default_factory=dict)

    def of(self, row: int) -> tuple[str, str]:
        """The URL of a row's audio, or an empty text, and a note."""
        if row not in self._made:
            self._made[row] = self._make(row)
        return self._made[row]

    def _make(self, row: int) -> tuple[str, str]:
        audio, note = self.rows.audio(row), ""
        try:
            if self.rows.table["seconds"][row].as_py() > MAX_CLIP_SECONDS:
                audio, _ = to_flac(audio, seconds=MAX_CLIP_SECONDS)
                note = f"its first {MAX_CLIP_SECONDS:g} s"
        except AudioError as error:
            return "", str(error)
        if self.size + len(audio) > MAX_PAGE_BYTES:
            self.left_out += 1
            return "", "left out, the page is full"
        self.size += len(audio)
        return audio_url(audio), note
