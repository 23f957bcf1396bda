"""Times for a text that is known: every word of a transcript, in audio of any length."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from danish_asr.base.errors import AlignmentError
from danish_asr.base.files import publish_text
from danish_asr.base.progress import Progress
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.formats import FORMATS, SUFFIXES, parse_formats
from danish_asr.inference.sound import open_sound
from danish_asr.recipe.run.run_directory import check_model
from danish_asr.text.numerals import spell_numerals
from danish_asr.text.profiles import normalize

if TYPE_CHECKING:
    from danish_asr.inference.model import Model
    from danish_asr.inference.streaming import ShowProgress

_DOUBTFUL: Final = 0.1
"""Words with a lower confidence are reported."""

_MOST_DOUBTFUL: Final = 0.5
_ENOUGH: Final = 20
"""With a larger share of such words, in so many, the text is probably that of another recording."""

_NEVER: Final = -30.0
"""The log-probability of a symbol where nobody speaks."""


def align_file(
    model: str,
    audio: Path,
    text: str,
    *,
    formats: str = "srt,textgrid",
    out: Path | None = None,
    overwrite: bool = False,
    device: str = "auto",
) -> None:
    """Write the times of a text's words beside the audio, or to the folder ``out``.

    Args:
        model: As for `load_model`.
        audio: A file.
        text: A file or the text itself; a line is a segment.
        formats: Names in `FORMATS`, with commas.
        out: A folder; None for that of the audio.
        overwrite: Whether existing files are replaced.
        device: ``auto``, or a device of PyTorch.

    Raises:
        AlignmentError: The text cannot be read, does not fit, or an output exists; or most words
            are hardly heard, when the outputs are written.
        TranscriptionError: The audio cannot be read.
        ConfigError: The model is unknown.
    """
    names, lines = parse_formats(formats), read_text(text)
    outputs = {name: (out or audio.parent) / (audio.stem + SUFFIXES[name]) for name in names}
    existing = [str(path) for path in outputs.values() if path.exists()]
    if existing and not overwrite:
        raise AlignmentError(
            f"{', '.join(existing)}: exists; --overwrite replaces it, --out writes elsewhere"
        )
    check_model(model)
    with open_sound(audio):
        pass  # what is no audio is refused before fairseq2 is imported

    from danish_asr.inference.model import load_model  # noqa: PLC0415

    loaded = load_model(model, device=device)
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    with Progress(audio.name, console=console) as bar:
        transcript = align(
            loaded, audio, lines, progress=lambda done, total: bar.update(done, total=total)
        )
    for name, path in outputs.items():
        publish_text(path, FORMATS[name](transcript))
        console.print(f"wrote {path}")
    _report(transcript, len(lines), console)
    doubtful, words = len(_doubtful(transcript.words)), len(transcript.words)
    if words >= _ENOUGH and doubtful > _MOST_DOUBTFUL * words:
        raise AlignmentError(
            f"{audio}: {doubtful:,} of {words:,} words have a confidence below {_DOUBTFUL}; "
            "check that this is the text of this recording. The files above have its times"
        )


def read_text(text: str) -> list[str]:
    """Return the lines of a file, or of the text itself, without empty ones.

    Raises:
        AlignmentError: There is no text, or the file is missing or not UTF-8.
    """
    path = Path(text)
    with suppress(OSError):  # a text may be too long for the name of a file
        if path.is_file():
            try:
                text = path.read_text(encoding="utf-8-sig")
            except UnicodeDecodeError as error:
                raise AlignmentError(f"{path}: {error}; save it as UTF-8") from None
        elif path.suffix and len(text.split()) == 1 and not text.endswith("."):
            raise AlignmentError(f"the text file {path} does not exist")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise AlignmentError("the text is empty; expected a file or the text, a segment per line")
    return lines


def align(
    model: Model, audio: Path, lines: Sequence[str], *, progress: ShowProgress | None = None
) -> Transcript:
    """Return the times of each word of ``lines``, a segment each, as they are written.

    What is aligned are the words as the model writes them: normalised by the profile of its
    training, without characters that its tokenizer lacks. A word of which nothing is left, such as
    a dash, stays with the word before it, or the one after it at the start of a line; a line of
    such words is left out.

    Raises:
        AlignmentError: Nobody speaks, the text is too long for the audio, or it is in letters that
            the model cannot write.
        TranscriptionError: The audio cannot be read.
    """
    import torch  # noqa: PLC0415

    from danish_asr.decoding.alignment import FRAME_SECONDS, SpokenText  # noqa: PLC0415
    from danish_asr.inference.streaming import read_regions  # noqa: PLC0415

    spelling = Spelling(model)
    segments = [words for words in map(spelling.words, lines) if words]
    spelling.check(" ".join(lines))
    text = " ".join(word.spoken for words in segments for word in words)
    symbols, spoken = SpokenText.of(text, model.tokenizer).compact()
    with open_sound(audio) as sound:
        regions = [
            (round(start / FRAME_SECONDS), log_probs[:, symbols])
            for start, log_probs in read_regions(model, sound, progress)
        ]
        duration, file = sound.seconds, sound.file
    if not regions:
        raise AlignmentError(f"{audio}: no speech found in {duration:.1f} s; check the audio")
    # On a common time axis. Where nobody speaks, words may end, and nothing else is there.
    frames = max(start + len(log_probs) for start, log_probs in regions)
    of_file = torch.full((frames, len(symbols)), _NEVER)
    of_file[:, [0, spoken.separator]] = 0
    for start, log_probs in regions:
        of_file[start : start + len(log_probs)] = log_probs
    timed = iter(spoken.align(of_file))
    result = []
    for words in segments:
        aligned = [_joined(word, islice(timed, len(word.spoken.split()))) for word in words]
        result.append(Segment(aligned[0].start, aligned[-1].end, aligned))
    return Transcript(duration, result, file, {"model": model.name, "aligned": True})


@dataclass(frozen=True)
class WrittenWord:
    """One or more words of the text, and what the model writes for them, in one or more words."""

    text: str
    spoken: str


class Spelling:
    """Turns the words of a text into those that a model writes, line by line.

    Attributes:
        count: Words with a letter or a digit, so far.
        silent: Those of which nothing is left.
    """

    def __init__(self, model: Model) -> None:
        encode, unknown = model.tokenizer.create_encoder(), model.tokenizer.vocab_info.unk_idx

        @cache
        def can_write(character: str) -> bool:
            return unknown is None or not bool((encode(character) == unknown).any())

        self.count = 0
        self.silent: list[str] = []
        self._profile, self._can_write = model.text_profile, can_write

    def words(self, line: str) -> list[WrittenWord]:
        """Return the words of a line; one of which nothing is left stays with a neighbour."""
        words: list[WrittenWord] = []
        before = ""
        for text in line.split():
            spoken = _spoken(text, self._profile, self._can_write)
            letters = any(map(str.isalnum, text))
            self.count += letters
            if spoken:
                words.append(WrittenWord(before + text, spoken))
                before = ""
                continue
            self.silent += [text] * letters
            if words:
                words[-1] = replace(words[-1], text=f"{words[-1].text} {text}")
            else:
                before += f"{text} "
        return words

    def check(self, text: str) -> None:
        """Raise AlignmentError if the model can write less than half of the lines so far."""
        if not self.count:
            raise AlignmentError(f"the text '{text:.40}' has no word; expected a transcript")
        if len(self.silent) > self.count / 2:
            raise AlignmentError(
                f"{len(self.silent)} of the text's {self.count} words have no letter that the "
                f"model writes ({' '.join(self.silent[:3]):.40}); expected text in the alphabet "
                "that it was trained on"
            )


def _spoken(text: str, profile: str, can_write: Callable[[str], bool]) -> str:
    """Return a word as the model writes it, '' if nothing of it is left."""
    text = normalize(text, profile)
    if any(c.isdigit() and not can_write(c) for c in text):
        text = spell_numerals(text)
    characters = []
    for character in text:
        base = unicodedata.normalize("NFKD", character)[0]
        forms = (character, character.lower(), base, base.lower())
        characters.append(next((c for c in forms if c == " " or can_write(c)), ""))
    return " ".join("".join(characters).split())


def _joined(written: WrittenWord, timed: Iterable[Word]) -> Word:
    words = list(timed)
    sure = math.prod(word.confidence or 0.0 for word in words)
    return Word(written.text, words[0].start, words[-1].end, sure)


def _doubtful(words: Sequence[Word]) -> list[Word]:
    return [word for word in words if (word.confidence or 0.0) < _DOUBTFUL]


def _report(transcript: Transcript, lines: int, console: Console) -> None:
    words, segments = transcript.words, len(transcript.segments)
    doubtful = _doubtful(words)
    console.print(f"aligned {len(words):,} words in {segments:,} segments")
    if lines > segments:
        console.print(f"left out {lines - segments:,} lines without a word that the model writes")
    if doubtful:
        console.print(
            f"words with a confidence below {_DOUBTFUL}: {len(doubtful):,}, the first is "
            f"'{doubtful[0].text}' at {doubtful[0].start:.1f} s: the text may differ from the audio"
        )
