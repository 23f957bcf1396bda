"""What transcripts were made from, so that finished ones are skipped and others' files are kept.

Each folder with transcripts has a hidden file with a JSON line per transcript; the last counts.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypedDict

from danish_asr import __version__
from danish_asr.base.errors import DanishAsrError
from danish_asr.base.files import publish_text, sha256_of
from danish_asr.inference.settings import Settings
from danish_asr.recipe.run.run_directory import CHECKPOINTS, check_model, meant_checkpoint

RECORD: Final = ".danish-asr-transcripts.jsonl"


class Source(TypedDict):
    """An audio file as it was before it was read."""

    audio: str
    size: int
    mtime_ns: int


def source_of(audio: Path) -> Source:
    """Describe a file; raises OSError if there is none."""
    status = audio.stat()
    return {"audio": audio.name, "size": status.st_size, "mtime_ns": status.st_mtime_ns}


def fingerprint(model: str, settings: Settings) -> dict[str, Any]:
    """Return what a transcript depends on beside its audio; files with size and time.

    Raises:
        ConfigError: There is no such model.
        RunError: The directory has no model.
    """
    if meant := meant_checkpoint(check_model(model)):
        weights = meant[0].resolve() / CHECKPOINTS / f"step_{meant[1]}" / "model"
    else:
        from danish_asr.inference.selection import select_model  # noqa: PLC0415
        from danish_asr.recipe.models.assets import Assets  # noqa: PLC0415 - they import PyTorch

        config = select_model(model)
        card = Assets(config).find("model.name", str(config.model.name), [])
        assert card is not None
        weights = Path(card.field("checkpoint").as_(str))
    return {
        "version": __version__,
        "model": [str(weights), *_files(weights)],
        "options": replace(settings, batch_seconds=None).options(),
        "lm": settings.lm and _files(settings.lm),
        "hotwords": settings.hotwords and _files(settings.hotwords),
    }


def _files(path: Path) -> list[tuple[str, int, int]]:
    files = sorted(file for file in [path, *path.rglob("*")] if file.is_file())
    return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]


@contextmanager
def writing_below(folder: Path) -> Iterator[None]:
    """Create a folder; raises DanishAsrError if nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise DanishAsrError(
            f"{folder}: cannot be written ({reason}); choose another folder with --out"
        ) from error


class Record:
    """The transcripts that were written with these settings or with others.

    Args:
        settings: All that determines a transcript beside the audio.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        text = json.dumps(settings, sort_keys=True, default=str)
        self._settings = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._folders: dict[Path, dict[str, dict[str, Any]]] = {}

    def finished(self, source: Source, output: Path) -> bool:
        """Whether there is a transcript of the audio as it is, made with the same settings.

        It may have been edited since.
        """
        entry = self._entries(output.parent).get(output.name, {})
        return output.is_file() and entry.items() >= self._key(source).items()

    def was_made(self, audio: Path, output: Path) -> bool:
        """Whether there is a transcript of the audio, also of its former content or settings."""
        entry = self._entries(output.parent).get(output.name, {})
        return output.is_file() and entry.get("audio") == audio.name

    def foreign(self, output: Path) -> bool:
        """Whether the file exists and is not as it was written: another program's, or edited."""
        entry = self._entries(output.parent).get(output.name)
        return output.exists() and (entry is None or entry["sha256"] != sha256_of(output))

    def write(self, source: Source, output: Path, text: str) -> None:
        """Add a line and write the transcript atomically.

        Raises:
            DanishAsrError: It cannot be written.
        """
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        entry = {"output": output.name, "sha256": sha256, **self._key(source)}
        self._entries(output.parent)[output.name] = entry
        with writing_below(output.parent):
            # The line first: a file without one counts as another program's.
            with (output.parent / RECORD).open("a", encoding="utf-8") as stream:
                stream.write("\n" + json.dumps(entry))
            output.unlink(missing_ok=True)
        publish_text(output, text)

    def _key(self, source: Source) -> dict[str, Any]:
        return {**source, "settings": self._settings}

    def _entries(self, folder: Path) -> dict[str, dict[str, Any]]:
        if folder not in self._folders:
            self._folders[folder] = {}
            path = folder / RECORD
            for line in path.read_bytes().splitlines() if path.is_file() else ():
                try:
                    entry = json.loads(line)
                except ValueError:  # empty, or the disk was full
                    continue
                self._folders[folder][entry["output"]] = entry
        return self._folders[folder]
