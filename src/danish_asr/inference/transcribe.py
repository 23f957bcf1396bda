"""``danish-asr transcribe``: files and folders to transcripts; nothing that is read is overwritten.

Transcripts that exist are kept, so that an interrupted command continues.
"""

# ruff: noqa: PLC0415 # fairseq2 is imported when paths and formats were checked

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.files import check_writable, publish_text, refuse_overwriting
from danish_asr.base.progress import plain_console
from danish_asr.base.sound import Audio, ShowProgress
from danish_asr.decoding.ngram import files_beside
from danish_asr.decoding.transcript import Transcript
from danish_asr.inference.formats import FORMATS, parse_formats
from danish_asr.inference.recordings import Recording, find_recordings, work_through
from danish_asr.inference.speakers import Turns, read_speakers
from danish_asr.recipe.run.run import check_model, files_of_model

if TYPE_CHECKING:
    from danish_asr.inference.model import Model

_STDIN: Final = Path("-")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of ``danish-asr transcribe``."""

    model: str
    load: Mapping[str, Any]  # further arguments of `danish_asr.load_model`
    options: Mapping[str, Any]  # those of `danish_asr.inference.model.Model.transcribe`
    formats: str | None = None  # with commas; None for text
    out: Path | None = None  # a folder; None for that of the audio
    overwrite: bool = False
    speakers: Path | None = None  # an RTTM file or a folder of them
    text: Path | None = None  # what is said, of which only the times are wanted


def transcribe(paths: Sequence[Path], request: Request) -> bool:
    """Transcribe files and folders; return whether all succeeded.

    The text of a single file is printed if neither ``formats`` nor the folder ``out`` is given, and
    the transcript of a pipe, or of standard input, which is the path ``-``, in any format.
    Otherwise a file that fails is reported at the end, and the others go on. Raises DanishAsrError
    if a path is missing, a folder cannot be written, or a format, the model or the decoder is
    unknown.
    """
    formats = parse_formats(request.formats or "txt")
    check_model(request.model)
    if any(map(_is_pipe, paths)):
        if len(paths) > 1 or request.out or len(formats) > 1 or request.speakers or request.text:
            raise DanishAsrError(
                f"{next(filter(_is_pipe, paths))}: a pipe is transcribed alone, in one format, "
                "without --out, --speakers and --text; it is printed"
            )
        _print(request, _read_pipe(paths[0]), formats[0], None)
        return True
    recordings = find_recordings(paths, request.out)
    turns = read_speakers(request.speakers, recordings) if request.speakers else {}
    is_single = len(paths) == 1 and not paths[0].is_dir()
    if is_single and request.formats is None and request.out is None:
        _print(request, paths[0], "txt", turns.get(paths[0]))
        return True
    tasks = {recording: _missing(recording, formats, request) for recording in recordings}
    # A given text is compared with the speech again: so a doubtful one fails again.
    waiting = {
        recording: outputs for recording, outputs in tasks.items() if outputs or request.text
    }
    written = [file for outputs in waiting.values() for file in outputs.values()]
    refuse_overwriting(written, _inputs(recordings, request))
    check_writable({file.parent for file in written}, "choose another --out")
    console = plain_console(stderr=True)
    if kept := len(formats) * len(recordings) - len(written):
        console.print(
            f"kept, because they exist: {kept:,} transcripts; --overwrite replaces them, --out "
            "writes elsewhere"
        )
    return not waiting or _transcribe_files(request, waiting, turns, console)


def _is_pipe(path: Path) -> bool:
    return path == _STDIN or path.is_fifo() or path.is_char_device()


def _read_pipe(path: Path) -> bytes:
    return sys.stdin.buffer.read() if path == _STDIN else path.read_bytes()


def _missing(recording: Recording, formats: Sequence[str], request: Request) -> dict[str, Path]:
    """Return the transcripts to write, by format."""
    outputs = recording.transcripts(formats)
    return {name: file for name, file in outputs.items() if request.overwrite or not file.exists()}


def _inputs(recordings: Sequence[Recording], request: Request) -> list[Path]:
    """Return all that a transcription reads."""
    read = [recording.path for recording in recordings] + files_of_model(request.model)
    if request.text:
        read.append(request.text)
    if request.speakers and request.speakers.is_dir():
        read += request.speakers.rglob("*.rttm")
    elif request.speakers:
        read.append(request.speakers)
    decoding = request.load.get("decoder_config") or {}
    if "hotwords" in decoding:
        read.append(decoding["hotwords"])
    if "lm" in decoding:
        read += files_beside(decoding["lm"])
    return read


def _load(request: Request) -> Model:
    from danish_asr.inference.model import load_model

    return load_model(request.model, **request.load)


def _print(request: Request, audio: Audio, name: str, turns: Turns | None) -> None:
    """Print a transcript, the text of mixed channels while it is transcribed."""
    model = _load(request)
    spoken = False
    for transcript in _printed(model, audio, name, request):
        spoken = spoken or bool(transcript.segments)
        sys.stdout.write(FORMATS[name](_with_speakers(transcript, turns, request)))
        sys.stdout.flush()
    if not spoken:
        sys.stderr.write(f"{model.why_empty(audio)}\n")


def _printed(model: Model, audio: Audio, name: str, request: Request) -> Iterator[Transcript]:
    """Yield the transcript, or a transcript of each segment where it can be printed as it ends."""
    if name != "txt" or request.options["channels"] == "split":
        yield model.transcribe(audio, **request.options)
        return
    options = {key: value for key, value in request.options.items() if key != "channels"}
    for segment in model.stream(audio, **options):
        yield Transcript(0.0, [segment])


def _with_speakers(transcript: Transcript, turns: Turns | None, request: Request) -> Transcript:
    if turns is None:
        return transcript
    transcript.about["speakers"] = str(request.speakers)
    return turns.divide(transcript)


def _transcribe_files(
    request: Request,
    tasks: Mapping[Recording, Mapping[str, Path]],
    turns: Mapping[Path, Turns],
    console: Console,
) -> bool:
    """Write the missing transcripts of each recording; return whether all succeeded."""
    from danish_asr.inference.find_text import align, report_doubts
    from danish_asr.inference.loose_text import read_text

    lines = read_text(request.text) if request.text else []
    model = _load(request)
    empty: dict[str, list[str]] = defaultdict(list)  # by the reason
    begin, seconds = time.monotonic(), 0.0

    def write(recording: Recording, show: ShowProgress) -> None:
        nonlocal seconds
        path = recording.path
        if request.text:
            transcript = align(model, path, lines, show)
        else:
            transcript = model.transcribe(path, progress=show, **request.options)
        transcript = _with_speakers(transcript, turns.get(path), request)
        for name, output in tasks[recording].items():
            publish_text(output, FORMATS[name](transcript))
        if not transcript.segments:
            empty[model.why_empty(path)].append(str(path))
        seconds += transcript.duration
        if request.text:
            report_doubts(transcript, console)

    failures = work_through([*tasks], write, console)
    elapsed = time.monotonic() - begin
    if succeeded := len(tasks) - len(failures):
        console.print(
            f"transcribed {succeeded:,} of {len(tasks):,} files: {_clock(seconds)} of audio in "
            f"{_clock(elapsed)}, real-time factor {elapsed / max(seconds, 1e-3):.3f}"
        )
    for reason, files in empty.items():
        console.print("\n  ".join([f"{reason}: {len(files):,}", *files]))
    if failures:
        console.print("\n  ".join([f"failed: {len(failures):,}", *failures]))
    return not failures


def _clock(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))
