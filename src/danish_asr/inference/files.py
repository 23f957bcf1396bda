"""Transcribe files and folders; an interrupted command continues where it stopped."""

# ruff: noqa: PLC0415 # PyTorch is imported when paths and formats were checked

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from danish_asr.base.errors import DanishAsrError
from danish_asr.decoding.transcript import Transcript
from danish_asr.inference.display import Display, counted
from danish_asr.inference.formats import FORMATS, parse_formats, to_txt
from danish_asr.inference.record import Record, Source, fingerprint, source_of, writing_below
from danish_asr.inference.recordings import Recording, find_recordings
from danish_asr.inference.settings import Settings
from danish_asr.inference.sound import open_sound
from danish_asr.recipe.run.run_directory import check_model

if TYPE_CHECKING:
    from danish_asr.inference.model import Model


@dataclass(frozen=True)
class Output:
    """Which files are written, and where; by default text, beside the audio."""

    formats: str | None = None
    folder: Path | None = None
    overwrite: bool = False


def transcribe_files(
    model: str,
    paths: Sequence[Path],
    *,
    settings: Settings,
    output: Output,
    device: str = "auto",
) -> bool:
    """Transcribe files and folders; return whether all succeeded.

    The text of a single file is printed if neither a format nor a folder for output is given.
    Otherwise a file that fails is reported at the end, and the others go on.

    Raises:
        ConfigError: The model or the decoder is unknown.
        DanishAsrError: A path is missing, a format unknown or the output cannot be written.
    """
    found = find_recordings(paths, output.folder)
    settings.options()  # raises before the model is loaded
    check_model(model)
    if output.formats is None and output.folder is None and len(paths) == 1 and paths[0].is_file():
        _print(model, paths[0], settings, device)
        return True
    formats = parse_formats(output.formats or "txt")
    for folder in {recording.target.parent for recording in found.recordings}:
        with writing_below(folder):
            if not os.access(folder, os.W_OK):
                raise PermissionError(13, "permission denied")

    with Display() as display:
        if found.others:
            display.say(f"not audio, by their suffix: {counted(found.others, 'file')}")
        if found.links:
            display.say(
                f"left out, as they lead to another recording: {counted(found.links, 'link')}"
            )
        record = Record(fingerprint(model, settings))
        tasks = _plan(found.recordings, formats, record, display, overwrite=output.overwrite)
        if tasks:
            _run(tasks, settings.load(model, device), record, display, settings)
    return not display.failed


def _print(model: str, path: Path, settings: Settings, device: str) -> None:
    with open_sound(path):
        pass  # what is no audio is refused before PyTorch is imported
    spoken = False
    for segment in settings.load(model, device).stream(path, **settings.options()):
        spoken = True
        sys.stdout.write(to_txt(Transcript(0.0, [segment])))
        sys.stdout.flush()
    if not spoken:
        sys.stderr.write(f"{path}: no speech found\n")


@dataclass(frozen=True)
class _Task:
    source: Source
    outputs: dict[str, Path]


def _plan(
    recordings: Sequence[Recording],
    formats: Sequence[str],
    record: Record,
    display: Display,
    *,
    overwrite: bool,
) -> dict[Path, _Task]:
    tasks = {}
    for recording in recordings:
        outputs = {name: recording.output(name) for name in formats}
        for old in map(recording.renamed().output, FORMATS):
            if record.was_made(recording.path, old):
                display.say(
                    f"{old}: an earlier transcript of {recording.path}, whose transcripts are now "
                    f"{recording.target}.*; delete it"
                )
        try:
            source = source_of(recording.path)
            kept = [path for path in outputs.values() if record.foreign(path)]
        except OSError as error:  # it was removed, or a name is too long
            display.failed.append(f"{recording.path}: {error.strerror}")
            continue
        if not overwrite and all(record.finished(source, path) for path in outputs.values()):
            display.skip(recording.path)
        elif not overwrite and kept:
            display.failed.append(
                f"{recording.path}: {kept[0]} exists and was not written by this command, or was "
                "edited since; --overwrite replaces it, --out writes elsewhere"
            )
        else:
            tasks[recording.path] = _Task(source, outputs)
    return tasks


def _run(
    tasks: Mapping[Path, _Task], model: Model, record: Record, display: Display, settings: Settings
) -> None:
    from danish_asr.inference.many import transcribe_many

    sizes = {path: task.source["size"] for path, task in tasks.items()}
    display.start(list(sizes.values()))
    results = transcribe_many(
        model, list(tasks), lambda path: display.part_of(sizes[path]), **settings.options()
    )
    for path, result in results:
        if isinstance(result, DanishAsrError):
            display.failed.append(str(result))
            display.finish(sizes[path], None)
            continue
        for name, output in tasks[path].outputs.items():
            record.write(tasks[path].source, output, FORMATS[name](result))
        display.finish(sizes[path], result.duration)
