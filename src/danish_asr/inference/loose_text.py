"""The text of a recording, which may paraphrase, miss sentences or have parts that nobody reads.

A file comes in: subtitles, tiers, minutes, a chapter. Its lines go out (`TextsBeside`,
`read_text`), and their words as a model writes them (`Text`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from torch import Tensor

from danish_asr.base.errors import AlignmentError, SourceError
from danish_asr.base.tables import read_lines
from danish_asr.corpus.sources.recordings import stems_of, transcript_in
from danish_asr.corpus.sources.timed import chosen_tiers, no_speech
from danish_asr.corpus.sources.timed_files import (
    READERS,
    TimedFile,
    clean_line,
    read_timed,
)
from danish_asr.decoding.alignment import SpokenText
from danish_asr.decoding.beam import symbols
from danish_asr.decoding.transcript import Word
from danish_asr.inference.model import Model
from danish_asr.text.numerals import spell_numerals
from danish_asr.text.profiles import normalizer, profile_in


class Line(NamedTuple):
    """A cue, an interval of a tier, or a line of a plain text."""

    text: str
    speaker: str | None = None


class TextsBeside:
    """The texts beside recordings, such as ``anna.srt`` or ``anna.da.srt`` of ``anna.wav``.

    Each folder is listed once.
    """

    def __init__(self) -> None:
        self._in_folder: dict[Path, dict[str, list[Path]]] = {}  # by the stem of a recording

    def files(self, audio: Path) -> list[Path]:
        """Return the files that may have the text of a recording by their names."""
        if audio.parent not in self._in_folder:
            of_stem = self._in_folder[audio.parent] = {}
            for path in sorted(audio.parent.iterdir()):
                if path.suffix.lower() in {".txt", *READERS}:
                    for stem in stems_of(path):
                        of_stem.setdefault(normalize("NFC", stem), []).append(path)
        return self._in_folder[audio.parent].get(normalize("NFC", audio.stem), [])

    def read(self, audio: Path, tiers: Sequence[str] = ()) -> tuple[Path, list[Line]] | None:
        """Return the file with the text of a recording, and its lines; None: it has none.

        Raises SourceError if there are several, it cannot be read, ``tiers`` have to choose, or it
        is the output of a model: JSON that names a decoder, or what such JSON beside it has too.
        """
        texts: dict[Path, TimedFile | None] = {}  # None: not read yet
        of_model: dict[Path, TimedFile] = {}
        for path in self.files(audio):
            transcript = transcript_in(path) if path.suffix.lower() == ".json" else None
            if transcript and transcript.is_of_model:
                of_model[path] = transcript
            elif transcript or path.suffix.lower() != ".json":
                texts[path] = transcript
        if len(texts) > 1:
            raise SourceError(
                f"{audio}: several files have its text: {', '.join(path.name for path in texts)}; "
                "keep one of them beside it"
            )
        if not texts and of_model:
            raise _no_transcript(next(iter(of_model)))
        if not texts:
            return None
        ((path, file),) = texts.items()
        lines = read_text(path, tiers, file)
        for other, transcript in of_model.items():
            heard = _lines(other, transcript, ())
            labelled = [Line(f"{line.speaker}: {line.text}") for line in heard]
            if _words(lines) in (_words(heard), _words(labelled)):
                raise _no_transcript(path, f", as {other.name} shows")
        return path, lines


def _no_transcript(path: Path, reason: str = "") -> SourceError:
    return SourceError(
        f"{path}: is what a model has written{reason}; correct it, and remove the JSON"
    )


def _words(lines: Sequence[Line]) -> list[str]:
    return [word for line in lines for word in line.text.split()]


def read_text(path: Path, tiers: Sequence[str] = (), file: TimedFile | None = None) -> list[Line]:
    """Return the lines of a text, those of timed text in the order of their starts.

    ``file`` is what it holds, if that was read. Raises what `TextsBeside.read` does of one file.
    """
    file = file or read_timed(path)
    if file.is_of_model:
        raise _no_transcript(path)
    return _lines(path, file, tiers)


def _lines(path: Path, file: TimedFile, tiers: Sequence[str]) -> list[Line]:
    if path.suffix.lower() in READERS:
        spans = [
            (span.start or 0.0, Line(span.text, span.speaker or tier.speaker))
            for tier in chosen_tiers(path, file, tiers)
            for span in tier.spans
            if not span.fault
        ]
        lines = [line for _, line in sorted(spans, key=lambda timed: timed[0])]
    else:
        (span,) = file.tiers[0].spans
        if span.fault:
            raise SourceError(f"{path}: it has {span.fault}; call subtitles .srt or .vtt")
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
        lines: As they were read.
        words: In the order of the text.
        symbols: The indices of the tokenizer that they need, (symbols,).
        silent_columns: Of these, the columns of the blank and of the space.
    """

    def __init__(self, lines: Sequence[Line], model: Model) -> None:
        spell = _speller(model)
        self.lines = lines
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

    def speaker(self, first: int, last: int) -> str | None:
        """Who says words ``first`` to ``last - 1``; None: nobody knows, or several do."""
        speakers = {self.lines[word.line].speaker for word in self.words[first:last]}
        return speakers.pop() if len(speakers) == 1 else None

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
