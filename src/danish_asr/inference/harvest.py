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
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from danish_asr.base.errors import AlignmentError, DanishAsrError, SourceError
from danish_asr.base.files import publish_text, refuse_overwriting, take
from danish_asr.base.folders import check_name
from danish_asr.base.sound import ShowProgress
from danish_asr.base.stops import exception_at_stops
from danish_asr.decoding.transcript import divide
from danish_asr.inference.loose_text import (
    FRAMES_PER_SECOND,
    Line,
    Piece,
    Text,
    TextsBeside,
    listen,
    match,
    read_text,
)
from danish_asr.inference.model import Model, load_model
from danish_asr.inference.recordings import Recording, find_recordings, work_through
from danish_asr.recipe.run.run import check_model, checkpoint_of

RECORDINGS: Final = "recordings"
UTTERANCES: Final = "utterances.jsonl"
LEFT_OUT: Final = "left-out.jsonl"

_LONGEST: Final = 4.0
"""Seconds of a piece: the shorter, the less is lost with a wrong word, and the less is sure."""

_MARGIN: Final = 0.1
"""Seconds of audio around a piece, as far as other words leave them."""

_PAUSE: Final = 1.0
"""Seconds between two pieces of an utterance, at most."""

_COPY: Final = 20
"""Pieces from which on a text that equals what the model hears is probably its own."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is kept."""

    max_cer: float  # of the model's reading of a text, against the text
    min_seconds: float  # of an utterance
    max_seconds: float


@dataclass(frozen=True, kw_only=True)
class Speech:
    """A piece of speech, and the words of the text that it may have; times in seconds."""

    start: float
    end: float
    hypothesis: str  # what the model hears
    text: str = ""  # what the text says; empty if it has nothing similar
    cer: float = 1.0  # character error rate of what the model hears, against the text
    first: int = 0  # the first of its words in the text
    last: int = 0  # the word after its last one
    speaker: str | None = None


