"""The text that belongs to a recording: subtitles, tiers, minutes, a chapter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from danish_asr.base.errors import SourceError
from danish_asr.base.tables import read_lines
from danish_asr.corpus.sources.spans import NO_SPEECH
from danish_asr.corpus.sources.timed import chosen_tiers
from danish_asr.corpus.sources.timed_files import READERS, is_transcript, read_timed

_PLAIN: Final = ".txt"

_DASH: Final = re.compile(r"^[-–—]\s*")
"""Before what a person says in subtitles."""


class Line(NamedTuple):
    """A cue, an interval of a tier, or a line of a plain text."""

    text: str
    speaker: str | None = None


def find_text(audio: Path) -> Path | None:
    """Return the text beside a recording, such as ``anna.srt`` or ``anna.da.srt``, if any.

    Raises:
        SourceError: There are several.
    """
    texts = [
        path
        for path in sorted(audio.parent.glob(f"{_literally(audio.stem)}*"))
        if path.suffix.lower() in {_PLAIN, *READERS}
        and audio.stem in {path.stem, Path(path.stem).stem}
        and (path.suffix.lower() != ".json" or is_transcript(path))
    ]
    if len(texts) > 1:
        raise SourceError(
            f"{audio}: several files have its text: {', '.join(path.name for path in texts)}; "
            "keep one of them beside it"
        )
    return texts[0] if texts else None


def _literally(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


def read_text(path: Path, tiers: Sequence[str] = ()) -> list[Line]:
    """Return the lines of a text, those of timed text in the order of their starts.

    Raises:
        SourceError: It cannot be read, or ``tiers`` have to choose.
    """
    if path.suffix.lower() == _PLAIN:
        lines = [Line(line.strip()) for line in read_lines(path, SourceError)]
    else:
        spans = [
            (span.start or 0.0, Line(span.text, span.speaker or speaker))
            for tier, speaker in chosen_tiers(path, read_timed(path), tiers)
            for span in tier.spans
        ]
        lines = [line for _, line in sorted(spans, key=lambda timed: timed[0])]
    lines = [line._replace(text=_DASH.sub("", line.text)) for line in lines]
    return [line for line in lines if line.text and not NO_SPEECH.fullmatch(line.text)]
