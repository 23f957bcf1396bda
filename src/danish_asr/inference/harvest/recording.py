"""From a recording to pieces of speech with the transcripts that they may have."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from danish_asr.base.errors import AlignmentError
from danish_asr.decoding.alignment import FRAME_SECONDS, SpokenText, align_words
from danish_asr.decoding.decoders import GREEDY, Decoder, decode
from danish_asr.decoding.transcript import Word
from danish_asr.inference.align import Spelling, WrittenWord
from danish_asr.inference.harvest.loose_text import Line
from danish_asr.inference.harvest.matching import Stretch, match
from danish_asr.inference.harvest.pieces import Candidate, Piece, divide, error_rate
from danish_asr.inference.model import Model
from danish_asr.inference.sound import open_sound
from danish_asr.inference.streaming import read_regions

_LONGEST: Final = 4.0
"""Seconds of a piece: the shorter, the less is lost with a wrong word, and the less is known."""

_MARGIN: Final = 0.1
"""Seconds of audio around a piece, as far as other words leave them."""

_LEAST: Final = 1e-30
"""A confidence of 0 has no logarithm."""

ShowShare = Callable[[float], None]
"""Called with the share of a recording that is done."""


class Listener:
    """A model, and what decodes its labels: greedy, or beam with a language model."""

    def __init__(self, model: Model, lm: Path | None) -> None:
        self.model = model
        self.greedy = model.decoder(GREEDY, {})
        self.labels = self.greedy if lm is None else model.decoder("beam", {"lm": str(lm)})


@dataclass(frozen=True, eq=False)
class _Region:
    """Speech without a long pause."""

    start: float
    end: float
    words: Sequence[Word]
    labels: Sequence[Word]
    log_probs: Tensor | None
    """(S, symbols of the text); None without a text."""


class _Heard(NamedTuple):
    """The words of a piece, and how much audio around them has no others."""

    region: _Region
    words: Sequence[Word]
    low: float
    high: float


class Harvested(NamedTuple):
    """What a recording gives, for JSON."""

    seconds: float
    words: list[str]
    """Of its text, as they are written."""
    pieces: list[Piece]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {**self._asdict(), "pieces": [asdict(piece) for piece in self.pieces]}


def listen(
    listeners: Sequence[Listener], audio: Path, lines: Sequence[Line], progress: ShowShare
) -> Harvested:
    """Run one or two models over a recording with a text, or without lines.

    Raises:
        AlignmentError: The text is in letters that the model cannot write.
        TranscriptionError: The audio cannot be read.
    """
    first, *others = listeners
    spelling = Spelling(first.model)
    written = [(word, line.speaker) for line in lines for word in spelling.words(line.text)]
    if lines:
        spelling.check(lines[0].text)
    words = [word for word, _ in written]
    text = _Aligner(words, [speaker for _, speaker in written], first.model) if words else None

    def part(number: int) -> ShowShare:
        return lambda share: progress((number + share) / len(listeners))

    seconds, regions = _regions(first, audio, text.symbols if text else None, part(0))
    second = [
        word
        for number, other in enumerate(others, start=1)
        for region in _regions(other, audio, None, part(number))[1]
        for word in region.labels
    ]
    heard = [piece for region in regions for piece in _pieces(region)]
    hypotheses = [_text(piece.words) for piece in heard]
    stretches = match(hypotheses, [word.spoken for word in words]) if text else iter(())
    silent = [
        Piece(start=region.start, end=region.end, hypothesis="")
        for region in regions
        if not region.words
    ]
    pieces = []
    for piece, hypothesis in zip(heard, hypotheses, strict=True):
        stretch = next(stretches, None)
        pieces.append(
            Piece(
                start=piece.words[0].start,
                end=piece.words[-1].end,
                hypothesis=hypothesis,
                matched=text.candidate(piece, stretch) if text and stretch else None,
                labelled=_label(piece, second) if others else None,
            )
        )
    pieces = sorted(silent + pieces, key=lambda piece: piece.start)
    return Harvested(seconds, [word.text for word in words], pieces)


def _regions(
    listener: Listener, audio: Path, symbols: Tensor | None, progress: ShowShare
) -> tuple[float, list[_Region]]:
    """Return the seconds of a recording, and its speech."""
    regions = []
    model = listener.model

    def show(done: float, total: float | None) -> None:
        progress(min(done / total, 1.0) if total else 0.0)

    with open_sound(audio) as sound:
        for start, log_probs in read_regions(model, sound, show):
            words = _words(log_probs, listener.greedy, model, start)
            labels = words
            if listener.labels is not listener.greedy:
                labels = _words(log_probs, listener.labels, model, start)
            kept = None if symbols is None else log_probs[:, symbols]
            end = start + len(log_probs) * FRAME_SECONDS
            regions.append(_Region(start, end, words, labels, kept))
        return sound.seconds, regions


def _words(log_probs: Tensor, decoder: Decoder, model: Model, start: float) -> list[Word]:
    (text,) = decode(decoder, log_probs[None], [len(log_probs)])
    return align_words(log_probs, text.replace("⁇", ""), model.tokenizer, offset=start)


def _pieces(region: _Region) -> Iterator[_Heard]:
    parts = divide(region.words, _LONGEST) if region.words else []
    for number, words in enumerate(parts):
        low = parts[number - 1][-1].end if number else region.start
        high = parts[number + 1][0].start if number + 1 < len(parts) else region.end
        yield _Heard(region, words, low, high)


class _Aligner:
    """The text of a recording, whose stretches are aligned with the audio."""

    def __init__(
        self, words: Sequence[WrittenWord], speakers: Sequence[str | None], model: Model
    ) -> None:
        self._words, self._speakers, self._tokenizer = words, speakers, model.tokenizer
        text = SpokenText.of(" ".join(word.spoken for word in words), model.tokenizer)
        self.symbols = text.compact()[0]

    def candidate(self, piece: _Heard, stretch: Stretch) -> Candidate | None:
        """Align a stretch of words with the frames of a piece; None if there are too few."""
        words = self._words[stretch.first : stretch.last]
        spoken = " ".join(word.spoken for word in words)
        text = SpokenText.of(spoken, self._tokenizer)
        text = replace(
            text,
            tokens=torch.searchsorted(self.symbols, text.tokens),
            separator=int(torch.searchsorted(self.symbols, text.separator)),
        )
        assert piece.region.log_probs is not None
        begin, end = (
            round((time - piece.region.start) / FRAME_SECONDS) for time in (piece.low, piece.high)
        )
        frames = piece.region.log_probs[begin:end]
        try:
            timed = text.align(frames, offset=piece.region.start + begin * FRAME_SECONDS)
        except AlignmentError:  # more letters than frames
            return None
        speakers = {*self._speakers[stretch.first : stretch.last]}
        return _candidate(
            piece,
            timed,
            text=" ".join(word.text for word in words),
            cer=stretch.cer,
            first=stretch.first,
            last=stretch.last,
            speaker=speakers.pop() if len(speakers) == 1 else None,
        )


def _label(piece: _Heard, second: Sequence[Word]) -> Candidate | None:
    """What the first model says, and how the second one differs."""
    start, end = piece.words[0].start, piece.words[-1].end
    own = _between(piece.region.labels, start, end)
    if not own:
        return None
    text, other = _text(own), _text(_between(second, start, end))
    return _candidate(piece, own, text=text, cer=error_rate(other, text))


def _candidate(piece: _Heard, timed: Sequence[Word], **values: Any) -> Candidate:
    characters = sum(len(word.text) for word in timed)
    logs = sum(math.log(max(word.confidence or 0.0, _LEAST)) for word in timed)
    begin, end = timed[0].start, timed[-1].end
    return Candidate(
        start=min(begin, max(begin - _MARGIN, (piece.low + begin) / 2)),
        end=max(end, min(end + _MARGIN, (piece.high + end) / 2)),
        confidence=math.exp(logs / characters),
        **values,
    )


def _between(words: Sequence[Word], start: float, end: float) -> Sequence[Word]:
    """Return the words, in their order, whose middle is between two times."""
    low = bisect_left(words, start, key=_middle)
    return words[low : bisect_right(words, end, key=_middle)]


def _middle(word: Word) -> float:
    return (word.start + word.end) / 2


def _text(words: Sequence[Word]) -> str:
    return " ".join(word.text for word in words)
