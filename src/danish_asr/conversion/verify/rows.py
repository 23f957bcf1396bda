"""The rules for one row of a shard, as ``data/README.md`` states them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import soundfile

from danish_asr.conversion.verify.damage import DAMAGE
from danish_asr.schema import SAMPLE_RATE
from danish_asr.sources.metadata import age_group, clean, map_dialect, parse_age

_FORM: Final = ("FLAC", "PCM_16", SAMPLE_RATE, 1)
_AGE_GROUPS: Final = tuple(dict.fromkeys(str(age_group(years)) for years in range(100)))
_WORDS: Final = ("speaker_id", "dialect", "sub_dialect", "gender", "country_birth")
_SOURCE_ID: Final = re.compile(r"(.+):([0-9]{1,18})", re.DOTALL)
_BLOCK: Final = 1 << 16
"""Samples that are decoded at a time: a damaged header may promise any number of them."""


def row_faults(row: Mapping[str, Any], *, decode: bool) -> Iterator[str]:
    """Yield what is wrong with a row.

    Args:
        row: The columns of the contract.
        decode: Whether the audio is decoded to its end, and not its header read alone.
    """
    if not row["text"].strip():
        yield "empty text"
    if row["audio_size"] < 1:
        yield "audio_size is not above 0"
    yield from _audio_faults(row["audio_bytes"], row["audio_size"], decode=decode)
    yield from _speaker_faults(row)
    if row["source_id"] is not None and source_position(row["source_id"]) is None:
        yield "source_id is not FILE:ROW"


def source_position(source_id: str) -> tuple[str, int] | None:
    """The source file and the row in it that a ``source_id`` names, or None."""
    match = _SOURCE_ID.fullmatch(source_id)
    return None if match is None else (match[1], int(match[2]))


def _audio_faults(audio: bytes, size: int, *, decode: bool) -> Iterator[str]:
    try:
        with soundfile.SoundFile(io.BytesIO(audio)) as file:
            form = (file.format, file.subtype, file.samplerate, file.channels)
            samples = _decoded(file) if decode else file.frames
    except DAMAGE:
        yield "undecodable audio"
        return
    if form != _FORM:
        yield "audio is {} {}, {} Hz, channels: {}; expected {} {}, {} Hz, channels: {}".format(
            *form, *_FORM
        )
    if samples != size:
        yield "audio_size is not the number of samples"


def _decoded(file: soundfile.SoundFile) -> int:
    samples = 0
    while block := len(file.read(_BLOCK, dtype="int16", always_2d=True)):
        samples += block
    return samples


def _speaker_faults(row: Mapping[str, Any]) -> Iterator[str]:
    for name in _WORDS:
        if clean(row[name]) != row[name]:
            yield f"{name} is blank or has blanks around it (null is what is not known)"
    dialect = map_dialect(row["sub_dialect"], row["country_birth"])
    if row["dialect"] != dialect:
        yield f"dialect is not '{dialect}', as sub_dialect and country_birth have it"
    age, group = row["age"], row["age_group"]
    if parse_age(age) != age:
        yield "age is not a number of years"
    elif age is not None and group != age_group(age):
        yield f"age_group is not '{age_group(age)}', as the age has it"
    elif group is not None and group not in _AGE_GROUPS:
        yield f"age_group is not one of {', '.join(_AGE_GROUPS)}"
