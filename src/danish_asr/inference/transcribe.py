"""``danish-asr transcribe``: files and folders to transcripts; no existing file is overwritten.

A recording whose transcripts exist is skipped, so that an interrupted command continues.
"""

# ruff: noqa: PLC0415 # fairseq2 is imported when paths and formats were checked

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.files import publish_text
from danish_asr.base.progress import Progress
from danish_asr.decoding.transcript import Transcript
from danish_asr.inference.formats import FORMATS, SUFFIXES, parse_formats, to_txt
from danish_asr.inference.recordings import Recording, find_recordings
from danish_asr.inference.sound import Audio, open_sound
from danish_asr.inference.speakers import Turns, read_speakers
from danish_asr.recipe.run.run_directory import check_model

if TYPE_CHECKING:
    from danish_asr.inference.model import Model

_STDIN: Final = Path("-")

_LISTED: Final = 10
"""Most skipped files that are named, and most without speech."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of ``danish-asr transcribe``."""

    model: str
    load: Mapping[str, Any]
    """Further arguments of `danish_asr.load_model`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Those of `danish_asr.inference.model.Model.transcribe`."""
    formats: str | None = None
    """With commas; None for text."""
    out: Path | None = None
    """A folder; None for that of the audio."""
    overwrite: bool = False
    speakers: Path | None = None
    """An RTTM file or a folder of them."""


def transcribe(paths: Sequence[Path], request: Request) -> bool:
    """Transcribe files and folders; return whether all succeeded.

    The text of a single file is printed if neither ``formats`` nor the folder ``out`` is given, and
    the transcript of standard input, which is the path ``-``, in any format.
    Otherwise a file that fails is reported at the end, and the others go on.

    Raises:
        ConfigError: The model or the decoder is unknown.
        DanishAsrError: A path is missing, a format unknown or the output cannot be written.
    """
    if _STDIN in paths:
        _print_stdin(paths, request)
        return True
    names = parse_formats(request.formats or "txt")
    recordings, others = find_recordings(paths, request.out)
    check_model(request.model)
    is_single = [recording.path for recording in recordings] == [*paths]
    if request.formats is None and request.out is None and is_single and len(paths) == 1:
        turns = read_speakers(request.speakers, recordings) if request.speakers else {}
        _print_text(request, paths[0], turns.get(paths[0]))
        return True
    for folder in {recording.target.parent for recording in recordings}:
        _check_writable(folder)
    tasks = {own.path: _missing(own, names, request) for own in recordings}
    skipped = [str(path) for path, outputs in tasks.items() if not outputs]
    tasks = {path: outputs for path, outputs in tasks.items() if outputs}
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    if others:
        console.print(f"files that are not audio, by their suffix: {others:,}")
    if skipped:
        more = f" and {len(skipped) - _LISTED:,} more" if len(skipped) > _LISTED else ""
        console.print(
            f"skipped, transcripts exist: {', '.join(skipped[:_LISTED])}{more}; --overwrite "
            "replaces them, --out writes elsewhere"
        )
    own = [recording for recording in recordings if recording.path in tasks]
    turns = read_speakers(request.speakers, own) if request.speakers else {}
    return not tasks or _transcribe_files(_load(request), request, tasks, turns, console)


def _load(request: Request) -> Model:
    from danish_asr.inference.model import load_model

    return load_model(request.model, **request.load)


def _missing(recording: Recording, names: Sequence[str], request: Request) -> dict[str, Path]:
    """Return the transcripts to write, by format."""
    target = recording.target
    outputs = {name: target.with_name(target.name + SUFFIXES[name]) for name in names}
    return {name: path for name, path in outputs.items() if request.overwrite or not path.exists()}


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "permission denied")
    except OSError as error:
        raise DanishAsrError(
            f"{folder}: cannot be written ({error.strerror}); choose another folder with --out"
        ) from error


def _print_stdin(paths: Sequence[Path], request: Request) -> None:
    """Print the transcript of standard input."""
    names = parse_formats(request.formats or "txt")
    if len(paths) > 1 or request.out is not None or len(names) > 1:
        raise DanishAsrError(
            "-: standard input is transcribed alone, in one format and without --out; it is printed"
        )
    if sys.stdin.isatty():
        raise DanishAsrError("-: expected audio on standard input: `... | danish-asr transcribe`")
    check_model(request.model)
    audio = sys.stdin.buffer.read()
    turns = None
    if request.speakers is not None:
        stdin = Recording(_STDIN, Path(request.speakers.stem), _STDIN)
        turns = read_speakers(request.speakers, [stdin])[_STDIN]
    if names == ["txt"]:
        _print_text(request, audio, turns)
        return
    with open_sound(audio):
        pass  # what is no audio is refused before fairseq2 is imported
    transcript = _load(request).transcribe(audio, **request.options)
    sys.stdout.write(FORMATS[names[0]](_with_speakers(transcript, turns, request)))


def _print_text(request: Request, audio: Audio, turns: Turns | None) -> None:
    """Print the text of a recording while it is transcribed."""
    with open_sound(audio):
        pass
    spoken = False
    for segment in _load(request).stream(audio, **request.options):
        spoken = True
        transcript = _with_speakers(Transcript(0.0, [segment]), turns, request)
        sys.stdout.write(to_txt(transcript))
        sys.stdout.flush()
    if not spoken:
        name = audio if isinstance(audio, Path) else "standard input"
        sys.stderr.write(f"{name}: no speech found\n")


def _with_speakers(transcript: Transcript, turns: Turns | None, request: Request) -> Transcript:
    if turns is None:
        return transcript
    transcript.about["speakers"] = str(request.speakers)
    return turns.divide(transcript)


def _transcribe_files(
    model: Model,
    request: Request,
    tasks: Mapping[Path, Mapping[str, Path]],
    turns: Mapping[Path, Turns],
    console: Console,
) -> bool:
    """Write the missing transcripts of each recording; return whether all succeeded."""
    failures: list[str] = []
    silent: list[str] = []
    begin, finished, seconds = time.monotonic(), 0, 0.0
    with Progress(f"0/{len(tasks):,} files", len(tasks), console=console) as bar:

        def show(done: float, total: float | None) -> None:
            share = min(done / total, 1.0) if total else 0.0
            bar.update(finished + len(failures) + share)

        transcripts = model.transcribe_each([*tasks], progress=show, **request.options)
        for (path, outputs), transcript in zip(tasks.items(), transcripts, strict=True):
            if isinstance(transcript, Exception):
                failures.append(str(transcript))
                continue
            complete = _with_speakers(transcript, turns.get(path), request)
            for name, output in outputs.items():
                publish_text(output, FORMATS[name](complete))
            if not transcript.segments:
                silent.append(str(path))
            finished, seconds = finished + 1, seconds + transcript.duration
            bar.update(finished + len(failures), text=f"{finished:,}/{len(tasks):,} files")
    elapsed = time.monotonic() - begin
    if finished:
        console.print(
            f"transcribed {finished:,} of {len(tasks):,} files: {_clock(seconds)} of audio in "
            f"{_clock(elapsed)}, real-time factor {elapsed / max(seconds, 1e-3):.3f}"
        )
    if silent:
        console.print("\n  ".join([f"no speech found: {len(silent):,}", *silent[:_LISTED]]))
    if failures:
        console.print("\n  ".join([f"failed: {len(failures):,}", *failures]))
    return not failures


def _clock(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))
