"""All rows of a built dataset as one table, and the audio of a sample of them."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from danish_asr.base.audio import AudioError, decode, to_flac, without_mean
from danish_asr.base.cluster import usable_cpus
from danish_asr.base.errors import DatasetError
from danish_asr.base.schema import METADATA_COLUMNS, SAMPLE_RATE, SPLITS
from danish_asr.corpus.shards import find_shards
from danish_asr.recipe.data.index import Index, read_index
from danish_asr.report.components import audio_url

FloatArray = NDArray[np.float64]

UNKNOWN: Final = "unknown"

MAX_CLIP_SECONDS: Final = 20.0
MAX_PAGE_BYTES: Final = 20_000_000
"""FLAC on the page; base64 makes it a third larger."""

SILENCE: Final = 40.0
"""Windows this much (dB) below the loudest one are silence, if they are at an end."""

_WINDOW: Final = SAMPLE_RATE // 50
_FULL_SCALE: Final = 0.999  # as in the conversion's suspects
_FLOOR: Final = 1e-10


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of all splits, numbered from 0."""

    indexes: tuple[Index, ...]  # one per split
    table: pa.Table
    """id, text, speaker_id (may be null), dialect, age_group, gender, split, corpus, seconds, and
    ``plain``: the letters and digits of the text in lower case, with single spaces."""

    @property
    def splits(self) -> list[str]:
        """The names of the splits: train, dev, test, then others."""
        return [index.split for index in self.indexes]

    def numbers(self, name: str) -> FloatArray:
        """A numeric column."""
        values: FloatArray = self.table[name].to_numpy()
        return values

    def audio(self, row: int) -> bytes:
        """The FLAC file of a row; thread-safe."""
        for index in self.indexes:
            if row < len(index):
                break
            row -= len(index)
        return index.audio.read(row)

    def entry(self, row: int) -> dict[str, Any]:
        """What the page shows of a row, without its audio."""
        names = ("id", "text", "speaker_id", "dialect", "split", "seconds")
        return {name: self.table[name][row].as_py() for name in names}


def read_rows(root: Path) -> Rows:
    """Read the index of every split.

    Raises:
        DatasetError: There is no built dataset, it has no rows, or a shard is damaged.
    """
    shards = find_shards(root)
    names = sorted({shard.keys["split"] for shard in shards}, key=lambda name: (order(name), name))
    indexes = []
    for name in names:
        own = [shard for shard in shards if shard.keys["split"] == name]
        try:
            indexes.append(read_index(own, name))
        except DatasetError as error:
            hint = f"`danish-asr verify {root}` lists all faults of a dataset"
            raise DatasetError(f"{error}; {hint}") from None
    return Rows(tuple(indexes), pa.concat_tables(map(_columns, indexes)))


def order(split: str) -> int:
    """The place of a split in tables."""
    return SPLITS.index(split) if split in SPLITS else len(SPLITS)


def _columns(index: Index) -> pa.Table:
    table = index.rows.to_arrow()
    for name in set(METADATA_COLUMNS) - {"speaker_id"}:
        place = table.column_names.index(name)
        table = table.set_column(place, name, pc.fill_null(table[name], UNKNOWN))
    corpora = pa.array([partition.corpus for partition in index.partitions])
    lower = pc.utf8_lower(table["text"])
    spaced = pc.replace_substring_regex(lower, r"[^\p{L}\p{M}\p{N}]+", " ")
    columns = {
        "split": pa.repeat(pa.scalar(index.split), len(index)),
        "corpus": corpora.take(pa.array(index.partition_of)),
        "seconds": pa.array(index.lengths / SAMPLE_RATE),
        "plain": pc.utf8_trim_whitespace(spaced),
    }
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


class Measures(NamedTuple):
    """Measures of an utterance."""

    loudness: float  # RMS in dB of full scale
    clipped: float  # share of the samples at full scale
    silence: float  # seconds at both ends
    snr: float  # dB


def measure(audio: bytes) -> Measures:
    """Measure an utterance without its DC offset; raises `AudioError` if it cannot be decoded.

    The SNR is the 95th minus the 15th percentile of the power in windows of 20 ms, which ISIP's
    tool signal_to_noise names as a usual choice. It assumes pauses: dense speech, music behind the
    voice and digital silence mislead it. It compares recordings of one kind, and is no measurement.
    """
    mono, _ = decode(audio)
    wave = without_mean(mono.astype(np.float64))
    size = len(wave) // _WINDOW * _WINDOW
    windows = wave[:size].reshape(-1, _WINDOW) if size else wave[None]
    levels = _decibels(np.square(windows).mean(axis=1))
    loud = np.flatnonzero(levels > levels.max() - SILENCE)
    low, high = np.percentile(levels, [15, 95])
    return Measures(
        loudness=float(_decibels(np.square(wave).mean())),
        clipped=float((np.abs(mono) >= _FULL_SCALE).mean()),
        silence=float(len(levels) - (loud[-1] - loud[0] + 1)) * _WINDOW / SAMPLE_RATE,
        snr=float(high - low),
    )


def _decibels(power: Any) -> Any:
    return 10 * np.log10(np.maximum(power, _FLOOR))


def stratified(
    strata: pa.ChunkedArray, size: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], FloatArray]:
    """Return rows, as many of each stratum as possible, and how many rows each stands for."""
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

    def measure_row(row: int) -> Measures | None:
        try:
            return measure(rows.audio(row))
        except AudioError:
            return None

    with ThreadPoolExecutor(usable_cpus()) as pool:
        yield from pool.map(measure_row, chosen.tolist())


class Sample:
    """The measured rows, how many rows each of them stands for, and their measures as arrays."""

    def __init__(
        self, rows: NDArray[np.int64], weights: FloatArray, measures: Iterable[Measures | None]
    ) -> None:
        measures = list(measures)
        good = np.array([values is not None for values in measures], bool)
        self.rows, self.weights, self.undecodable = rows[good], weights[good], int((~good).sum())
        values = np.array([values for values in measures if values], float).reshape(-1, 4)
        self.loudness, self.clipped, self.silence, self.snr = values.T


class Clips:
    """Audio as ``data:`` URLs, each row's once, until the page is full."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._embedded: set[int] = set()
        self.size = self.left_out = 0

    def entry(self, row: int, value: str = "") -> dict[str, Any]:
        """Return what the page shows of a row, with its audio or, if that is above, a link."""
        entry = self._rows.entry(row) | {"row": row, "value": value, "url": "", "above": False}
        if row in self._embedded:
            return entry | {"note": "", "above": True}
        audio, note = self._rows.audio(row), ""
        try:
            if entry["seconds"] > MAX_CLIP_SECONDS:
                audio, _ = to_flac(audio, seconds=MAX_CLIP_SECONDS)
                note = f"its first {MAX_CLIP_SECONDS:g} s"
        except AudioError as error:
            return entry | {"note": str(error)}
        if self.size + len(audio) > MAX_PAGE_BYTES:
            self.left_out += 1
            return entry | {"note": "left out, the page is full"}
        self.size += len(audio)
        self._embedded.add(row)
        return entry | {"url": audio_url(audio), "note": note}
