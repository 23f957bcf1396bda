"""What a transcription contains: text, segments and words with times in seconds."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class Word:
    """A word, with its start and end from the start of the audio."""

    text: str
    start: float
    end: float
    confidence: float | None = None  # from 0 to 1; None if unknown


@dataclass(frozen=True)
class Alternative:
    """One of the texts that a decoder found."""

    text: str
    score: float
    """Its log-probability, with those of a language model and of hotwords; higher is better."""


@dataclass(frozen=True)
class Segment:
    """Speech up to a pause of 0.6 s, and at most 30 s."""

    start: float
    end: float
    words: Sequence[Word]
    channel: int | None = None  # from 0; None if the channels were mixed
    speaker: str | None = None  # of a diarizer; None if nobody asked for one

    @classmethod
    def of(
        cls, words: Sequence[Word], channel: int | None = None, speaker: str | None = None
    ) -> Self:
        """Return the segment of words, of which there is one at least."""
        return cls(words[0].start, words[-1].end, words, channel, speaker)

    @property
    def speaker_name(self) -> str | None:
        """Who speaks: the speaker, or one for each channel if they were kept apart."""
        if self.speaker is None and self.channel is not None:
            return f"Speaker {self.channel + 1}"
        return self.speaker

    @property
    def text(self) -> str:
        """The words, joined by spaces."""
        return " ".join(word.text for word in self.words)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"text": self.text, **asdict(self)}


@dataclass(frozen=True)
class Transcript:
    """The segments of one recording in the order of their starts; none if nobody speaks."""

    duration: float  # of the audio
    segments: Sequence[Segment]
    file: str | None = None
    about: dict[str, Any] = field(default_factory=dict)  # model, decoder, settings

    @property
    def text(self) -> str:
        """The text, a line per segment."""
        return "\n".join(segment.text for segment in self.segments)

    @property
    def words(self) -> list[Word]:
        """The words of all segments."""
        return [word for segment in self.segments for word in segment.words]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it, with the text of each segment."""
        return {
            "file": self.file,
            "duration": self.duration,
            "text": self.text,
            "segments": [segment.to_dict() for segment in self.segments],
            "about": self.about,
        }


def divide(words: Sequence[Word], fits: Callable[[Sequence[Word]], bool]) -> list[Sequence[Word]]:
    """Cut words where their pauses are longest, until each part fits or is a single word."""
    if len(words) < 2 or fits(words):
        return [words]
    begin, end = words[0].start, words[-1].end
    quarter, middle = (end - begin) / 4, (begin + end) / 2
    cuts = range(1, len(words))
    inner = [i for i in cuts if begin + quarter <= words[i].start <= end - quarter]

    def merit(i: int) -> tuple[float, float]:
        pause = round(words[i].start - words[i - 1].end, 2)
        return pause, -abs(words[i].start - middle)

    cut = max(inner or cuts, key=merit)
    return divide(words[:cut], fits) + divide(words[cut:], fits)
