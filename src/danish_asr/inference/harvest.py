"""``danish-asr harvest``: recordings with loose texts to a table; an interrupted one continues.

Recordings with a text beside them come in. What text and model agree on comes out, in the folder

- ``recordings/``: what the model heard, a file for each recording; it does not depend on limits
- ``utterances.jsonl``: what is kept, as a table that ``convert`` reads
- ``left-out.jsonl``: what is not, with the reasons
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from danish_asr.base.errors import AlignmentError, DanishAsrError
from danish_asr.base.files import publish_text, refuse_overwriting, sha256_of, take
from danish_asr.base.folders import check_name
from danish_asr.base.progress import plain_console
from danish_asr.base.sound import ShowProgress
from danish_asr.base.stops import exception_at_stops
from danish_asr.corpus.sources.timed import NUMBERED
from danish_asr.inference.find_text import Found, TextInSound, find_text
from danish_asr.inference.loose_text import Line, TextsBeside
from danish_asr.inference.model import Model, load_model
from danish_asr.inference.recordings import Recording, find_recordings, work_through
from danish_asr.recipe.run.run import check_model, checkpoint_of

RECORDINGS: Final = "recordings"
UTTERANCES: Final = "utterances.jsonl"
LEFT_OUT: Final = "left-out.jsonl"

_LONGEST: Final = 4.0
"""Seconds of a piece: the shorter, the less is lost with a wrong word, and the less is sure."""

_UTTERANCE_MARGIN: Final = 0.1
"""Seconds of audio around a piece, as far as other words leave them."""

_UTTERANCE_PAUSE: Final = 1.0
"""Seconds between two pieces of an utterance, at most."""

_WEIGHTS: Final = {".bin", ".pt", ".safetensors"}
"""How files of weights end."""

_COPY: Final = 20
"""Pieces from which on a text that equals what the model hears is probably its own."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is kept."""

    max_cer: float  # of the model's reading of a text, against the text
    min_seconds: float  # of an utterance
    max_seconds: float


def harvest(
    paths: Sequence[Path],
    out: Path,
    model: str,
    limits: Limits,
    *,
    tiers: Sequence[str] = (),
    device: str = "auto",
) -> bool:
    """Make tables of recordings; return whether all could be read, and any had a text.

    Args:
        paths: Files and folders; the text beside a recording has its name.
        out: A folder for the tables, which may hold an earlier harvest.
        model: As for `load_model`.
        limits: What is kept.
        tiers: Names or patterns of the tiers with the text, of TextGrid or ELAN.
        device: Where it runs.

    Raises DanishAsrError if a path is missing, the model is unknown, or another process writes to
    ``out``.
    """
    console = plain_console(stderr=True)
    recordings = find_recordings(paths, out / RECORDINGS, once=True)
    for recording in recordings:
        check_name(recording.path)
    texts = TextsBeside()
    key = {"weights": _weights(model), "tiers": [*tiers]}

    def is_heard(recording: Recording) -> bool:
        return _kept(recording).get("key") == _state(recording, texts, key)

    waiting = [recording for recording in recordings if not is_heard(recording)]
    read = [path for own in waiting for path in (own.path, *texts.files(own.path))]
    refuse_overwriting([*map(_result, waiting), out / UTTERANCES, out / LEFT_OUT], read)
    loaded = load_model(model, device=device) if waiting else None
    if len(waiting) < len(recordings):
        console.print(f"heard before: {len(recordings) - len(waiting):,} recordings")
    failures: list[str] = []
    with exception_at_stops():
        advice = "Wait for its end, or name another --out."
        lease = take(out, error=DanishAsrError, advice=advice, work="harvest")
        try:
            if loaded is not None:
                failures = _listen(waiting, texts, loaded, key, console)
            heard = [recording for recording in recordings if is_heard(recording)]
            if heard:
                _write_tables(heard, out, limits, console)
        finally:
            lease.release()
    if failures:
        console.print("\n  ".join([f"failed: {len(failures):,}", *failures]))
    return bool(heard) and not failures


def _weights(model: str) -> str:
    """What the weights of a model are told apart by."""
    path = check_model(model)
    if not path.is_dir():
        return model
    if meant := checkpoint_of(path):
        return str(meant.digest())
    return " ".join(sha256_of(file) for file in sorted(path.rglob("*")) if file.suffix in _WEIGHTS)


def _state(recording: Recording, texts: TextsBeside, key: Mapping[str, Any]) -> dict[str, Any]:
    """What the result of a recording depends on: the model, and the files as they are now."""
    files = [recording.path, *texts.files(recording.path)]
    stats = [(file.name, file.stat()) for file in files]
    return {**key, "files": [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]}


