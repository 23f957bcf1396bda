"""What timed text holds: tiers of spans, each a text with its times."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

LABEL: Final = re.compile(r"(\w[^:?!.]{0,29}): +(?=\S)")

NO_SPEECH: Final = re.compile(r"\[[^]]*\]|[♪♫].*")
"""A text that subtitles have for music and noise."""

_DASH: Final = re.compile(r"^[-–—]\s*")


class Word(NamedTuple):
    """A word of a text, and its times in seconds; None where the file gives none."""

    start: float | None
    end: float | None
    text: str


class Span(NamedTuple):
    """A text, and when it is said, in seconds; None where the file gives no time."""

    start: float | None
    end: float | None
    text: str
    speaker: str | None = None
    channel: int | None = None  # from 1
    words: tuple[Word, ...] = ()  # where the file has their times


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Spans of a name; a format without tiers has one."""

    name: str
    spans: tuple[Span, ...]
    empty: int = 0  # intervals without text, which are no spans
    speaker: str | None = None
    kind: str = ""  # its tier type in ELAN
    is_points: bool = False  # each text is taken to last until the next point


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedFile:
    """What a file holds."""

    tiers: tuple[Tier, ...]
    seconds: float | None = None  # of the audio, as far as the file says
    media: tuple[str, ...] = ()  # names of the audio


def without_dash(text: str) -> str:
    """Return a text without the dash that subtitles have before what a person says."""
    return _DASH.sub("", text)


def channel_of(speaker: str | None) -> int | None:
    """The channel of a name as ``danish-asr transcribe --channels split`` writes it, from 1."""
    found = re.fullmatch(r"Speaker (\d+)", speaker or "")
    return int(found[1]) if found else None


def overlapping(spans: Iterable[Span], slack: float) -> set[Span]:
    """The spans that share more than ``slack`` seconds with another one of the same channel."""
    found: set[Span] = set()
    timed = [
        (span.start, span.end, span)
        for span in spans
        if span.start is not None and span.end is not None
    ]
    timed.sort(key=lambda times: times[:2])
    for channel in {span.channel for _, _, span in timed}:
        last: tuple[float, Span] | None = None  # of those so far the one that ends last
        for start, end, span in timed:
            if None not in {channel, span.channel} and span.channel != channel:
                continue
            if last is not None and min(last[0], end) - start > slack:
                found |= {last[1], span}
            last = (end, span) if last is None or end > last[0] else last
    return found
