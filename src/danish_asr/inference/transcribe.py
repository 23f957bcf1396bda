"""``danish-asr transcribe``: files and folders to transcripts; no existing file is overwritten.

A recording whose transcripts exist is skipped, so that an interrupted command continues.
"""

# ruff: noqa: PLC0415 # fairseq2 is imported when paths and formats were checked

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.console import Console

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.files import publish_text
from danish_asr.base.progress import Progress
from danish_asr.decoding.ngram import find_language_model
from danish_asr.decoding.transcript import Transcript
from danish_asr.inference.formats import FORMATS, SUFFIXES, parse_formats, to_txt
from danish_asr.inference.sound import open_sound
from danish_asr.recipe.run.run_directory import check_model

if TYPE_CHECKING:
    from danish_asr.inference.model import Model

_BYTES_PER_SECOND: Final = 32_000
"""Of speech in 16 bits at 16 kHz."""

_LISTED: Final = 10
"""Most skipped files that are named."""

_SUFFIXES: Final = (
    "wav flac mp3 ogg oga opus aif aiff aifc au snd caf w64 rf64 sph nist "
    "m4a m4b mp4 m4v mov 3gp aac webm weba mkv mka"
)
AUDIO_SUFFIXES: Final = frozenset(f".{name}" for name in _SUFFIXES.split())
"""What is taken from a folder. A file that is named itself may have any suffix."""