def _kept(recording: Recording) -> dict[str, Any]:
    """What an earlier harvest has kept of a recording; empty: nothing that can be read."""
    try:
        values = json.loads(_result(recording).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _result(recording: Recording) -> Path:
    """Return the file of what the model heard in a recording."""
    return recording.transcripts(["json"])["json"]


def _listen(
    recordings: Sequence[Recording],
    texts: TextsBeside,
    model: Model,
    key: Mapping[str, Any],
    console: Console,
) -> list[str]:
    """Run the model over recordings with a text and keep what it hears; return what failed."""
    without_text: list[Recording] = []

    def listen_to(recording: Recording, show: ShowProgress) -> None:
        state, text = _state(recording, texts, key), texts.read(recording.path, key["tiers"])
        if text is None:
            without_text.append(recording)
            return
        path, lines = text
        seconds, rows = hear_text(model, recording.path, lines, show)
        values = {"key": state, "seconds": seconds, "pieces": [*map(asdict, rows)]}
        publish_text(_result(recording), json.dumps(values, ensure_ascii=False))
        if len(rows) >= _COPY and not any(row.cer for row in rows):
            console.print(
                f"warning: {path} is exactly what the model hears; if `danish-asr transcribe` has "
                "written it, remove it and harvest again"
            )

    failures = work_through(recordings, listen_to, console)
    if without_text:
        console.print(
            f"without a text beside them: {len(without_text):,} recordings; for these `danish-asr "
            "transcribe --format json`, correct the texts, then `danish-asr convert`"
        )
    return failures


def hear_text(
    model: Model, audio: Path, lines: Sequence[Line], progress: ShowProgress | None = None
) -> tuple[float, list[Found]]:
    """Return the seconds of a recording, and its speech, as far as its words of the text go."""
    found = find_text(model, audio, lines, progress, longest=_LONGEST)
    return found.seconds, [_narrowed(row, found, number) for number, row in enumerate(found.rows)]


def _narrowed(row: Found, found: TextInSound, number: int) -> Found:
    """Return a row with the times of its words of the text."""
    try:
        words = found.align(number, number + 1, row.first, row.last)
    except AlignmentError:  # more letters than frames: the text is not similar
        return Found(start=row.start, end=row.end, hypothesis=row.hypothesis)
    if not words:
        return row
    start, end = words[0].start, words[-1].end
    with_margin = max(start - _UTTERANCE_MARGIN, row.start), min(end + _UTTERANCE_MARGIN, row.end)
    return replace(row, start=min(start, with_margin[0]), end=max(end, with_margin[1]))


def select(pieces: Iterable[Found], limits: Limits) -> Iterator[tuple[Found, str]]:
    """Yield the utterances of a recording, and other speech with the reason why it is none.

    Neighbours become one utterance if no word of the text is between them.
    """
    utterances: list[Found] = []
    for piece in pieces:
        if not piece.hypothesis:
            yield piece, "the model writes no word"
        elif piece.cer > limits.max_cer:
            yield piece, "text and speech differ"
        elif utterances and _continues(utterances[-1], piece, limits):
            utterances[-1] = _as_one(utterances[-1], piece)
        else:
            utterances.append(piece)
    for utterance in utterances:
        seconds = utterance.end - utterance.start
        if seconds < limits.min_seconds:
            yield utterance, f"shorter than {limits.min_seconds:g} s"
        elif seconds > limits.max_seconds:
            yield utterance, f"longer than {limits.max_seconds:g} s"
        else:
            yield utterance, ""


def _continues(before: Found, after: Found, limits: Limits) -> bool:
    return (
        after.start - before.end <= _UTTERANCE_PAUSE
        and after.end - before.start <= limits.max_seconds
        and before.speaker == after.speaker
        and before.last == after.first
    )


def _as_one(before: Found, after: Found) -> Found:
    a, b = max(len(before.text), 1), max(len(after.text), 1)  # no text: nothing was matched
    return replace(
        before,
        hypothesis=f"{before.hypothesis} {after.hypothesis}",
        text=f"{before.text} {after.text}",
        end=after.end,
        last=after.last,
        cer=(a * before.cer + b * after.cer) / (a + b),
    )


def _write_tables(
    recordings: Iterable[Recording], out: Path, limits: Limits, console: Console
) -> None:
    """Apply the limits and write the tables."""
    tables: dict[str, list[dict[str, Any]]] = {UTTERANCES: [], LEFT_OUT: []}
    seconds = 0.0
    for recording in sorted(recordings, key=lambda heard: heard.target):
        values = _kept(recording)
        seconds += values["seconds"]
        audio = os.path.relpath(recording.path.resolve(), out.resolve())
        place = recording.target.relative_to(out / RECORDINGS).as_posix()
        for piece, reason in select([Found(**row) for row in values["pieces"]], limits):
            speaker = piece.speaker
            if speaker and NUMBERED.fullmatch(speaker):
                speaker = f"{place} {speaker}"  # another one in each recording
            row = {
                "id": f"{out.resolve().name}/{place}/{round(piece.start * 1000):08d}",
                "audio_filepath": audio,
                "start": round(piece.start, 3),
                "end": round(piece.end, 3),
                "text": piece.text,
                "hypothesis": piece.hypothesis,
                "cer": round(piece.cer, 4),
                "speaker_id": speaker,
            }
            if reason:
                tables[LEFT_OUT].append(row | {"reason": reason})
            else:
                tables[UTTERANCES].append(row)
    for name, rows in tables.items():
        lines = (f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        publish_text(out / name, "".join(lines))
    kept = tables[UTTERANCES]
    minutes = sum(row["end"] - row["start"] for row in kept) / 60
    console.print(
        f"{minutes:,.1f} of {seconds / 60:,.1f} minutes are kept, as {len(kept):,} utterances; "
        f"{out / LEFT_OUT} has the rest, with reasons"
    )
