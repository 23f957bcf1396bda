"""What a transcription contains: text, segments and words with times in seconds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Word:
    """A word, with its start and end from the start of the audio."""

    text: str
    start: float
    end: float
    confidence: float | None = None  # from 0 to 1; None if unknown


@dataclass(frozen=True)
class Segment:
    """Speech without a long pause."""

    start: float
    end: float
    words: Sequence[Word]
    channel: int | None = None  # from 0; None if the channels were mixed

    @property
    def text(self) -> str:
        """The words, joined by spaces."""
        return " ".join(word.text for word in self.words)


@dataclass(frozen=True)
class Transcript:
    """The segments of one recording in the order of their starts; none if nobody speaks."""

    duration: float  # of the audio
    segments: Sequence[Segment]
    file: str | None = None
    about: dict[str, Any] = field(default_factory=dict)  # model, decoder, settings

    @property
    def text(self) -> str:
        """The whole text, a line per segment."""
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
            "segments": [{"text": segment.text, **asdict(segment)} for segment in self.segments],
            "about": self.about,
        }
