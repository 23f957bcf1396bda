"""``danish-asr transcribe``: files and folders to transcripts; no existing file is overwritten.

A recording whose transcripts exist is skipped, so that an interrupted command continues.
"""

# ruff: noqa: PLC0415 # fairseq2 is imported when paths and formats were checked

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.files import publish_text
from danish_asr.base.progress import Progress
from danish_asr.decoding.ngram import find_language_model
from danish_asr.decoding.transcript import Segment, Transcript
from danish_asr.inference.additions import Additions
from danish_asr.inference.formats import FORMATS, SUFFIXES, parse_formats, to_txt
from danish_asr.inference.recordings import Recording, find_recordings
from danish_asr.inference.sound import open_sound
from danish_asr.recipe.run.run_directory import check_model

if TYPE_CHECKING:
    from danish_asr.inference.model import Model

_BYTES_PER_SECOND: Final = 32_000
"""Of speech in 16 bits at 16 kHz."""

_STDIN: Final = Path("-")

_LISTED: Final = 10
"""Most skipped files that are named, and most without speech."""


@dataclass(frozen=True)
class Settings:
    """The options of ``danish-asr transcribe``; None is the default."""

    decoder: str | None = None
    lm: Path | None = None
    hotwords: Path | None = None
    channels: str = "mix"
    batch_seconds: float | None = None
    nbest: int | None = None
    int8: bool = False
    """Whether the weights are rounded to 8 bits, for a CPU."""
    speakers: str | None = None
    """``auto``, or an RTTM file or a folder of them."""
    punctuate: str | None = None
    """A model of punctuation."""

    def options(self) -> dict[str, Any]:
        """Return the arguments of ``Model.transcribe``.

        Raises:
            DanishAsrError: The decoder takes no such option.
            LanguageModelError: There is no such language model.
        """
        config: dict[str, object] = {}
        if self.lm is not None:
            config["lm"] = str(self.lm)
        if self.hotwords is not None:
            config["hotwords"] = str(self.hotwords)
        if self.nbest is not None:
            config["nbest"] = self.nbest
        decoder = self.decoder or ("beam" if config else "greedy")
        if config and decoder == "greedy":
            raise DanishAsrError(f"--{next(iter(config))} needs --decoder beam, not greedy")
        if self.lm is not None and decoder == "beam":
            find_language_model(self.lm)
        if self.speakers and self.channels == "split":
            raise DanishAsrError(
                "--speakers finds those of one microphone; with --channels split each channel is "
                "a speaker: give one of the two"
            )
        return {
            "decoder": decoder,
            "decoder_config": config,
            "channels": self.channels,
            "batch_seconds": self.batch_seconds,
        }

    def additions(self, recordings: Sequence[Path | bytes]) -> Additions:
        """Load what adds speakers and punctuation to the transcripts of ``recordings``."""
        return Additions(self.speakers, self.punctuate, recordings)

    def load(self, model: str, device: str) -> Model:
        """Load a model; faults of the decoder are found before its weights are read."""
        options = self.options()

        from danish_asr.inference.model import load_model

        decoder = options["decoder"], options["decoder_config"]
        return load_model(model, device=device, decoder=decoder, int8=self.int8)


def transcribe_files(
    model: str,
    paths: Sequence[Path],
    settings: Settings,
    *,
    formats: str | None = None,
    out: Path | None = None,
    overwrite: bool = False,
    device: str = "auto",
) -> bool:
    """Transcribe files and folders; return whether all succeeded.

    The text of a single file is printed if neither ``formats`` nor the folder ``out`` is given, and
    the transcript of standard input, which is the path ``-``, in any format.
    Otherwise a file that fails is reported at the end, and the others go on.

    Raises:
        ConfigError: The model or the decoder is unknown.
        DanishAsrError: A path is missing, a format unknown or the output cannot be written.
    """
    if _STDIN in paths:
        if len(paths) > 1 or out is not None:
            raise DanishAsrError(
                "-: standard input is transcribed alone and without --out; it is printed"
            )
        _print_stdin(model, settings, formats or "txt", device)
        return True
    recordings, others = find_recordings(paths, out)
    settings.options()  # raises before the model is loaded
    check_model(model)
    if formats is None and out is None and len(paths) == 1 and paths[0].is_file():
        _print_text(model, paths[0], settings, device)
        return True
    names = parse_formats(formats or "txt")
    for folder in {recording.target.parent for recording in recordings}:
        _check_writable(folder)
    missing = {
        recording.path: _missing(recording, names, overwrite=overwrite) for recording in recordings
    }
    tasks = {path: outputs for path, outputs in missing.items() if outputs}
    skipped = [str(path) for path in missing if path not in tasks]
    additions = settings.additions([*tasks])
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    if others:
        console.print(f"files that are not audio, by their suffix: {others:,}")
    if skipped:
        more = f" and {len(skipped) - _LISTED:,} more" if len(skipped) > _LISTED else ""
        console.print(
            f"skipped, transcripts exist: {', '.join(skipped[:_LISTED])}{more}; --overwrite "
            "replaces them, --out writes elsewhere"
        )
    return not tasks or _transcribe(
        settings.load(model, device), tasks, settings, additions, console
    )


