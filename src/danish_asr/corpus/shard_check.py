"""Check one shard of a built dataset, and collect what is compared over all shards."""

import hashlib
import io
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import soundfile

from danish_asr.base.files import sha256_of
from danish_asr.base.schema import FLAC_MD5, SAMPLE_RATE, UTTERANCE_SCHEMA
from danish_asr.base.workers import uninterrupted
from danish_asr.corpus.division import sentence_of
from danish_asr.corpus.people import PEOPLE
from danish_asr.corpus.shards import ShardEntry
from danish_asr.corpus.sources.metadata import age_group
from danish_asr.corpus.texts import text_profiles
from danish_asr.text.profiles import normalizer

COMPARED: Final = pa.schema(
    [
        ("id", pa.string()),
        ("sentence", pa.string()),
        ("audio", pa.binary(16)),
        *PEOPLE,
    ]
)
"""What is compared over all shards; a sentence is a text in profile ``coral``, null if short. The
audio is the MD5 of its samples, which FLAC has in its header; null if its encoder left it out."""

_AUDIO: Final = ("FLAC", "PCM_16", SAMPLE_RATE, 1)
_NO_MD5: Final = bytes(16)
_NAMED: Final = 3

CONVENTIONS: Final[Mapping[str, Callable[[str], object]]] = {
    "capitals": lambda text: any(map(str.isupper, text)),
    "digits": re.compile(r"\d").search,
    "punctuation": re.compile(r"[^\w\s]").search,
}
"""What the transcripts of one corpus have and those of another lack."""


@dataclass(kw_only=True)
class ShardFindings:
    """What a shard holds."""

    entry: ShardEntry
    faults: list[str] = field(default_factory=list)
    compared: pa.Table = field(default_factory=COMPARED.empty_table)
    samples: Counter[str | None] = field(default_factory=Counter)  # per dialect
    characters: set[str] = field(default_factory=set)  # of training text, raw and under profiles
    excluded: list[str] = field(default_factory=list)  # ids of rows that are left out
    excluded_samples: int = 0
    conventions: Counter[tuple[str, str]] = field(default_factory=Counter)  # see `CONVENTIONS`

    @property
    def split(self) -> str:
        """Split of the shard."""
        return self.entry.partition("split")

    @property
    def corpus(self) -> str:
        """Corpus of the shard."""
        return self.entry.partition("corpus")


def check_shard(
    task: tuple[ShardEntry, int], *, root: Path, excluded: Collection[str] = ()
) -> ShardFindings:
    """Check a shard, and decode the audio of that many of its rows, spread evenly over it.

    Rows with an ``excluded`` id are counted by themselves, and compared with no other.
    """
    entry, decoded = task
    findings = ShardFindings(entry=entry)
    findings.faults += guarded(
        entry.path, _shard_faults(root / entry.path, findings, decoded, excluded)
    )
    return findings


def guarded(place: str, faults: Iterable[str]) -> Iterator[str]:
    """Pass the faults of a file on; whatever its reading raises is one more."""
    try:
        yield from faults
    except FileNotFoundError:
        yield f"{place}: is missing"
    except Exception as error:  # noqa: BLE001 - what libraries raise over wrong bytes is anything
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        words = " ".join(reason.split()) or type(error).__name__
        yield f"{place}: cannot be read ({words[:200]})"


def samples_md5(flac: bytes) -> bytes | None:
    """The MD5 of a FLAC file's samples, which its header has; None without it."""
    md5 = flac[FLAC_MD5]
    return md5 if flac.startswith(b"fLaC") and len(md5) == 16 and md5 != _NO_MD5 else None


