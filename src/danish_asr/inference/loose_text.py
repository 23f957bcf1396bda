"""The text of a recording, which may paraphrase, miss sentences or have parts that nobody reads.

A text comes in: subtitles, tiers, minutes, a chapter. It is found among what a model hears
(`match`), and its words get times: all of them (`align`), or those that are spoken (harvest.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate, groupby, product
from math import prod
from pathlib import Path
from typing import Final, NamedTuple
from unicodedata import normalize

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from rich.console import Console
from torch import Tensor

from danish_asr.base.errors import AlignmentError, SourceError
from danish_asr.base.sound import ShowProgress, open_sound
from danish_asr.base.tables import read_lines
from danish_asr.corpus.sources.timed import chosen_tiers
from danish_asr.corpus.sources.timed_files import (
    READERS,
    clean_line,
    no_speech,
    read_timed,
    stems_of,
    transcript_in,
)
from danish_asr.decoding.alignment import SpokenText
from danish_asr.decoding.beam import symbols
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.model import Model
from danish_asr.text.numerals import spell_numerals
from danish_asr.text.profiles import normalizer, profile_in

FRAMES_PER_SECOND: Final = 50

_REACH: Final = 4
"""Words by which the alignment may be wrong at either end of a piece."""

_GOOD: Final = 0.5
"""Error rate below which the words of a piece are not those of the next one."""

_DOUBTFUL: Final = 0.1
"""Words with a lower confidence are reported."""

_MOST_DOUBTFUL: Final = 0.5
_ENOUGH: Final = 20
"""With a larger share of such words, in so many, the text is probably that of another recording."""

_NEVER: Final = -30.0
"""The log-probability of a symbol where nobody speaks."""


class Line(NamedTuple):
    """A cue, an interval of a tier, or a line of a plain text."""

    text: str
    speaker: str | None = None


class TextsBeside:
    """The texts beside recordings; each folder is listed once, and each JSON looked at once."""

    def __init__(self) -> None:
        self._texts: dict[Path, list[Path]] = {}  # by recording
        self._in_folder: dict[Path, dict[str, list[Path]]] = {}  # by the stem of a recording

    def of(self, audio: Path) -> Path | None:
        """Return the text of a recording, such as ``anna.srt`` or ``anna.da.srt``, if any.

        Raises SourceError if there are several.
        """
        if audio not in self._texts:
            if audio.parent not in self._in_folder:
                self._in_folder[audio.parent] = _texts_in(audio.parent)
            named = self._in_folder[audio.parent].get(normalize("NFC", audio.stem), [])
            self._texts[audio] = [
                path for path in named if path.suffix.lower() != ".json" or transcript_in(path)
            ]
        texts = self._texts[audio]
        if len(texts) > 1:
            raise SourceError(
                f"{audio}: several files have its text: {', '.join(path.name for path in texts)}; "
                "keep one of them beside it"
            )
        return texts[0] if texts else None


def _texts_in(folder: Path) -> dict[str, list[Path]]:
    """What may be texts in a folder, by the stems of their recordings."""
    texts: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in {".txt", *READERS}:
            for stem in stems_of(path):
                texts.setdefault(normalize("NFC", stem), []).append(path)
    return texts


def read_text(path: Path, tiers: Sequence[str] = ()) -> list[Line]:
    """Return the lines of a text, those of timed text in the order of their starts.

    Raises SourceError if it cannot be read, is the output of a model, or ``tiers`` have to choose.
    """
    if path.suffix.lower() in READERS:
        file = read_timed(path)
        if file.is_of_model:
            raise SourceError(
                f"{path}: is what a model has written (about.decoder), and no transcript"
            )
        spans = [
            (span.start or 0.0, Line(span.text, span.speaker or tier.speaker))
            for tier in chosen_tiers(path, file, tiers)
            for span in tier.spans
            if not span.fault
        ]
        lines = [line for _, line in sorted(spans, key=lambda timed: timed[0])]
    else:
        lines = [Line(line) for line in read_lines(path, SourceError)]
    removed: Counter[str] = Counter()
    lines = [line._replace(text=clean_line(line.text, removed)) for line in lines]
    silent = no_speech([line.text for line in lines])
    return [line for line in lines if line.text and line.text not in silent]


class WrittenWord(NamedTuple):
    """A word of the text, with signs beside it, and what the model writes for it."""

    text: str
    spoken: str  # one or more words
    line: int


class Text:
    """The words of a text as a model writes them.

    They are normalised by the profile of its training, without characters that its tokenizer lacks.
    A word of which nothing is left, such as a dash, stays with a neighbour. Raises AlignmentError
    if the model cannot write most of the words.

    Attributes:
        words: In the order of the text.
        symbols: The indices of the tokenizer that they need, (symbols,).
        silent_columns: Of these, the columns of the blank and of the space.
    """

    def __init__(self, lines: Sequence[Line], model: Model) -> None:
        spell = _speller(model)
        self.words = [
            word
            for number, line in enumerate(lines)
            for word in _written_words(number, line.text, spell)
        ]
        texts = [text for line in lines for text in line.text.split()]
        count = sum(any(map(str.isalnum, text)) for text in texts)
        if not self.words or len(self.words) < count / 2:
            raise AlignmentError(
                f"the model can write {len(self.words)} of the {count} words of the text "
                f"'{' '.join(texts):.40}'; expected a transcript in the alphabet that it was "
                "trained on"
            )
        self._tokenizer = model.tokenizer
        spoken = SpokenText.of(self.spoken(0, len(self.words)), model.tokenizer)
        self.symbols = spoken.symbols()
        self.silent_columns = [0, spoken.among(self.symbols).separator]

    def spoken(self, first: int, last: int) -> str:
        """What is spoken of words ``first`` to ``last - 1``."""
        return " ".join(word.spoken for word in self.words[first:last])

    def align(self, frames: Tensor, first: int, last: int, offset: float) -> list[Word]:
        """Return words ``first`` to ``last - 1`` with times.

        ``frames`` are log-probabilities of the text's `symbols`, (S, symbols), and ``offset`` is
        the time of the first one. Raises AlignmentError if there are too few or too many.
        """
        spoken = SpokenText.of(self.spoken(first, last), self._tokenizer)
        timed = iter(spoken.among(self.symbols).align(frames, offset=offset))
        aligned = []
        for word in self.words[first:last]:
            parts = [next(timed) for _ in word.spoken.split()]
            sure = prod(part.confidence or 0.0 for part in parts)
            aligned.append(Word(word.text, parts[0].start, parts[-1].end, sure))
        return aligned


def _speller(model: Model) -> Callable[[str], str]:
    """Return what gives a word as a model writes it: in its profile and alphabet, or ''."""
    alphabet = {text for text in symbols(model.tokenizer) if text}
    remedy = "write one of these as text_profile into the card, if texts look alike under it"
    to_profile = normalizer(profile_in(f"the card of {model.name}", model.text_profile, remedy))

    @cache
    def spell(word: str) -> str:
        text = to_profile(word)
        if any(c.isdigit() and c not in alphabet for c in text):
            text = spell_numerals(text)
        characters = []
        for character in text:
            base = normalize("NFKD", character)[0]
            forms = (character, character.lower(), base, base.lower())
            characters.append(next((c for c in forms if c in alphabet), ""))
        return " ".join("".join(characters).split())

    return spell


def _written_words(number: int, line: str, spell: Callable[[str], str]) -> list[WrittenWord]:
    words: list[WrittenWord] = []
    before = ""
    for text in line.split():
        spoken = spell(text)
        if spoken:
            words.append(WrittenWord(before + text, spoken, number))
            before = ""
        elif words:
            words[-1] = words[-1]._replace(text=f"{words[-1].text} {text}")
        else:
            before += f"{text} "
    return words


class Piece(NamedTuple):
    """A window of speech, as far as a text needs it."""

    start: float  # seconds at which its first frame is
    words: Sequence[Word]  # what the model hears
    frames: Tensor  # log-probabilities, (S, symbols of the text)

    @property
    def end(self) -> float:
        """Seconds at which its last frame ends."""
        return self.start + len(self.frames) / FRAMES_PER_SECOND

    @property
    def hypothesis(self) -> str:
        """The words that the model hears."""
        return " ".join(word.text for word in self.words)


def listen(
    model: Model, audio: Path, text: Text, progress: ShowProgress | None = None
) -> tuple[float, list[Piece]]:
    """Return the seconds of a recording, and its speech; TranscriptionError if it is unreadable."""
    with open_sound(audio) as sound:
        pieces = [
            Piece(own.start, own.words, own.log_probs[:, text.symbols])
            for own in model.hear(sound, progress=progress)
        ]
    return sound.seconds, pieces


class Stretch(NamedTuple):
    """Words ``first`` to ``last - 1`` of a text, and the error rate of a hypothesis of them."""

    first: int
    last: int
    cer: float


def match(hypotheses: Sequence[str], words: Sequence[str]) -> Iterator[Stretch | None]:
    """Yield the words of a text that are most similar to each hypothesis, in order.

    All hypotheses of a recording and all its text are aligned once, by their characters: so parts
    that are missing on either side, and texts with wrong times or none, do not matter. Around the
    place that this gives a hypothesis, the most similar stretch of words is taken. None where no
    character fits. Time grows with the product of the lengths: 3 s for three hours.
    """
    spoken, text = " ".join(hypotheses), " ".join(words)
    places = np.full(len(spoken), -1)
    for block in Levenshtein.opcodes(spoken, text):
        if block.tag == "equal":
            places[block.src_start : block.src_end] = range(block.dest_start, block.dest_end)
    starts = np.array([0, *accumulate(len(word) + 1 for word in words)])
    begin = floor = 0
    for hypothesis in hypotheses:
        own = places[begin : begin + len(hypothesis)]
        matched = np.flatnonzero(own >= 0)
        begin += len(hypothesis) + 1
        if not len(matched):
            yield None
            continue
        # The median ignores characters at the ends that the alignment has strewn over other words.
        place = int(np.median(own[matched] - matched))
        ends = np.array([place, place + len(hypothesis)])
        low, high = np.searchsorted(starts, ends + 1).tolist()
        stretch = _most_similar(hypothesis, words, low - 1, high, floor)
        if stretch is not None and stretch.cer < _GOOD:
            floor = stretch.last
        yield stretch


def _most_similar(
    hypothesis: str, words: Sequence[str], low: int, high: int, floor: int
) -> Stretch | None:
    """Return the stretch around words ``low`` to ``high - 1`` that is most similar."""
    firsts = range(max(floor, low - _REACH), min(low + _REACH, len(words)) + 1)
    lasts = range(max(floor, high - _REACH), min(high + _REACH, len(words)) + 1)
    stretches = (
        Stretch(first, last, _error_rate(hypothesis, " ".join(words[first:last])))
        for first, last in product(firsts, lasts)
        if first < last
    )
    # A rate, not a distance: a word at the end that is badly heard is still a word of it.
    return min(stretches, key=lambda own: (own.cer, own.first - own.last), default=None)


def _error_rate(hypothesis: str, reference: str) -> float:
    return Levenshtein.distance(hypothesis, reference) / len(reference)


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
        if before is None or after is None or max(before.cer, after.cer) >= _GOOD:
            continue
        if before.last == after.first > first:
            yield first, before.last, pieces[begin:number]
            first, begin = before.last, number
    yield first, len(text.words), pieces[begin:]


def _joined(pieces: Sequence[Piece], text: Text) -> Tensor:
    """Return the frames of pieces on a common time axis.

    Where nobody speaks, words may end, and nothing else is there.
    """
    starts = [round((piece.start - pieces[0].start) * FRAMES_PER_SECOND) for piece in pieces]
    joined = torch.full((starts[-1] + len(pieces[-1].frames), len(text.symbols)), _NEVER)
    joined[:, text.silent_columns] = 0
    for start, piece in zip(starts, pieces, strict=True):
        joined[start : start + len(piece.frames)] = piece.frames
    return joined