@dataclass(frozen=True)
class Settings:
    """The options of ``danish-asr transcribe``; None is the default."""

    decoder: str | None = None
    lm: Path | None = None
    hotwords: Path | None = None
    channels: str = "mix"
    batch_seconds: float | None = None

    def options(self) -> dict[str, Any]:
        """Return the arguments of ``Model.transcribe``.

        Raises:
            DanishAsrError: The decoder takes no such option.
            LanguageModelError: There is no such language model.
        """
        config = {}
        if self.lm is not None:
            config["lm"] = str(self.lm)
        if self.hotwords is not None:
            config["hotwords"] = str(self.hotwords)
        decoder = self.decoder or ("beam" if config else "greedy")
        if config and decoder == "greedy":
            raise DanishAsrError(f"--{next(iter(config))} needs --decoder beam, not greedy")
        if self.lm is not None and decoder == "beam":
            find_language_model(self.lm)
        return {
            "decoder": decoder,
            "decoder_config": config,
            "channels": self.channels,
            "batch_seconds": self.batch_seconds,
        }

    def load(self, model: str, device: str) -> Model:
        """Load a model; faults of the decoder are found before its weights are read."""
        options = self.options()

        from danish_asr.inference.model import load_model

        decoder = options["decoder"], options["decoder_config"]
        return load_model(model, device=device, decoder=decoder)


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

    The text of a single file is printed if neither ``formats`` nor the folder ``out`` is given.
    Otherwise a file that fails is reported at the end, and the others go on.

    Raises:
        ConfigError: The model or the decoder is unknown.
        DanishAsrError: A path is missing, a format unknown or the output cannot be written.
    """
    recordings, others = find_recordings(paths, out)
    settings.options()  # raises before the model is loaded
    check_model(model)
    if formats is None and out is None and len(paths) == 1 and paths[0].is_file():
        _print_text(model, paths[0], settings, device)
        return True
    names = parse_formats(formats or "txt")
    for folder in {recording.target.parent for recording in recordings}:
        _check_writable(folder)
    tasks: dict[Path, dict[str, Path]] = {}
    skipped = []
    for recording in recordings:
        outputs = {
            name: recording.target.with_name(recording.target.name + SUFFIXES[name])
            for name in names
        }
        missing = {name: path for name, path in outputs.items() if overwrite or not path.exists()}
        if missing:
            tasks[recording.path] = missing
        else:
            skipped.append(str(recording.path))
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    if others:
        console.print(f"files that are not audio, by their suffix: {others:,}")
    if skipped:
        more = f" and {len(skipped) - _LISTED:,} more" if len(skipped) > _LISTED else ""
        console.print(
            f"skipped, transcripts exist: {', '.join(skipped[:_LISTED])}{more}; --overwrite "
            "replaces them, --out writes elsewhere"
        )
    return not tasks or _transcribe(settings.load(model, device), tasks, settings, console)


def _print_text(model: str, path: Path, settings: Settings, device: str) -> None:
    with open_sound(path):
        pass  # what is no audio is refused before fairseq2 is imported
    spoken = False
    for segment in settings.load(model, device).stream(path, **settings.options()):
        spoken = True
        sys.stdout.write(to_txt(Transcript(0.0, [segment])))
        sys.stdout.flush()
    if not spoken:
        sys.stderr.write(f"{path}: no speech found\n")


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
    console: Console,
) -> bool:
    """Write the missing transcripts of each recording; return whether all succeeded."""
    sizes = {path: path.stat().st_size for path in tasks}
    limit = model.seconds_of_batch(settings.batch_seconds) * _BYTES_PER_SECOND
    failures: list[str] = []
    begin, done, finished, seconds = time.monotonic(), 0, 0, 0.0
    with Progress(f"0/{len(tasks):,} files", max(sum(sizes.values()), 1), console=console) as bar:
        for group in _groups(sizes, limit):
            show = partial(_show, bar, done, sizes[group[0]] if len(group) == 1 else 0)
            for path, result in _transcribe_group(model, group, settings, show):
                done += sizes[path]
                if isinstance(result, DanishAsrError):
                    failures.append(str(result))
                    continue
                for name, output in tasks[path].items():
                    publish_text(output, FORMATS[name](result))
                finished, seconds = finished + 1, seconds + result.duration
                bar.update(done, text=f"{finished:,}/{len(tasks):,} files")
    elapsed = time.monotonic() - begin
    if finished:
        console.print(
            f"transcribed {finished:,} of {len(tasks):,} files: {_clock(seconds)} of audio in "
            f"{_clock(elapsed)}, real-time factor {elapsed / max(seconds, 1e-3):.3f}"
        )
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


@dataclass(frozen=True)
class Recording:
    """An audio file, and the path of its transcripts without a suffix."""

    path: Path
    target: Path


class Recordings(NamedTuple):
    """What files and folders contain."""

    recordings: list[Recording]
    others: int
    """Files in the folders that are neither audio nor transcripts, by their suffix."""


def find_recordings(paths: Sequence[Path], out: Path | None = None) -> Recordings:
    """Find audio files, in folders by their suffix and recursively; hidden ones are left out.

    Transcripts are written beside the audio, or below ``out`` with the tree of their folder. Where
    two recordings differ only in their suffix, their transcripts keep it: ``a.wav.txt``.

    Raises:
        DanishAsrError: A path is missing, a folder has no audio, or two recordings would have the
            same transcript.
    """
    recordings: dict[Path, Recording] = {}
    others = 0
    transcripts = {suffix.lower() for suffix in SUFFIXES.values()}
    for path in paths:
        if not path.exists():
            raise DanishAsrError(f"{path}: no such file or folder")
        folder, audio = path.parent, [path]
        if path.is_dir():
            files = list(_walk(path))
            folder, audio = path, [file for file in files if file.suffix.lower() in AUDIO_SUFFIXES]
            others += sum(file.suffix.lower() not in AUDIO_SUFFIXES | transcripts for file in files)
            if not audio:
                raise DanishAsrError(
                    f"{path}: no audio file among {len(files)} files; known suffixes: "
                    f"{_SUFFIXES} (a file with another one can be named)"
                )
        for file in audio:
            target = file if out is None else out / file.relative_to(folder)
            recordings.setdefault(file.resolve(), Recording(file, target.with_suffix("")))
    return Recordings(_with_distinct_targets([*recordings.values()]), others)


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(root, name) for name in sorted(files) if not name.startswith("."))


def _refuse(error: OSError) -> None:
    raise DanishAsrError(f"{error.filename}: cannot be read ({error.strerror})") from error


def _with_distinct_targets(recordings: Sequence[Recording]) -> list[Recording]:
    shared = Counter(recording.target for recording in recordings)
    distinct: dict[Path, Recording] = {}
    for recording in recordings:
        target = recording.target
        if shared[target] > 1:
            target = target.with_name(recording.path.name)
        if target in distinct:
            raise DanishAsrError(
                f"{distinct[target].path} and {recording.path} would both be written to "
                f"{target}.*; name the folder that contains both, or use another --out for each"
            )
        distinct[target] = replace(recording, target=target)
    return [*distinct.values()]