def harvest(
    paths: Sequence[Path],
    out: Path,
    model: str,
    limits: Limits,
    *,
    tiers: Sequence[str] = (),
    device: str = "auto",
) -> bool:
    """Make tables of recordings; return whether all of them could be read.

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
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    recordings = find_recordings(paths, out / RECORDINGS)
    for own in recordings:
        check_name(own.path)
    texts = TextsBeside()
    key = {"weights": _weights(model), "tiers": [*tiers]}
    waiting = [own for own in recordings if not _is_heard(own, texts, key)]
    written = [*map(_result, waiting), out / UTTERANCES, out / LEFT_OUT]
    refuse_overwriting(written, [*(own.path for own in recordings), *_texts_of(waiting, texts)])
    loaded = None
    if waiting:
        loaded = load_model(model, device=device)
    if len(waiting) < len(recordings):
        console.print(f"heard before: {len(recordings) - len(waiting):,} recordings")
    failures: list[str] = []
    with exception_at_stops():
        advice = "Wait for its end, or name another --out."
        lease = take(out, error=DanishAsrError, advice=advice, work="harvest")
        try:
            if loaded is not None:
                failures = _listen(waiting, texts, loaded, key, console)
            heard = [own for own in recordings if _is_heard(own, texts, key)]
            _write_tables(heard, out, limits, console)
        finally:
            lease.release()
    if failures:
        console.print("\n  ".join([f"failed: {len(failures):,}", *failures]))
    return not failures


def _texts_of(recordings: Iterable[Recording], texts: TextsBeside) -> Iterator[Path]:
    """Yield the texts beside recordings; several texts of one are refused when it is heard."""
    for recording in recordings:
        with suppress(SourceError):
            text = texts.of(recording.path)
            if text:
                yield text


def _weights(model: str) -> str:
    """What the weights of a model are told apart by."""
    path = check_model(model)
    meant = checkpoint_of(path) if path.is_dir() else None
    return str(meant.digest()) if meant else model


def _is_heard(recording: Recording, texts: TextsBeside, key: Mapping[str, Any]) -> bool:
    """Whether a recording and its text are as they were when this model heard it."""
    try:
        values = json.loads(_result(recording).read_text(encoding="utf-8"))
        return bool(values["key"] == _state(recording, texts, key))
    except (DanishAsrError, OSError, ValueError, KeyError):
        return False


def _state(recording: Recording, texts: TextsBeside, key: Mapping[str, Any]) -> dict[str, Any]:
    """What the result of a recording depends on; raises SourceError for several texts."""
    files = filter(None, (recording.path, texts.of(recording.path)))
    stats = [(file.name, file.stat()) for file in files]
    return {**key, "files": [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]}


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
        state, text = _state(recording, texts, key), texts.of(recording.path)
        if text is None:
            without_text.append(recording)
            return
        lines = read_text(text, key["tiers"])
        seconds, pieces = hear_text(model, recording.path, lines, show)
        own = [asdict(piece) for piece in pieces]
        values = {"key": state, "seconds": seconds, "pieces": own}
        publish_text(_result(recording), json.dumps(values, ensure_ascii=False))
        if len(pieces) >= _COPY and not any(piece.cer for piece in pieces):
            console.print(
                f"warning: {text} is exactly what the model hears; if `danish-asr transcribe` has "
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
) -> tuple[float, list[Speech]]:
    """Return the seconds of a recording, and its speech."""
    text = Text(lines, model)
    seconds, pieces = listen(model, audio, text, progress)
    parts = [part for piece in pieces for part in _divided(piece)]
    stretches = match([part.hypothesis for part in parts], [word.spoken for word in text.words])
    speech = []
    for part, stretch in zip(parts, stretches, strict=True):
        own = Speech(start=part.start, end=part.end, hypothesis=part.hypothesis)
        if stretch is not None:
            with suppress(AlignmentError):  # more letters than frames: the text is not similar
                timed = text.align(part.frames, stretch.first, stretch.last, part.start)
                words = text.words[stretch.first : stretch.last]
                speakers = {lines[word.line].speaker for word in words}
                begin, end = timed[0].start, timed[-1].end
                own = replace(
                    own,
                    start=min(begin, max(begin - _MARGIN, part.start)),
                    end=max(end, min(end + _MARGIN, part.end)),
                    text=" ".join(word.text for word in timed),
                    cer=stretch.cer,
                    first=stretch.first,
                    last=stretch.last,
                    speaker=speakers.pop() if len(speakers) == 1 else None,
                )
        speech.append(own)
    return seconds, speech


def _divided(piece: Piece) -> Iterator[Piece]:
    """Cut a window at its longest pauses; each part has the frames up to the words beside it."""
    parts = [piece.words]
    if piece.words:
        parts = divide(piece.words, lambda words: words[-1].end - words[0].start <= _LONGEST)
    frame = 0
    for number, words in enumerate(parts):
        end = len(piece.frames)
        if number + 1 < len(parts):
            middle = (words[-1].end + parts[number + 1][0].start) / 2
            end = round((middle - piece.start) * FRAMES_PER_SECOND)
        start = piece.start + frame / FRAMES_PER_SECOND
        yield Piece(start, words, piece.frames[frame:end])
        frame = end


def select(pieces: Iterable[Speech], limits: Limits) -> Iterator[tuple[Speech, str]]:
    """Yield the utterances of a recording, and other speech with the reason why it is none.

    Neighbours become one utterance if no word of the text is between them.
    """
    utterances: list[Speech] = []
    for piece in pieces:
        if not piece.hypothesis:
            yield piece, "the model writes no word"
        elif piece.cer > limits.max_cer:
            yield piece, "text and speech differ"
        elif utterances and _continues(utterances[-1], piece, limits):
            utterances[-1] = _joined(utterances[-1], piece)
        else:
            utterances.append(piece)
    for own in utterances:
        if own.end - own.start < limits.min_seconds:
            yield own, f"shorter than {limits.min_seconds:g} s"
        elif own.end - own.start > limits.max_seconds:
            yield own, f"longer than {limits.max_seconds:g} s"
        else:
            yield own, ""


def _continues(before: Speech, after: Speech, limits: Limits) -> bool:
    return (
        after.start - before.end <= _PAUSE
        and after.end - before.start <= limits.max_seconds
        and before.speaker == after.speaker
        and before.last == after.first
    )


def _joined(before: Speech, after: Speech) -> Speech:
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
    for recording in sorted(recordings, key=lambda own: own.target):
        values = json.loads(_result(recording).read_text(encoding="utf-8"))
        seconds += values["seconds"]
        audio = os.path.relpath(recording.path.resolve(), out.resolve())
        place = recording.target.relative_to(out / RECORDINGS).as_posix()
        for own, reason in select([Speech(**piece) for piece in values["pieces"]], limits):
            row = {
                "id": f"{out.resolve().name}/{place}/{round(own.start * 1000):08d}",
                "audio_filepath": audio,
                "start": round(own.start, 3),
                "end": round(own.end, 3),
                "text": own.text,
                "hypothesis": own.hypothesis,
                "cer": round(own.cer, 4),
                "speaker_id": own.speaker,
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
