"""``danish-asr transcribe --text``: times for a text that is known, in audio of any length.

Where text and speech agree, the text is cut into stretches; the words between two cuts are aligned
with the speech between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from danish_asr.base.errors import AlignmentError
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.loose_text import (
    FRAMES_PER_SECOND,
    GOOD,
    Line,
    Piece,
    Text,
    listen,
    match,
)
from danish_asr.inference.sound import ShowProgress

if TYPE_CHECKING:
    from torch import Tensor

    from danish_asr.inference.model import Model

_DOUBTFUL: Final = 0.1
"""Words with a lower confidence are reported."""

_MOST_DOUBTFUL: Final = 0.5
_ENOUGH: Final = 20
"""With a larger share of such words, in so many, the text is probably that of another recording."""

_NEVER: Final = -30.0
"""The log-probability of a symbol where nobody speaks."""


def align(
    model: Model, audio: Path, lines: Sequence[Line], progress: ShowProgress | None = None
) -> Transcript:
    """Return the times of each word of ``lines``, a segment each, as they are written.

    What is aligned are the words as the model writes them; see `Text`. A line of which it writes
    nothing is left out. Raises AlignmentError if nobody speaks, or the text does not fit, and
    TranscriptionError if the audio cannot be read.
    """
    text = Text(lines, model)
    duration, pieces = listen(model, audio, text, progress)
    if not pieces:
        raise AlignmentError(f"{audio}: no speech found in {duration:.1f} s; check the audio")
    words: list[Word] = []
    for first, last, own in _parts(pieces, text):
        words += text.align(_joined(own, text), first, last, own[0].start)
    segments = []
    pairs = zip(text.words, words, strict=True)
    for line, group in groupby(pairs, key=lambda pair: pair[0].line):
        spoken = [word for _, word in group]
        segments.append(Segment.of(spoken, speaker=lines[line].speaker))
    return Transcript(duration, segments, str(audio), {"model": model.name, "aligned": True})


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


def _parts(pieces: Sequence[Piece], text: Text) -> Iterator[tuple[int, int, Sequence[Piece]]]:
    """Divide text and speech between pieces whose words of the text follow each other.

    Yields the first word of a part, the one after its last, and its pieces.
    """
    hypotheses = [piece.hypothesis for piece in pieces]
    stretches = list(match(hypotheses, [word.spoken for word in text.words]))
    first = begin = 0
    for number in range(1, len(pieces)):
        before, after = stretches[number - 1], stretches[number]
        if before is None or after is None or max(before.cer, after.cer) >= GOOD:
            continue
        if before.last == after.first > first:
            yield first, before.last, pieces[begin:number]
            first, begin = before.last, number
    yield first, len(text.words), pieces[begin:]


def _joined(pieces: Sequence[Piece], text: Text) -> Tensor:
    """Return the frames of pieces on a common time axis.

    Where nobody speaks, words may end, and nothing else is there.
    """
    import torch  # noqa: PLC0415 - slow

    starts = [round((piece.start - pieces[0].start) * FRAMES_PER_SECOND) for piece in pieces]
    joined = torch.full((starts[-1] + len(pieces[-1].frames), len(text.symbols)), _NEVER)
    joined[:, text.silent_columns] = 0
    for start, piece in zip(starts, pieces, strict=True):
        joined[start : start + len(piece.frames)] = piece.frames
    return joined
