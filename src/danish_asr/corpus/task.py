"""Convert the rows of one task: rows and their audio in, a shard per split and a record out.

The record is written last, so it marks the shards as finished.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import groupby
from math import log10
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from danish_asr.base.audio import Recording, encode_flac, resampled
from danish_asr.base.containers import SLACK
from danish_asr.base.errors import AudioError
from danish_asr.base.files import publish, publish_text, sha256_of
from danish_asr.base.folders import version_of
from danish_asr.base.schema import (
    ROW_GROUP_BYTES,
    ROW_GROUP_SIZE,
    SAMPLE_RATE,
    WORK_DIR,
)
from danish_asr.base.workers import uninterrupted
from danish_asr.corpus import DANISH, ConvertOptions
from danish_asr.corpus.columns import COLUMNS
from danish_asr.corpus.rows import UTTERANCE_SCHEMA, Fetch
from danish_asr.text.profiles import normalizer

_METADATA: Final = [column.name for column in COLUMNS if column.written]
# The reader relies on it that the audio of a row group is one plain page.
PARQUET_FORMAT: Final[dict[str, Any]] = {
    "compression": dict.fromkeys(UTTERANCE_SCHEMA.names, "zstd") | {"audio_bytes": "none"},
    "use_dictionary": [
        column.name for column in COLUMNS if column.written and column.type == "string"
    ],
    "write_statistics": [name for name in UTTERANCE_SCHEMA.names if name != "audio_bytes"],
}

# What cannot be speech, and what a person should listen to. Each limit is a matter of judgement,
# except the first: the fastest speaker on record recited 260 words of English, about 1,050 letters,
# in 23.8 s (Sean Shannon, 655 words a minute, Guinness World Records 1995): 44 letters a second.
_IMPOSSIBLE: Final = 50  # letters and digits per second
_PLAUSIBLE: Final = (1.0, 30.0)  # the same
_NO_SCALE: Final = 10.0  # times full scale: samples of a float file that were never scaled to it
_FULL_SCALE: Final = 0.999
_CLIPPED: Final = 0.001  # share of the samples at full scale
_OFFSET: Final = 0.2  # share of the power that is DC, no sound
_QUIET: Final = -60.0  # dBFS, RMS
_LONG_SILENCE: Final = 3.0  # seconds
_SILENT: Final = 1e-4  # energy below this share of the loudest frame's
_FRAMES_PER_SECOND: Final = 100

LEFT_OUT: Final = "seconds of sound after the given end"
"""A reason to suspect an utterance, more than `SLACK`."""

FILLED: Final = "seconds of silence in a gap of the file"
"""A reason to suspect an utterance: its container has no sound there."""

CUT: Final = "seconds of a recording that may be cut"
"""A reason to suspect an utterance: an OGG has no mark of its end, or an MP3 ends in a frame."""

STREAMS: Final = "audio streams in the recording"
"""A reason to suspect an utterance: there are several, and the first is read."""

_LAST: Final[dict[tuple[Path, str | None], Recording]] = {}
"""The one recording that is open in this process, by its path and version. A long one has rows of
many tasks, and to find a place in an MP3 means to decode it up to there."""


@dataclass(frozen=True)
class Task:
    """The rows of a task, and the path of the shard of each corpus and split among them."""

    number: int
    rows: pa.Table
    paths: Mapping[tuple[str, str], str]  # below the dataset's root

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a copy of the rows alone; Arrow would send the whole table with each slice."""
        return Task, (self.number, self.rows.take(np.arange(len(self.rows))), dict(self.paths))

    def versions_digest(self) -> str:
        """A digest of the versions of its recordings."""
        versions = json.dumps(self.rows["version"].to_pylist())
        return hashlib.sha256(versions.encode()).hexdigest()


@dataclass(kw_only=True)
class Record:
    """The result of one task."""

    task: int  # its number in the plan
    versions_digest: str  # that of the task, when it was read
    shards: list[dict[str, Any]] = field(default_factory=list)  # path, rows, seconds, sha256
    dropped: list[dict[str, Any]] = field(default_factory=list)  # rows of the ledger
    suspects: list[dict[str, Any]] = field(default_factory=list)  # rows of suspects.parquet
    rates: dict[str, int] = field(default_factory=dict)  # rows per sample rate of the source
    characters: str = ""  # of the written texts of train, raw and under profiles

    def rows_read(self) -> int:
        """Rows of the source."""
        return sum(int(shard["rows"]) for shard in self.shards) + len(self.dropped)


