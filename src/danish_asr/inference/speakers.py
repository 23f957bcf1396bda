"""Who speaks in a recording of one microphone: turns of a diarizer's RTTM, given to the words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, groupby
from pathlib import Path
from typing import Final, NamedTuple
from unicodedata import normalize

import numpy as np

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.tables import read_lines
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.recordings import Recording

_NUMBER: Final = r"(\d+(?:\.\d*)?)"
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
            Segment.of([*words], segment.channel, speaker)
            for segment in transcript.segments
            for speaker, words in groupby(segment.words, self.speaker_of)
        ]
        return replace(transcript, segments=parts)


def read_speakers(source: Path, recordings: Sequence[Recording]) -> dict[Path, Turns]:
    """Read the turns of each recording from an RTTM file, or from a folder of them.

    The turns of ``day1/anna.wav`` are in the folder's ``day1/anna.rttm`` or ``anna.rttm``, or have
    the name of the recording in one other file. Raises DanishAsrError if a recording has none.
    """
    folder, files = source.parent, [source]
    if source.is_dir():
        folder, files = source, sorted(source.rglob("*.rttm"))
    turns: dict[str, Turns] = {}
    own: dict[str, Turns] = {}  # of files with one recording, whatever the diarizer calls it
    tellers = Counter[str]()  # the files that tell of a recording
    for file in files:
        of_file = read_rttm(file)
        tellers.update(of_file.keys())
        turns |= {name: Turns(found) for name, found in of_file.items()}
        if len(of_file) <= 1:
            name = normalize("NFC", file.relative_to(folder).with_suffix("").as_posix())
            own[name] = Turns(chain(*of_file.values()))
    turns = {name: found for name, found in turns.items() if tellers[name] == 1} | own
    stems = Counter(recording.name.name for recording in recordings)
    of_recordings: dict[Path, Turns] = {}
    missing = []
    for recording in recordings:
        # An å is one letter on some systems and two on others.
        name = normalize("NFC", recording.name.as_posix())
        stem = normalize("NFC", recording.name.name)
        if stem in turns and stems[recording.name.name] == 1:
            of_recordings[recording.path] = turns[stem]
        if name in turns:
            of_recordings[recording.path] = turns[name]
        if recording.path not in of_recordings:
            missing.append(str(recording.path))
    if missing:
        raise DanishAsrError(
            f"--speakers {source}: has turns of {', '.join([*turns][:5]) or 'no recording'}, none "
            f"of {', '.join(missing[:5])}; name the RTTM file like its recording, with the folder "
            "where names occur twice"
        )
    return of_recordings


def read_rttm(path: Path) -> dict[str, list[Turn]]:
    """Read the turns of each recording in a Rich Transcription Time Marked file.

    A line is ``SPEAKER file channel start seconds <NA> <NA> name <NA> <NA>``. Its other types are
    left out. Format: NIST, The 2009 Rich Transcription evaluation plan, appendix A. Raises
    DanishAsrError if it cannot be read, or a line is none of RTTM.
    """
    recordings: dict[str, list[Turn]] = defaultdict(list)
    lines = map(str.rstrip, read_lines(path, DanishAsrError))
    for number, line in enumerate(lines, start=1):
        if found := _SPEAKER.fullmatch(line):
            name, start, seconds, speaker = found.groups()
            end = float(start) + float(seconds)
            turn = Turn(float(start), end, normalize("NFC", speaker))
            recordings[normalize("NFC", name)].append(turn)
        elif not _OTHER.fullmatch(line):
            raise DanishAsrError(
                f"{path}: line {number} is no RTTM: {line[:80]!r}; expected such as 'SPEAKER "
                "anna 1 0.50 2.25 <NA> <NA> speaker_1 <NA> <NA>'"
            )
    return dict(recordings)
