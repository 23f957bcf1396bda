"""Who speaks in a recording of one microphone: turns of a diarizer's RTTM, given to the words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple
from unicodedata import normalize

import numpy as np

from danish_asr.base.errors import DanishAsrError
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.recordings import Recording

_NUMBER: Final = r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)"
_SPEAKER: Final = re.compile(
    rf"SPEAKER\s+(.+?)\s+(?:\d+|<NA>)\s+{_NUMBER}\s+{_NUMBER}\s+<NA>\s+<NA>\s+(.+?)"
    r"(?:\s+(?:<NA>|[\d.]+)){0,2}\s*"
)
"""A turn, as every diarizer writes it. Names of recordings and speakers may have spaces."""

_OTHER: Final = re.compile(r"\s*(?:;;.*)?|(?!SPEAKER\s)[A-Z-]+(?:\s+\S+){7,}\s*")
"""A comment, or a line of another type, which is left out."""


class Turn(NamedTuple):
    """When a speaker talks, in seconds."""

    start: float
    end: float
    speaker: str


class Turns:
    """The turns of a recording; they may overlap."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._turns = sorted(turns)
        self._starts = np.array([turn.start for turn in self._turns])
        self._ends = np.array([turn.end for turn in self._turns])

    def speaker_of(self, word: Word) -> str:
        """Return who speaks in the middle of a word: of several the first to begin, or the next."""
        middle = (word.start + word.end) / 2
        distances = np.maximum(self._starts - middle, middle - self._ends).clip(min=0)
        return self._turns[int(distances.argmin())].speaker

    def divide(self, transcript: Transcript) -> Transcript:
        """Return a transcript with a segment for each speaker in a row of its segments."""
        if not self._turns:
            return transcript
        parts = [
            Segment(words[0].start, words[-1].end, words, segment.channel, speaker)
            for segment in transcript.segments
            for speaker, words in (
                (speaker, [*group]) for speaker, group in groupby(segment.words, self.speaker_of)
            )
        ]
        return replace(transcript, segments=parts)


def read_speakers(source: Path, recordings: Sequence[Recording]) -> dict[Path, Turns]:
    """Read the turns of each recording from an RTTM file, or from a folder of them.

    The turns of ``day1/anna.wav`` are in the folder's ``day1/anna.rttm`` or ``anna.rttm``, or have
    the name of the recording in a file of several.

    Raises:
        DanishAsrError: A file is missing or no RTTM, or has no turns of one of the recordings.
    """
    files = [source]
    if source.is_dir():
        files = sorted(source.rglob("*.rttm"))
    folder = source if source.is_dir() else source.parent
    turns: dict[str, Turns] = {}
    for file in files:
        of_file = read_rttm(file)
        name = _name(file.relative_to(folder).with_suffix(""))
        if len(of_file) <= 1:  # whatever the diarizer calls the recording
            turns[name] = Turns(*of_file.values()) if of_file else Turns(())
        turns |= {_name(Path(key)): Turns(own) for key, own in of_file.items()}
    stems = Counter(_name(Path(recording.name.name)) for recording in recordings)
    found: dict[Path, Turns] = {}
    for recording in recordings:
        stem = _name(Path(recording.name.name))
        names = [_name(recording.name), *([stem] if stems[stem] == 1 else [])]
        own = next((turns[name] for name in names if name in turns), None)
        if own is not None:
            found[recording.path] = own
    missing = [str(recording.path) for recording in recordings if recording.path not in found]
    if missing:
        listed = ", ".join([*turns][:5]) or "no recording"
        raise DanishAsrError(
            f"--speakers {source}: has turns of {listed}, none of {', '.join(missing[:5])}; name "
            "the RTTM file like its recording, with the folder where names occur twice"
        )
    return found


def _name(path: Path) -> str:
    """A name as it is compared: an å is one letter on some systems and two on others."""
    return normalize("NFC", path.as_posix())


def read_rttm(path: Path) -> dict[str, list[Turn]]:
    """Read the turns of each recording in a Rich Transcription Time Marked file.

    A line is ``SPEAKER file channel start seconds <NA> <NA> name <NA> <NA>``. Its other types are
    left out. Format: NIST, The 2009 Rich Transcription evaluation plan, appendix A.

    Raises:
        DanishAsrError: It cannot be read, or a line is none of RTTM.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise DanishAsrError(
            f"{path}: cannot be read ({reason}); name an RTTM file, or a folder of them"
        ) from error
    recordings: dict[str, list[Turn]] = defaultdict(list)
    for number, line in enumerate(lines, start=1):
        if found := _SPEAKER.fullmatch(line):
            name, start, seconds, speaker = found.groups()
            turn = Turn(float(start), float(start) + float(seconds), normalize("NFC", speaker))
            recordings[name].append(turn)
        elif not _OTHER.fullmatch(line):
            raise DanishAsrError(
                f"{path}: line {number} is no RTTM: {line[:80]!r}; expected such as 'SPEAKER "
                "anna 1 0.50 2.25 <NA> <NA> speaker_1 <NA> <NA>'"
            )
    return dict(recordings)