def convert_task(task: Task, *, fetch: Fetch, root: Path, options: ConvertOptions) -> Record:
    """Convert one task and publish its shards, then its record."""
    record = Record(task=task.number, versions_digest=task.versions_digest())
    profiles = [normalizer(name) for name in text_profiles(options.language)]
    characters = set[str]()
    shards: dict[tuple[str, str], _ShardWriter] = {}
    with ExitStack() as files:
        for row, outcome in _in_their_order(task.rows, fetch, options):
            if isinstance(outcome, AudioError):
                about = {name: row[name] for name in ("corpus", "row", "id", "dialect")}
                record.dropped.append(about | {"source": row["file"], "reason": str(outcome)})
                continue
            written, findings, rate = outcome
            text, partition = written["text"], (row["corpus"], row["split"])
            for reason, value in findings.items():
                about = {name: row[name] for name in ("corpus", "split", "id", "dialect")}
                record.suspects.append(about | {"reason": reason, "value": round(value, 3)})
            record.rates[str(rate)] = record.rates.get(str(rate), 0) + 1
            if row["split"] == "train":
                characters.update(text, *(spoken(text) for spoken in profiles))
            if partition not in shards:
                shards[partition] = _ShardWriter(root, task.paths[partition], files)
            shards[partition].add(written)
        for shard in shards.values():
            shard.flush()
    record.shards = [shard.entry() for shard in shards.values()]
    record.characters = "".join(sorted(characters))
    publish_text(record_path(root, task.number), json.dumps(asdict(record), ensure_ascii=False))
    return record


Outcome: TypeAlias = "tuple[dict[str, Any], dict[str, float], int] | AudioError"
"""A row of `UTTERANCE_SCHEMA`, the reasons to suspect it and its rate; or why there is none."""


def _in_their_order(
    rows: pa.Table, fetch: Fetch, options: ConvertOptions
) -> Iterator[tuple[dict[str, Any], Outcome]]:
    """Yield each row with what it becomes.

    The parts of a recording are read in the order of their starts, whatever that of the rows.
    """
    audio = iter(fetch(rows.filter(pc.is_null(rows["refused"]))))
    pairs: Iterable[tuple[dict[str, Any], Any]] = (
        (row, None if row["refused"] else next(audio)) for row in rows.to_pylist()
    )
    for are_files, group in groupby(pairs, key=lambda pair: isinstance(pair[1], Path)):
        if are_files:
            yield from _of_files([*group], options)
            continue
        for row, own in group:  # one by one, as each is in memory
            yield row, _outcome(row, own, options)


def _of_files(
    pairs: Sequence[tuple[dict[str, Any], Any]], options: ConvertOptions
) -> Iterator[tuple[dict[str, Any], Outcome]]:
    order = sorted(range(len(pairs)), key=lambda n: (pairs[n][1], pairs[n][0]["start"]))
    waiting, following = dict[int, Outcome](), 0
    for path, numbers in groupby(order, key=lambda n: pairs[n][1]):
        recording = _opened(path)
        for number in numbers:
            waiting[number] = _outcome(pairs[number][0], recording, options)
            while following in waiting:
                yield pairs[following][0], waiting.pop(following)
                following += 1


def _opened(path: Path) -> Recording:
    """Open a recording, or go on in the one that the task before ended in."""
    key = path, version_of(path)
    if key not in _LAST:
        for other in _LAST.values():
            other.close()
        _LAST.clear()
        _LAST[key] = Recording(path)
    return _LAST[key]


def _outcome(
    row: Mapping[str, Any], audio: bytes | Recording | AudioError | None, options: ConvertOptions
) -> Outcome:
    try:
        if not isinstance(audio, bytes):
            return to_row(row, audio, options)
        with Recording(audio) as recording:
            return to_row(row, recording if audio else None, options)
    except AudioError as error:
        return error


def read_record(root: Path, task: Task) -> Record | None:
    """The record of a task whose recordings and shards are as they were then, or None."""
    try:
        record = Record(**json.loads(record_path(root, task.number).read_text(encoding="utf-8")))
        digests = [sha256_of(root / shard["path"]) for shard in record.shards]
    except (OSError, ValueError, TypeError, KeyError):
        return None  # missing or damaged: the task is done again
    is_same = record.versions_digest == task.versions_digest()
    return record if is_same and digests == [shard["sha256"] for shard in record.shards] else None


def record_path(root: Path, number: int) -> Path:
    """Where the record of a task is."""
    return root / WORK_DIR / f"task-{number:06d}.json"


