"""What transcripts were made from, so that finished ones are skipped and others' files are kept.

Each folder with transcripts has a hidden file with a JSON line per transcript; the last counts.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypedDict

from danish_asr.errors import DanishAsrError
from danish_asr.files import publish_text, sha256_of

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


@contextmanager
def writing_below(folder: Path) -> Iterator[None]:
    """Create a folder; raises DanishAsrError if nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise DanishAsrError(
            f"{folder}: cannot be written ({error.strerror}); choose another folder with --out"
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