def _missing(recording: Recording, names: Sequence[str], *, overwrite: bool) -> dict[str, Path]:
    """Return the transcripts to write, by format."""
    target = recording.target
    outputs = {name: target.with_name(target.name + SUFFIXES[name]) for name in names}
    return {name: path for name, path in outputs.items() if overwrite or not path.exists()}


def _print_stdin(model: str, settings: Settings, formats: str, device: str) -> None:
    """Print the transcript of standard input."""
    settings.options()  # raises before the model is loaded
    names = parse_formats(formats)
    if len(names) > 1:
        raise DanishAsrError(f"--format: standard input needs one format, found {formats}")
    if sys.stdin.isatty():
        raise DanishAsrError("-: expected audio on standard input: `... | danish-asr transcribe`")
    check_model(model)
    audio = sys.stdin.buffer.read()
    if names == ["txt"]:
        _print_text(model, audio, settings, device)
        return
    with open_sound(audio):
        pass
    additions, loaded = settings.additions([audio]), settings.load(model, device)
    transcript = additions(audio, loaded.transcribe(audio, **settings.options()))
    sys.stdout.write(FORMATS[names[0]](transcript))


def _print_text(model: str, audio: Path | bytes, settings: Settings, device: str) -> None:
    with open_sound(audio):
        pass  # what is no audio is refused before fairseq2 is imported
    additions = settings.additions([audio])
    spoken, loaded = False, settings.load(model, device)
    segments: Iterable[Segment] = loaded.stream(audio, **settings.options())
    if additions:  # they need all of it
        segments = additions(audio, loaded.transcribe(audio, **settings.options())).segments
    for segment in segments:
        spoken = True
        sys.stdout.write(to_txt(Transcript(0.0, [segment])))
        sys.stdout.flush()
    if not spoken:
        name = audio if isinstance(audio, Path) else "standard input"
        sys.stderr.write(f"{name}: no speech found\n")


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "permission denied")
    except OSError as error:
        raise DanishAsrError(
            f"{folder}: cannot be written ({error.strerror}); choose another folder with --out"
        ) from error


def _transcribe(
    model: Model,
    tasks: Mapping[Path, Mapping[str, Path]],
    settings: Settings,
    additions: Additions,
    console: Console,
) -> bool:
    """Write the missing transcripts of each recording; return whether all succeeded."""
    # Of a broken link 0; it fails alone, when its turn comes.
    sizes = {path: path.stat().st_size if path.exists() else 0 for path in tasks}
    limit = model.seconds_of_batch(settings.batch_seconds) * _BYTES_PER_SECOND
    failures: list[str] = []
    silent: list[str] = []
    begin, done, finished, seconds = time.monotonic(), 0, 0, 0.0
    with Progress(f"0/{len(tasks):,} files", max(sum(sizes.values()), 1), console=console) as bar:
        for group in _groups(sizes, limit):
            show = partial(_show, bar, done, sizes[group[0]] if len(group) == 1 else 0)
            for path, result in _transcribe_group(model, group, settings, show):
                done += sizes[path]
                if isinstance(result, DanishAsrError):
                    failures.append(str(result))
                    continue
                result = additions(path, result)  # noqa: PLW2901
                for name, output in tasks[path].items():
                    publish_text(output, FORMATS[name](result))
                if not result.segments:
                    silent.append(str(path))
                finished, seconds = finished + 1, seconds + result.duration
                bar.update(done, text=f"{finished:,}/{len(tasks):,} files")
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


def _groups(sizes: Mapping[Path, int], limit: float) -> Iterator[list[Path]]:
    """Divide files into groups of about ``limit`` bytes, which share forward passes."""
    group: list[Path] = []
    total = 0
    for path, size in sizes.items():
        if group and total + size > limit:
            yield group
            group, total = [], 0
        group.append(path)
        total += size
    yield group


def _transcribe_group(
    model: Model, group: Sequence[Path], settings: Settings, progress: partial[None]
) -> list[tuple[Path, Transcript | DanishAsrError]]:
    """If one of a group fails, transcribe each alone."""
    try:
        transcripts = model.transcribe([*group], progress=progress, **settings.options())
        return [*zip(group, transcripts, strict=True)]
    except DanishAsrError as error:
        if len(group) == 1:
            return [(group[0], error)]
    results = []
    for path in group:
        results += _transcribe_group(model, [path], settings, progress)
    return results


def _show(bar: Progress, done: int, size: int, seconds: float, total: float | None) -> None:
    """Show the seconds that are done of a file with so many bytes."""
    if total:
        bar.update(done + size * min(seconds / total, 1))


def _clock(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))