class _ShardWriter:
    """A shard that is written, a row group at a time; ``files`` closes it."""

    def __init__(self, root: Path, path: str, files: ExitStack) -> None:
        self._file, self._path = root / path, path
        stream = files.enter_context(publish(self._file))
        self._parquet = files.enter_context(
            pq.ParquetWriter(stream, UTTERANCE_SCHEMA, **PARQUET_FORMAT)
        )
        self._group: list[dict[str, Any]] = []
        self._bytes = self._rows = self._samples = 0

    def add(self, row: dict[str, Any]) -> None:
        self._group.append(row)
        self._bytes += row["encoded_size"]
        self._rows += 1
        self._samples += row["audio_size"]
        if len(self._group) == ROW_GROUP_SIZE or self._bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._group:
            self._parquet.write_table(pa.Table.from_pylist(self._group, UTTERANCE_SCHEMA))
        self._group, self._bytes = [], 0

    def entry(self) -> dict[str, Any]:
        """The shard in the manifest, once it is closed."""
        counts = {"rows": self._rows, "seconds": self._samples / SAMPLE_RATE}
        return {"path": self._path, **counts, "sha256": sha256_of(self._file)}


def to_row(
    row: Mapping[str, Any], audio: Recording | AudioError | None, options: ConvertOptions
) -> tuple[dict[str, Any], dict[str, float], int]:
    """A row of `UTTERANCE_SCHEMA`, the reasons to suspect it, and the rate of its source.

    Raises:
        AudioError: The row cannot be used; the message is its reason in the ledger.
    """
    if row["refused"]:
        raise AudioError(row["refused"])
    text = row["text"] or ""
    findings = oddities(text, in_train=row["split"] == "train")
    if isinstance(audio, AudioError):
        raise audio
    if audio is None:
        raise AudioError("no audio")
    channel = row["channel"] or options.channel
    with uninterrupted():
        start, seconds = row["start"], row["seconds"]
        mono, rate = audio.part(start, seconds, max_seconds=options.max_seconds, channel=channel)
        mono = resampled(mono, rate)
        findings.update(examine(mono, text))
        if audio.filled:
            findings[FILLED] = audio.filled
        if audio.may_be_cut:
            findings[CUT] = len(mono) / SAMPLE_RATE
        if audio.streams > 1:
            findings[STREAMS] = audio.streams
        if row["alone"] and seconds is not None:
            findings.update(examine_rest(audio.rest(start + seconds, channel), mono))
        flac = encode_flac(mono)
    written = {
        "id": row["id"],
        "text": text,
        "audio_bytes": flac,
        "audio_size": len(mono),
        "encoded_size": len(flac),
        "source_id": f"{row['file']}:{row['row']}",
        **{name: row[name] for name in _METADATA},
    }
    return written, findings, rate


def examine(mono: NDArray[np.float32], text: str) -> Iterator[tuple[str, float]]:
    """Yield the reasons to suspect an utterance of 16 kHz, with what was measured.

    Loudness and silence are those without DC offset; peaks are as they are.

    Raises:
        AudioError: It cannot be speech.
    """
    seconds = len(mono) / SAMPLE_RATE
    speed = sum(map(str.isalnum, text)) / seconds
    offset, high, low = mono.mean(), mono.max(), mono.min()
    if max(high - offset, offset - low) * 32768 < 1.5:  # dither at most: the last of 16 bits
        raise AudioError("digital silence")
    if max(high, -low) > _NO_SCALE:
        raise AudioError("samples far outside -1 to 1")
    if speed > _IMPOSSIBLE:
        raise AudioError(f"more than {_IMPOSSIBLE} letters per second")
    if not _PLAUSIBLE[0] <= speed <= _PLAUSIBLE[1]:
        yield "letters per second", speed
    if max(high, -low) >= _FULL_SCALE:
        clipped = np.count_nonzero(np.abs(mono) >= _FULL_SCALE) / len(mono)
        if clipped > _CLIPPED:
            yield "share of clipped samples", clipped
    yield from _odd_levels(mono, offset)


def examine_rest(
    rest: Iterable[tuple[NDArray[np.float32], int]], mono: NDArray[np.float32]
) -> Iterator[tuple[str, float]]:
    """Yield `LEFT_OUT` if sound follows an utterance of 16 kHz in its recording.

    ``rest`` are blocks of that with their rates. Silent are frames as in "seconds of silence",
    which are compared with the loudest of the utterance.
    """
    offset = mono.mean()
    least = _SILENT * _energies(mono, SAMPLE_RATE, offset).max()
    frames = 0
    for block, rate in rest:
        frames += np.count_nonzero(_energies(block, rate, offset) >= least)
    if (seconds := frames / _FRAMES_PER_SECOND) > SLACK:
        yield LEFT_OUT, seconds


