"""The text that belongs to a recording: subtitles, tiers, minutes, a chapter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from unicodedata import normalize

from danish_asr.base.errors import SourceError
from danish_asr.base.tables import read_lines
from danish_asr.corpus.sources.timed import chosen_tiers
from danish_asr.corpus.sources.timed_files import (
    READERS,
    clean_line,
    is_transcript,
    no_speech,
    read_timed,
)

_PLAIN: Final = ".txt"


class Line(NamedTuple):
    """A cue, an interval of a tier, or a line of a plain text."""

    text: str
    speaker: str | None = None


def find_text(audio: Path) -> Path | None:
    """Return the text beside a recording, such as ``anna.srt`` or ``anna.da.srt``, if any.

    Raises:
        SourceError: There are several.
    """
    stem = normalize("NFC", audio.stem)
    texts = [
        path
        for path in sorted(audio.parent.iterdir())
        if path.suffix.lower() in {_PLAIN, *READERS}
        and stem in {normalize("NFC", name) for name in (path.stem, Path(path.stem).stem)}
        and (path.suffix.lower() != ".json" or is_transcript(path))
    ]
    if len(texts) > 1:
        raise SourceError(
            f"{audio}: several files have its text: {', '.join(path.name for path in texts)}; "
            "keep one of them beside it"
        )
    return texts[0] if texts else None


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
    removed: Counter[str] = Counter()
    lines = [line._replace(text=clean_line(line.text, removed)) for line in lines]
    reasons = no_speech([line.text for line in lines])
    pairs = zip(lines, reasons, strict=True)
    return [line for line, reason in pairs if line.text and reason is None]