def few(names: list[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _shard_faults(
    path: Path, findings: ShardFindings, decoded: int, excluded: Collection[str]
) -> Iterator[str]:
    entry, compared = findings.entry, list[dict[str, Any]]()
    if sha256_of(path) != entry.sha256:
        yield f"{entry.path}: its sha256 differs from manifest.json"
        return
    faulty: defaultdict[str, list[str]] = defaultdict(list)
    profiles = {name: normalizer(name) for name in text_profiles(entry.partition("language"))}
    with pq.ParquetFile(path) as parquet:
        rows = parquet.metadata.num_rows
        if not parquet.schema_arrow.equals(UTTERANCE_SCHEMA):
            yield f"{entry.path}: its columns differ from data/README.md"
            return
        decoded = min(decoded, rows)
        chosen = {(2 * time + 1) * rows // (2 * decoded) for time in range(decoded)}
        groups = (parquet.read_row_group(group) for group in range(parquet.num_row_groups))
        for number, (row, audio) in enumerate(chain.from_iterable(map(_rows, groups))):
            if row["id"] in excluded:
                findings.excluded.append(row["id"])
                findings.excluded_samples += row["audio_size"]
            else:
                spoken = {name: profile(row["text"]) for name, profile in profiles.items()}
                _count(row, spoken, findings)
                sentence = sentence_of(next(iter(spoken.values())))
                compared.append({**row, "sentence": sentence, "audio": samples_md5(row["head"])})
            faults = list(_row_faults(row))
            if number in chosen:
                faults += _audio_faults(audio.as_py(), row)
            for fault in faults:
                faulty[fault].append(row["id"].strip() or f"row {number}")
    samples = findings.samples.total() + findings.excluded_samples
    if (rows, samples) != (entry.rows, round(entry.seconds * SAMPLE_RATE)):
        yield (
            f"{entry.path}: has {rows} rows and {samples / SAMPLE_RATE:g} s; manifest.json says "
            f"{entry.rows} and {entry.seconds:g}, which decide how often its corpus is drawn"
        )
    findings.compared = pa.Table.from_pylist(compared, COMPARED)
    for fault, ids in faulty.items():
        yield f"{entry.path}: {fault}: {few(ids)}"


def _count(row: Mapping[str, Any], spoken: Mapping[str, str], findings: ShardFindings) -> None:
    """Add a row to the counts, with its text as each profile says it."""
    text = row["text"]
    findings.samples[row["dialect"]] += row["audio_size"]
    if findings.split == "train":
        findings.characters.update(text, *spoken.values())
    for profile, said in {"raw": text, **spoken}.items():
        found = (name for name, find in CONVENTIONS.items() if find(said))
        findings.conventions.update((profile, name) for name in found)


def _rows(group: pa.Table) -> Iterator[tuple[dict[str, Any], pa.Scalar]]:
    """The rows of a row group: columns, head and bytes of the audio, and the audio itself."""
    audio = group["audio_bytes"]
    heads = pc.binary_slice(audio, 0, FLAC_MD5.stop)
    columns = group.drop_columns(["audio_bytes"]).append_column("head", heads)
    columns = columns.append_column("bytes", pc.binary_length(audio))
    return zip(columns.to_pylist(), audio, strict=True)


def _row_faults(row: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"empty {name}" for name in ("id", "text") if not row[name].strip())
    if row["age"] is not None and row["age_group"] != age_group(row["age"]):
        yield "age_group is not that of the age"
    if row["encoded_size"] != row["bytes"]:
        yield "encoded_size is not the number of bytes"


def _audio_faults(data: bytes, row: Mapping[str, Any]) -> Iterator[str]:
    try:
        with uninterrupted(), soundfile.SoundFile(io.BytesIO(data)) as file:
            form = (file.format, file.subtype, file.samplerate, file.channels)
            samples = file.read(dtype="int16")
    except RuntimeError:
        yield "undecodable audio"
        return
    if form != _AUDIO:
        yield f"audio is {form}; expected {_AUDIO}"
    elif (md5 := data[FLAC_MD5]) not in {
        _NO_MD5,
        hashlib.md5(samples, usedforsecurity=False).digest(),
    }:
        yield f"the MD5 in the FLAC header ({md5.hex()}) is not that of the samples"
    if len(samples) and max(int(samples.max()), -int(samples.min())) < 2:
        yield "digital silence"
    if len(samples) != row["audio_size"]:
        yield "audio_size is not the number of samples"
