"""``danish-asr harvest``: recordings to a dataset; an interrupted command continues.

The folder OUT holds

- ``recordings/``: what the models heard, a file for each recording; it does not depend on limits
- ``utterances/text.jsonl`` and ``pseudo.jsonl``: what is kept, as tables that ``convert`` reads
- ``left-out.jsonl``: what is not, with the reasons
- ``dataset/``: the tables as a built dataset, of the corpora NAME and NAME-pseudo
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from danish_asr.base.errors import ConfigError, DanishAsrError
from danish_asr.base.files import publish_json, publish_text, take
from danish_asr.base.progress import Progress
from danish_asr.base.stops import exception_at_stops
from danish_asr.corpus import ConvertOptions
from danish_asr.decoding.ngram import find_language_model
from danish_asr.inference.harvest.kept import (
    LEFT_OUT_FILE,
    RECORDINGS,
    build_dataset,
    result_of,
    write_tables,
)
from danish_asr.inference.harvest.limits import Limits
from danish_asr.inference.harvest.loose_text import find_text, read_text
from danish_asr.inference.recordings import Recording, find_recordings
from danish_asr.inference.sound import open_sound
from danish_asr.recipe.run.run_directory import check_model, named_twice

if TYPE_CHECKING:
    from danish_asr.inference.harvest.recording import Listener

SETTINGS_FILE: Final = "harvest.json"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of ``danish-asr harvest``."""

    models: Sequence[str]
    """One, or two that have to agree where no text is."""
    lm: Path | None = None
    """A language model for what the models write."""
    tiers: Sequence[str] = ()
    """Names or patterns of the tiers with the text, of TextGrid or ELAN."""
    device: str = "auto"
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Raise what is wrong before anything is loaded."""
        faults = [
            f"--{name.replace('_', '-')}: from 0 to 1; found {value:g}"
            for name in ("max_cer", "max_disagreement", "min_confidence")
            if not 0 <= (value := getattr(self.limits, name)) <= 1
        ]
        if not 1 <= len(self.models) <= 2:
            faults.append(f"--model: once or twice; found {len(self.models)}")
        if len(self.models) == 2 and named_twice(self.models):
            faults.append("--model: the same model twice always agrees; name another, or it once")
        if self.lm is not None and len(self.models) == 1:
            faults.append("--lm: needs a second --model; text beside a recording needs none")
        if not 0 < self.limits.min_seconds < self.limits.max_seconds:
            faults.append(
                "--min-seconds: above 0 and below --max-seconds; found "
                f"{self.limits.min_seconds:g} and {self.limits.max_seconds:g}"
            )
        if faults:
            raise ConfigError(faults, where="the command line")
        for model in self.models:
            check_model(model)
        if self.lm is not None:
            find_language_model(self.lm)

    def heard_with(self) -> dict[str, Any]:
        """What the files of the recordings depend on."""
        paths = [Path(model).expanduser() for model in self.models]
        models = [
            str(path.resolve()) if path.is_dir() else model
            for path, model in zip(paths, self.models, strict=True)
        ]
        lm = None if self.lm is None else str(self.lm.resolve())
        return {"models": models, "lm": lm, "tiers": [*self.tiers]}


def harvest(paths: Sequence[Path], out: Path, name: str, settings: Settings) -> bool:
    """Make a dataset of recordings; return whether each of them could be read.

    Args:
        paths: Files and folders; a text beside a recording has its name.
        out: A folder for the dataset and the tables, which may hold an earlier harvest.
        name: The name of the dataset's card, and of the corpus.
        settings: Models and limits.

    Raises:
        ConfigError: An option has an impossible value, or a model is unknown.
        DanishAsrError: A path is missing, or ``out`` is a harvest of other models.
    """
    settings.check()
    ConvertOptions(name=name)  # checks it
    recordings = find_recordings(paths, out / RECORDINGS).recordings
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    with exception_at_stops():
        lease = take(
            out,
            error=DanishAsrError,
            advice="Wait for its end, or name another --out.",
            work="harvest",
        )
        try:
            _claim(out / SETTINGS_FILE, settings)
            heard, failures = _listen(recordings, settings, console)
            written = write_tables(heard, out, name, settings.limits, console)
            if written:
                build_dataset(out, name, console)
            else:
                console.print(f"no utterance is kept; {out / LEFT_OUT_FILE} says why")
        finally:
            with suppress(OSError):
                lease.release()
    if failures:
        console.print("\n  ".join([f"failed: {len(failures):,}", *failures]))
    return not failures


def _claim(file: Path, settings: Settings) -> None:
    """Write what the recordings are heard with, or refuse a folder of something else."""
    wanted = settings.heard_with()
    if not file.is_file():
        publish_json(file, wanted)
    try:
        earlier = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        earlier = None
    if earlier != wanted:
        raise DanishAsrError(
            f"{file.parent}: holds a harvest with {json.dumps(earlier, ensure_ascii=False)}, not "
            f"{json.dumps(wanted, ensure_ascii=False)}; choose another --out"
        )


def _state(recording: Recording) -> dict[str, Any]:
    """What changes with the files of a recording."""
    text = find_text(recording.path)
    files = [recording.path] if text is None else [recording.path, text]
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return {"files": [[*stat] for stat in stats]}


def _is_heard(recording: Recording) -> bool:
    """Whether a recording and its text are as they were when the models heard it."""
    state = _state(recording)
    try:
        values = json.loads(result_of(recording).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(values["files"] == state["files"])


def _listen(
    recordings: Sequence[Recording], settings: Settings, console: Console
) -> tuple[list[Recording], list[str]]:
    """Run the models over what they have not heard; return what they have, and what failed."""
    failures, heard, waiting = list[str](), list[Recording](), list[Recording]()
    for recording in recordings:
        try:
            if _is_heard(recording):
                heard.append(recording)
                continue
            with open_sound(recording.path):  # before the models are loaded
                waiting.append(recording)
        except DanishAsrError as error:
            failures.append(str(error))
    if heard:
        console.print(f"heard before: {len(heard):,} recordings")
    if not waiting:
        return heard, failures

    from danish_asr.inference.harvest.recording import Listener  # noqa: PLC0415
    from danish_asr.inference.model import load_model  # noqa: PLC0415

    listeners = [
        Listener(load_model(model, device=settings.device), settings.lm)
        for model in settings.models
    ]
    sizes = [recording.path.stat().st_size for recording in waiting]
    with Progress(f"0/{len(waiting):,} recordings", max(sum(sizes), 1), console=console) as bar:
        for number, recording in enumerate(waiting):
            show = partial(_show, bar, sum(sizes[:number]), sizes[number])
            try:
                _hear(listeners, recording, settings.tiers, show)
                heard.append(recording)
            except DanishAsrError as error:
                path = str(recording.path)
                failures.append(str(error) if path in str(error) else f"{path}: {error}")
            bar.update(sum(sizes[: number + 1]), text=f"{number + 1:,}/{len(waiting):,} recordings")
    return [recording for recording in recordings if recording in heard], failures


def _hear(
    listeners: Sequence[Listener],
    recording: Recording,
    tiers: Sequence[str],
    progress: Callable[[float], None],
) -> None:
    from danish_asr.inference.harvest.recording import listen  # noqa: PLC0415

    state, text = _state(recording), find_text(recording.path)
    lines = [] if text is None else read_text(text, tiers)
    values = state | listen(listeners, recording.path, lines, progress).to_dict()
    publish_text(result_of(recording), json.dumps(values, ensure_ascii=False))


def _show(bar: Progress, done: int, size: int, share: float) -> None:
    bar.update(done + size * share)