def _energies(mono: NDArray[np.float32], rate: int, offset: np.float32) -> NDArray[np.float32]:
    """The power of each frame of 10 ms without a DC offset; an end of less is no frame."""
    size = min(max(1, rate // _FRAMES_PER_SECOND), len(mono))
    frames = mono[: len(mono) // size * size].reshape(-1, size) - offset
    energies: NDArray[np.float32] = np.einsum("ij,ij->i", frames, frames) / size
    return energies


def _odd_levels(mono: NDArray[np.float32], offset: np.float32) -> Iterator[tuple[str, float]]:
    """What is odd about the power of frames, beside that of the DC offset."""
    energies = _energies(mono, SAMPLE_RATE, offset)
    power, of_offset = float(energies.mean()), float(offset) ** 2
    if of_offset > _OFFSET * (of_offset + power):
        yield "share of DC offset", of_offset / (of_offset + power)
    if (loudness := 10 * log10(max(power, 1e-12))) < _QUIET:
        yield "dBFS, very quiet", loudness
    loud = np.flatnonzero(energies >= _SILENT * energies.max())
    silent = np.diff(loud, prepend=-1, append=len(energies)) - 1  # frames between loud ones
    if (silence := float(silent.max()) / _FRAMES_PER_SECOND) > _LONG_SILENCE:
        yield "seconds of silence", silence


_LETTER: Final = r"[^\W\d_]"
_CONSONANT: Final = "[bcdfghj-np-tvwxz]"

_MISREAD: Final = (
    # UTF-8 that was read as Latin-1 or as Windows-1252.
    r"Ã[\x80-\xbf¢-¿…†˜‰–—€‚ƒ„‡ˆŠ‹ŒŽ‘’“”•™š›œžŸ]|â€[\x80-\xbf™œ“”¦˜]|Â[\xa0-\xbf]",
    # Windows-1252, MacRoman or CP850 that was read as another of them.
    rf"[¾¿¯°µ¥┐›†](?<={_LETTER}.)(?={_LETTER})",  # k¿ber, k›ber
    r"[¾¿¯†ŒÊÂÕÜ](?<=[a-zæøå].)",  # bl¾, pŒ, p†
    r"[¯†](?=[a-zæøå])|Œ(?<!\w.)(?=[bghl]|r(?!st)|n[de]|se)",  # †r, Œben; not "Œuvre"
    rf"®(?<![a-zæøå].)(?={_LETTER})",  # ®ble, PR®ST; not "Lego®"
    rf"‘(?<={_CONSONANT}.)(?={_CONSONANT}{_LETTER})",  # l‘rer; not "tv‘et"
    r"[\x80-\x84\x86-\x9f]",  # controls, of which a text has a line's end alone
)
"""What æøå become in a code page that is not theirs, and never are in a text."""

_BROKEN: Final[Mapping[str, re.Pattern[str]]] = {
    "HTML entities": re.compile(r"&(?:[A-Za-z]{2,8}\d?|#\d+|#x[0-9A-Fa-f]+);"),
    "mojibake": re.compile("|".join(_MISREAD)),
    "replacement characters": re.compile("\ufffd"),  # what stood there is lost
}
"""Texts that are not what was said; in training they are left out. ftfy mends the first two."""

_MARKUP: Final = re.compile(
    r"(?is).*</?\w[^<>]*>.*|\[[^]]*\]|\{.*\}|#\S+[?!]|#?n/a|#i/t|nan|null|none"
)
"""``<p>ja</p>``, ``<unk>``, ``[støj]``, ``{"text": "ja"}``, ``nan``, ``#N/A``, ``#NAVN?``."""


def text_profiles(language: str) -> tuple[str, ...]:
    """Profiles that training targets may have; sentences are compared under the first."""
    return ("coral", "danish") if language == DANISH else ("plain",)


def oddities(text: str, *, in_train: bool) -> dict[str, float]:
    """What is odd about a text, with the number of characters or places that are.

    Raises:
        AudioError: The text cannot be used. Broken ones are kept out of training only, so that
            published test sets stay whole.
    """
    stripped = text.strip()
    if not stripped:
        raise AudioError("empty text")
    if stripped.startswith("{\\rtf"):
        raise AudioError("RTF, not plain text")
    if not any(map(str.isalnum, text)):  # a dash, or invisible characters
        raise AudioError("no letter or digit")
    odd: dict[str, float] = {name: len(sign.findall(text)) for name, sign in _BROKEN.items()}
    for name, count in odd.items():
        if count and in_train:
            raise AudioError(name)
    odd["markup or a missing value as text"] = len(text) if _MARKUP.fullmatch(stripped) else 0
    return {name: count for name, count in odd.items() if count}
