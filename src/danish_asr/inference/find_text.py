"""A text found in a recording: a table of what a model hears, and of the words that it may be.

A recording and its text come in. A row of the table is a piece of speech (`Found`); the words of a
row, or of many (`TextInSound.align`), have times. ``transcribe --text`` times all words (`align`),
``harvest`` those that are spoken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

import torch
from rich.console import Console
from torch import Tensor

from danish_asr.base.errors import AlignmentError
from danish_asr.base.sound import ShowProgress, open_sound
from danish_asr.decoding.alignment import FRAME_SECONDS
from danish_asr.decoding.transcript import Segment, Transcript, Word, divide
from danish_asr.inference.loose_text import Line, Text
from danish_asr.inference.matching import GOOD, match
from danish_asr.inference.model import Model

_DOUBTFUL: Final = 0.1
"""Words with a lower confidence are reported."""

_MOST_DOUBTFUL: Final = 0.5
_ENOUGH: Final = 20
"""With a larger share of such words, in so many, the text is probably that of another recording."""

_NEVER: Final = -30.0
"""The log-probability of a symbol where nobody speaks."""


class Piece(NamedTuple):
    """Speech, as far as a text needs it."""

    start: float  # seconds at which its first frame is
    words: Sequence[Word]  # what the model hears
    frames: Tensor  # log-probabilities, (S, symbols of the text)

    @property
    def end(self) -> float:
        """Seconds at which its last frame ends."""
        return self.start + len(self.frames) * FRAME_SECONDS

    @property
    def hypothesis(self) -> str:
        """The words that the model hears."""
        return " ".join(word.text for word in self.words)

    def divide(self, longest: float) -> Iterator[Piece]:
        """Cut it at its longest pauses; the frames of a pause are shared equally."""
        parts = [self.words]
        if self.words:
            parts = divide(self.words, lambda words: words[-1].end - words[0].start <= longest)
        middles = [(a[-1].end + b[0].start) / 2 - self.start for a, b in pairwise(parts)]
        cuts = [0, *(round(middle / FRAME_SECONDS) for middle in middles), len(self.frames)]
        for words, (first, last) in zip(parts, pairwise(cuts), strict=True):
            yield Piece(self.start + first * FRAME_SECONDS, words, self.frames[first:last])


@dataclass(frozen=True, kw_only=True)
class Found:
    """A piece of speech, and the words of the text that are most similar; times in seconds."""

    start: float
    end: float
    hypothesis: str  # what the model hears
    text: str = ""  # empty if no word is similar
    first: int = 0  # the first of its words in the text
    last: int = 0  # the word after its last one
    cer: float = 1.0  # character error rate of what the model hears, against the text
    speaker: str | None = None


class TextInSound:
    """A recording with its text.

    Attributes:
        text: The words to find.
        seconds: The length of the recording.
        rows: The pieces of its speech in their order; words of the text are in one row at most.
    """

    def __init__(self, text: Text, seconds: float, pieces: Sequence[Piece]) -> None:
        self.seconds = seconds
        self.text, self._pieces = text, pieces
        hypotheses = [piece.hypothesis for piece in pieces]
        stretches = match(hypotheses, [word.spoken for word in text.words])
        self.rows = []
        for piece, hypothesis, own in zip(pieces, hypotheses, stretches, strict=True):
            row = Found(start=piece.start, end=piece.end, hypothesis=hypothesis)
            if own:
                words = " ".join(word.text for word in text.words[own.first : own.last])
                speaker = text.speaker(own.first, own.last)
                row = replace(row, **own._asdict(), text=words, speaker=speaker)
            self.rows.append(row)

    def align(self, begin: int, end: int, first: int, last: int) -> list[Word]:
        """Return words ``first`` to ``last - 1``, spoken in rows ``begin`` to ``end - 1``.

        Raises AlignmentError if they do not fit.
        """
        pieces = self._pieces[begin:end]
        start = pieces[0].start
        # Where nobody speaks, words may end, and nothing else is there.
        frames = torch.full(
            (round((pieces[-1].end - start) / FRAME_SECONDS), len(self.text.symbols)), _NEVER
        )
        frames[:, self.text.silent_columns] = 0
        for piece in pieces:
            frame = round((piece.start - start) / FRAME_SECONDS)
            frames[frame : frame + len(piece.frames)] = piece.frames
        return self.text.align(frames, first, last, start)


def find_text(
    model: Model,
    audio: Path,
    lines: Sequence[Line],
    progress: ShowProgress | None = None,
    *,
    longest: float = inf,
) -> TextInSound:
    """Find lines in a recording, whose speech is cut into pieces of ``longest`` seconds.

    Raises AlignmentError if the model cannot write the text, and TranscriptionError if the audio
    cannot be read.
    """
    text = Text(lines, model)
    with open_sound(audio) as sound:
        windows = [
            Piece(window.start, window.words, window.log_probs[:, text.symbols])
            for window in model.hear(sound, progress=progress)
        ]
    pieces = [piece for window in windows for piece in window.divide(longest)]
    return TextInSound(text, sound.seconds, pieces)


def align(
    model: Model, audio: Path, lines: Sequence[Line], progress: ShowProgress | None = None
) -> Transcript:
    """Return the times of each word of ``lines``, a segment each, as they are written.

    What is aligned are the words as the model writes them; see `Text`. A line of which it writes
    nothing is left out. Raises what `find_text` does, and AlignmentError if nobody speaks, or the
    text does not fit.
    """
    found = find_text(model, audio, lines, progress)
    if not found.rows:
        raise AlignmentError(f"{audio}: no speech found in {found.seconds:.1f} s; check the audio")
    segments = []
    for part in _parts(found.rows, len(found.text.words)):
        words = found.text.words[part.first : part.last]
        timed = found.align(part.begin, part.end, part.first, part.last)
        pairs = zip(words, timed, strict=True)
        for line, group in groupby(pairs, key=lambda pair: pair[0].line):
            segments.append(Segment.of([word for _, word in group], speaker=lines[line].speaker))
    about = {"model": model.name, "aligned": True}
    return Transcript(round(found.seconds, 3), segments, str(audio), about)


class _Part(NamedTuple):
    """Rows ``begin`` to ``end - 1``, which say words ``first`` to ``last - 1``."""

    begin: int
    end: int
    first: int
    last: int


def _parts(rows: Sequence[Found], count: int) -> Iterator[_Part]:
    """Divide ``count`` words between rows: where words follow each other, or others come next.

    A single row whose neighbours are elsewhere in the text divides nothing.
    """
    good = [number for number, row in enumerate(rows) if row.cer < GOOD]
    together = {row for pair in _neighbours(rows, good) for row in pair}
    good = [number for number in good if number in together]
    neighbours = _neighbours(rows, good)
    begins = {0: rows[good[0]].first if good else 0}  # by the first row, the first word
    for before, after in pairwise(good):
        follows = after == before + 1 and rows[before].last == rows[after].first
        if follows or (before, after) not in neighbours:
            begins[after] = rows[after].first
    firsts = sorted(begins.values())
    lasts = dict(pairwise([*firsts, count]))
    for begin, end in pairwise([*begins, len(rows)]):
        first = begins[begin]
        yield _Part(begin, end, 0 if first == firsts[0] else first, lasts[first])


def _neighbours(rows: Sequence[Found], numbers: Sequence[int]) -> set[tuple[int, int]]:
    """Return the pairs of rows that are neighbours both in speech and in the text."""
    in_text = sorted(numbers, key=lambda number: rows[number].first)
    return {*pairwise(numbers)} & {*pairwise(in_text)}


def report_doubts(transcript: Transcript, console: Console) -> None:
    """Print how many words are hardly heard; raise AlignmentError if they are most of the text."""
    words = transcript.words
    doubtful = [word for word in words if (word.confidence or 0.0) < _DOUBTFUL]
    if not doubtful:
        return
    share = f"{len(doubtful):,} of {len(words):,} words have a confidence below {_DOUBTFUL}"
    if len(words) >= _ENOUGH and len(doubtful) > _MOST_DOUBTFUL * len(words):
        raise AlignmentError(
            f"{share}. The text may be that of another recording, or the model is too weak for "
            "this speech (`danish-asr transcribe` shows what it hears). The files have its times"
        )
    place = f"'{doubtful[0].text}' at {doubtful[0].start:.1f} s"
    console.print(f"{share}, the first is {place}: the text may differ from the audio there")
