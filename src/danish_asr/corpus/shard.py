"""Convert one shard task: source rows in, one shard and its record out.

The record is written last, so it marks the shard as finished.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from math import log10
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from danish_asr.base.audio import SECONDS_LEFT, AudioError, Findings, encode_flac, peak_of, to_mono
from danish_asr.base.errors import SourceError, user_code
from danish_asr.base.files import publish, publish_text, sha256_of
from danish_asr.base.schema import (
    FLAC_MD5,
    ROW_GROUP_BYTES,
    ROW_GROUP_SIZE,
    SAMPLE_RATE,
    UTTERANCE_SCHEMA,
)
from danish_asr.base.workers import uninterrupted
from danish_asr.corpus import DANISH, ConvertOptions
from danish_asr.corpus.sources.base import Source, Utterance
from danish_asr.corpus.sources.metadata import DIALECTS
from danish_asr.corpus.tasks import WORK_DIR, RowSlice, ShardTask
from danish_asr.corpus.texts import oddities, text_profiles, unusable_text
from danish_asr.text.profiles import normalizer

_REPEATED: Final = ["speaker_id", "dialect", "sub_dialect", "age_group", "gender", "country_birth"]
_SPEAKER: Final = [*_REPEATED, "age"]
# The reader relies on it that the audio of a row group is one plain page.
_FORMAT: Final[dict[str, Any]] = {
    "compression": dict.fromkeys(UTTERANCE_SCHEMA.names, "zstd") | {"audio_bytes": "none"},
    "use_dictionary": _REPEATED,
    "write_statistics": [name for name in UTTERANCE_SCHEMA.names if name != "audio_bytes"],
}

# What cannot be speech, and what a person should listen to. Each limit is a matter of judgement,
# except the first: the fastest speaker on record recited 260 words of English, about 1,050 letters,
# in 23.8 s (Sean Shannon, 655 words a minute, Guinness World Records 1995): 44 letters a second.
_IMPOSSIBLE: Final = 50  # letters and digits per second
_PLAUSIBLE: Final = (1.0, 30.0)  # the same
_ROUNDING: Final = 0.01  # seconds by which a manifest may round a duration up
MAX_AGE: Final = 110
_NO_SCALE: Final = 10.0  # times full scale: samples of a float file that were never scaled to it
_FULL_SCALE: Final = 0.999
_CLIPPED: Final = 0.001  # share of the samples at full scale
_QUIET: Final = -60.0  # dBFS, RMS
_LONG_SILENCE: Final = 3.0  # seconds
_OTHER_TEXT: Final = "audio of an earlier row with another text"
_SILENT: Final = 1e-4  # energy below this share of the loudest frame's
_FRAMES_PER_SECOND: Final = 100
_FRAME: Final = SAMPLE_RATE // _FRAMES_PER_SECOND


@dataclass(kw_only=True)
class Record:
    """The result of one task."""

    task: int  # its number in the plan
    rows: int = 0
    samples: int = 0
    sha256: str = ""  # empty if no row was written, and so no shard
    dropped: list[dict[str, Any]] = field(default_factory=list)  # rows of the ledger
    suspects: list[dict[str, Any]] = field(default_factory=list)  # rows of suspects.parquet
    unmapped: dict[str, int] = field(default_factory=dict)  # rows per unknown dialect name
    countries: dict[str, int] = field(default_factory=dict)  # rows per "Danmark -> DK"
    ages: dict[str, int] = field(default_factory=dict)  # rows per age that is no number of years
    characters: str = ""  # of the written texts, raw and under profiles, for the tokenizer


def convert_task(task: ShardTask, *, source: Source, root: Path, options: ConvertOptions) -> Record:
    """Convert one task and publish its shard, then its record."""
    record = Record(task=task.number)
    characters: set[str] = set()
    profiles = [normalizer(name) for name in text_profiles(options.language)]
    shard = root / task.path
    with publish(shard) as stream, pq.ParquetWriter(stream, UTTERANCE_SCHEMA, **_FORMAT) as parquet:
        for rows in _row_groups(_rows(source, task, options, record)):
            record.rows += len(rows)
            for row in rows:
                record.samples += row["audio_size"]
                characters.update(row["text"], *(spoken(row["text"]) for spoken in profiles))
            parquet.write_table(pa.Table.from_pylist(rows, UTTERANCE_SCHEMA))
    if record.rows:
        record.sha256 = sha256_of(shard)
    else:
        shard.unlink()  # readers expect rows in a file
    record.characters = "".join(sorted(characters))
    publish_text(_record_path(root, task), json.dumps(asdict(record), ensure_ascii=False))
    return record


def read_record(root: Path, task: ShardTask) -> Record | None:
    """The record of a task whose shard is as it was written, or None."""
    try:
        record = Record(**json.loads(_record_path(root, task).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # missing or damaged: the task is done again
    shard = root / task.path
    sha256 = sha256_of(shard) if shard.is_file() else ""
    return record if sha256 == record.sha256 else None


def _record_path(root: Path, task: ShardTask) -> Path:
    return root / WORK_DIR / f"task-{task.number:06d}.json"


def _row_groups(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row["audio_bytes"])
        if len(group) == ROW_GROUP_SIZE or size >= ROW_GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _rows(
    source: Source, task: ShardTask, options: ConvertOptions, record: Record
) -> Iterator[dict[str, Any]]:
    """The rows of a shard; the record gets what is dropped, unknown or respelt."""
    texts_of: dict[bytes, set[str]] = {}  # by the audio
    for part in task.slices:
        for utterance in _read(source, part):
            if utterance.row in part.others:
                continue
            utterance = _prepared(utterance, options, record)  # noqa: PLW2901
            row = _convert(utterance, part, task.split, options, record.suspects)
            if isinstance(row, str):
                record.dropped.append(
                    {
                        "source": part.file.name,
                        "row": utterance.row,
                        "id": utterance.id,
                        "dialect": utterance.speaker.dialect,
                        "reason": row,
                    }
                )
            else:
                texts = texts_of.setdefault(row["audio_bytes"][FLAC_MD5], set())
                if texts - {row["text"]}:
                    found = _OTHER_TEXT, len(texts - {row["text"]})
                    record.suspects.append(_suspect(utterance, part, task.split, *found))
                texts.add(row["text"])
                yield row


def _suspect(
    utterance: Utterance, part: RowSlice, split: str, reason: str, value: float
) -> dict[str, Any]:
    """A row of suspects.parquet."""
    return {
        "corpus": part.file.corpus,
        "split": split,
        "id": utterance.id,
        "dialect": utterance.speaker.dialect,
        "reason": reason,
        "value": round(value, 3),
    }


def _prepared(utterance: Utterance, options: ConvertOptions, record: Record) -> Utterance:
    """The utterance as its language and the options want it; the record counts what is unusual."""
    speaker = utterance.speaker
    if options.language != DANISH:  # nobody is Non-native, and dialects are not mapped
        speaker = replace(speaker, dialect=speaker.sub_dialect)
    elif speaker.dialect is not None and speaker.dialect not in DIALECTS:
        record.unmapped[speaker.dialect] = record.unmapped.get(speaker.dialect, 0) + 1
    if (age := speaker.unread_age) is not None:
        record.ages[age] = record.ages.get(age, 0) + 1
    if speaker.country_birth != speaker.country:
        read_as = f"{speaker.country_birth} -> {speaker.country or 'unknown'}"
        record.countries[read_as] = record.countries.get(read_as, 0) + 1
    return replace(utterance, speaker=speaker)


def _read(source: Source, part: RowSlice) -> Iterator[Utterance]:
    """Read a slice; the rows must be the announced ones, or rows would be lost or doubled."""
    row = part.start
    with user_code(source, f"reading {part.file.name} after row {part.start}"):
        for utterance in source.read(part.file, part.start, part.stop):
            audio: object = utterance.audio
            if not isinstance(audio, bytes | Path | None):
                raise TypeError(f"row {row}: expected audio as bytes or a Path, found {audio!r}")
            if utterance.row != row:
                break
            yield utterance
            row += 1
    if row != part.stop:
        raise SourceError(
            f"{part.file.name}: row {row} was expected next, of the {part.file.rows} rows that the "
            "source has announced; it skips or repeats rows, or the file has changed"
        )


def _convert(
    utterance: Utterance,
    part: RowSlice,
    split: str,
    options: ConvertOptions,
    suspects: list[dict[str, Any]],
) -> dict[str, Any] | str:
    """An utterance as a row of `UTTERANCE_SCHEMA`, or the reason why it is dropped."""
    refused = utterance.refused or part.refused(utterance.row)
    if refused is not None:
        return refused
    if not utterance.id.strip():
        return "empty id"
    text = utterance.text or ""
    odd = oddities(text, utterance.audio)
    if (unusable := unusable_text(text, odd, split)) is not None:
        return unusable
    if (age := utterance.speaker.age) is not None and not 0 <= age <= MAX_AGE:
        odd[f"an age outside 0 to {MAX_AGE}"] = age
    if not utterance.audio:
        return "no audio"
    of_file: Findings = []
    try:
        with uninterrupted():
            mono = to_mono(
                utterance.audio,
                start=utterance.start,
                seconds=utterance.seconds,
                max_seconds=options.max_seconds,
                channel=utterance.channel or options.channel,
                findings=of_file,
            )
            peak = peak_of(mono)
            # Other utterances may follow in the file.
            findings = [found for found in of_file if utterance.whole or found[0] != SECONDS_LEFT]
            findings += examine(mono, peak, text, utterance.seconds)
            flac = encode_flac(mono, SAMPLE_RATE, peak)
    except AudioError as error:
        return str(error)
    suspects += (_suspect(utterance, part, split, *each) for each in chain(odd.items(), findings))
    return {
        "id": utterance.id,
        "text": text,
        "audio_bytes": flac,
        "audio_size": len(mono),
        "encoded_size": len(flac),
        "source_id": f"{part.file.name}:{utterance.row}",
        **{name: getattr(utterance.speaker, name) for name in _SPEAKER},
    }


def examine(
    mono: NDArray[np.float32], peak: float, text: str, asked: float | None
) -> Iterator[tuple[str, float]]:
    """Yield the reasons to suspect an utterance of 16 kHz, with what was measured.

    ``peak`` is that of `peak_of`, ``asked`` the length in seconds that the corpus gives.

    Raises:
        AudioError: It cannot be speech.
    """
    seconds = len(mono) / SAMPLE_RATE
    speed = sum(map(str.isalnum, text)) / seconds
    whole = len(mono) - len(mono) % _FRAME
    frames = mono[:whole].reshape(-1, _FRAME) if whole else mono[None]
    energies = np.einsum("ij,ij->i", frames, frames)
    if peak * 32768 < 1.5:  # dither at most: the last of 16 bits
        raise AudioError("digital silence")
    if peak > _NO_SCALE:
        raise AudioError("samples far outside -1 to 1")
    if speed > _IMPOSSIBLE:
        raise AudioError(f"more than {_IMPOSSIBLE} letters per second")
    if not _PLAUSIBLE[0] <= speed <= _PLAUSIBLE[1]:
        yield "letters per second", speed
    if asked is not None and asked - seconds > _ROUNDING:
        yield "seconds missing at the end", asked - seconds
    if peak >= _FULL_SCALE:
        share = np.count_nonzero(np.abs(mono) >= _FULL_SCALE) / len(mono)
        if share > _CLIPPED:
            yield "share of clipped samples", share
    loudness = 10 * log10(max(float(energies.mean()) / frames.shape[1], 1e-12))
    if loudness < _QUIET:
        yield "dBFS, very quiet", loudness
    silence = _longest_silence(energies)
    if silence > _LONG_SILENCE:
        yield "seconds of silence", silence


def _longest_silence(energies: NDArray[np.float32]) -> float:
    """The seconds of the longest run of silent frames."""
    loud = np.flatnonzero(energies >= _SILENT * energies.max())
    before_first = loud[0]
    between_two = np.diff(loud).max(initial=1) - 1  # neighbours differ by 1: no frame between
    after_last = len(energies) - 1 - loud[-1]
    return float(max(before_first, between_two, after_last)) / _FRAMES_PER_SECOND
