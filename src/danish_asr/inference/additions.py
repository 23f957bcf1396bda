"""What a transcript gets beside words and times, if it is asked for: speakers and punctuation."""

# ruff: noqa: PLC0415 # each part is imported where it is asked for

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from danish_asr.decoding.transcript import Transcript


class Additions:
    """Adds speakers (``auto``, or RTTM) and punctuation (a model); None leaves one out."""

    def __init__(
        self, speakers: str | None, punctuate: str | None, recordings: Sequence[Path | bytes]
    ) -> None:
        """Load what is needed; raises DanishAsrError if it cannot be done for ``recordings``."""
        self.speakers, self.punctuate = speakers, punctuate
        if speakers:
            from danish_asr.inference.speakers import open_speakers

            self._turns_of = open_speakers(speakers, recordings)
        if punctuate:
            from danish_asr.inference.punctuation import Punctuator

            self._punctuator = Punctuator(punctuate)

    def __bool__(self) -> bool:
        """Whether anything is added."""
        return bool(self.speakers or self.punctuate)

    def __call__(self, recording: Path | bytes, transcript: Transcript) -> Transcript:
        """Return the transcript of a recording with what is added, which ``about`` names."""
        about = dict(transcript.about)
        if self.speakers:
            about["speakers"], turns = self.speakers, self._turns_of(recording)
            segments = [part for whole in transcript.segments for part in turns.divide(whole)]
            transcript = replace(transcript, segments=segments)
        if self.punctuate:
            about["punctuation"], transcript = self.punctuate, self._punctuator(transcript)
        return replace(transcript, about=about)
