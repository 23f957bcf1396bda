"""Write a transcript as text, subtitles, JSON, CSV or a Praat TextGrid."""

import csv
import html
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from danish_asr.base.errors import DanishAsrError
from danish_asr.decoding.transcript import Segment, Transcript, Word, divide

MAX_LINE: Final = 42
"""Characters of a line; with two lines and 7 seconds the usual limits of broadcasters."""

MAX_SECONDS: Final = 7.0

_CUE_PAUSE: Final = 0.6
"""Seconds without speech that no cue goes across."""

MIN_SECONDS: Final = 1.0
"""A shorter cue stays until then, or until the next cue of its speaker."""


def to_txt(transcript: Transcript) -> str:
    """Return a line per segment, after its speaker's name if speakers are known."""
    lines = [_label(segment.speaker_name) + segment.text for segment in transcript.segments]
    return "".join(f"{line}\n" for line in lines)


def to_srt(transcript: Transcript) -> str:
    """Return SubRip subtitles; the first line of a cue begins with its speaker, if known.

    The name does not count among the 42 characters. The format has no escapes: a ``<`` or ``{`` in
    the text stays as it is.
    """
    blocks = []
    for number, cue in enumerate(make_cues(transcript), start=1):
        times = f"{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}"
        text = _label(cue.speaker) + "\n".join(cue.lines)
        blocks.append(f"{number}\n{times}\n{text}\n")
    return "\n".join(blocks)


def to_vtt(transcript: Transcript) -> str:
    """Return WebVTT subtitles (https://www.w3.org/TR/webvtt1/), with speakers as voices."""
    blocks = ["WEBVTT\n"]
    for cue in make_cues(transcript):
        times = f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}"
        voice = "" if cue.speaker is None else f"<v {html.escape(cue.speaker, quote=False)}>"
        text = html.escape("\n".join(cue.lines), quote=False)
        blocks.append(f"{times}\n{voice}{text}\n")
    return "\n".join(blocks)


def to_json(transcript: Transcript) -> str:
    """Return all that a transcript contains, numbers with at most 6 decimals."""
    tree = _rounded(transcript.to_dict())
    return json.dumps(tree, ensure_ascii=False, indent=1) + "\n"


def _rounded(tree: Any) -> Any:
    if isinstance(tree, float):
        return round(tree, 6)
    if isinstance(tree, dict):
        return {key: _rounded(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_rounded(value) for value in tree]
    return tree


def to_csv(transcript: Transcript) -> str:
    """Return a row per word, so that files can be concatenated and segments grouped again.

    The columns: ``file``, ``segment`` (from 0), ``channel`` (from 0; empty if mixed), ``start``
    and ``end`` in seconds, ``word``, ``confidence`` and ``speaker`` (empty if unknown).
    """
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["file", "segment", "channel", "start", "end", "word", "confidence", "speaker"])
    for number, segment in enumerate(transcript.segments):
        for word in segment.words:
            place = transcript.file, number, segment.channel, f"{word.start:.3f}", f"{word.end:.3f}"
            confidence = None if word.confidence is None else f"{word.confidence:.4f}"
            rows.writerow([*place, word.text, confidence, segment.speaker_name])
    return out.getvalue()


def to_textgrid(transcript: Transcript) -> str:
    """Return a Praat TextGrid in the short format: tiers of segments and words, per speaker."""
    speakers: dict[str | None, list[Segment]] = defaultdict(list)
    for segment in sorted(transcript.segments, key=lambda s: (s.channel or 0, s.speaker or "")):
        speakers[segment.speaker_name].append(segment)
    tiers: dict[str, Sequence[Segment | Word]] = {}
    for speaker, segments in (speakers or {None: []}).items():
        prefix = "" if speaker is None else f"{speaker} "
        tiers[f"{prefix}segments"] = segments
        tiers[f"{prefix}words"] = [word for segment in segments for word in segment.words]
    ends = [round(segment.end, 3) for segment in transcript.segments]
    duration = max([round(transcript.duration, 3), *ends, 0.001])  # Praat refuses an empty one
    lines: list[object] = ['File type = "ooTextFile"', 'Object class = "TextGrid"', ""]
    lines += [0, duration, "<exists>", len(tiers)]
    for name, spans in tiers.items():
        intervals = _intervals(spans, duration)
        lines += ['"IntervalTier"', _quoted(name), 0, duration, len(intervals)]
        for start, end, text in intervals:
            lines += [start, end, _quoted(text)]
    return "".join(f"{line}\n" for line in lines)


def _intervals(spans: Iterable[Segment | Word], duration: float) -> list[tuple[float, float, str]]:
    """Start, end and text of spans that do not overlap; silence between them has the text ''."""
    intervals: list[tuple[float, float, str]] = []
    last = 0.0
    for span in spans:
        start, end = max(round(span.start, 3), last), round(span.end, 3)
        if end <= start:
            continue
        if start > last:
            intervals.append((last, start, ""))
        intervals.append((start, end, span.text))
        last = end
    if last < duration:
        intervals.append((last, duration, ""))
    return intervals


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


FORMATS: Final[dict[str, Callable[[Transcript], str]]] = {
    "txt": to_txt,
    "srt": to_srt,
    "vtt": to_vtt,
    "json": to_json,
    "csv": to_csv,
    "textgrid": to_textgrid,
}
SUFFIXES: Final = {name: f".{name}" for name in FORMATS} | {"textgrid": ".TextGrid"}


def parse_formats(names: str) -> list[str]:
    """Return the formats of a list with commas; raises DanishAsrError for an unknown one."""
    formats = [name.strip().lower() for name in names.split(",")]
    for name in formats:
        if name not in FORMATS:
            raise DanishAsrError(f"unknown format '{name}'; available: {', '.join(FORMATS)}")
    return list(dict.fromkeys(formats))


def _label(speaker: str | None) -> str:
    return "" if speaker is None else f"{speaker}: "


def _clock(seconds: float, point: str) -> str:
    rest, milliseconds = divmod(round(seconds * 1000), 1000)
    return f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}{point}{milliseconds:03}"


class Cue(NamedTuple):
    """One or two lines of a subtitle and when they are shown, in seconds."""

    start: float
    end: float
    lines: Sequence[str]
    speaker: str | None = None


def make_cues(transcript: Transcript) -> list[Cue]:
    """Return the cues in the order of their starts.

    A cue has at most two lines of 42 characters and lasts at most 7 s, unless one word exceeds
    that, and has no pause of 0.6 s. Longer segments are cut at their longest pauses. Cues of one
    speaker do not overlap; several may talk at the same time.
    """
    parts: dict[str | None, list[Sequence[Word]]] = defaultdict(list)
    for segment in transcript.segments:
        parts[segment.speaker_name] += divide(segment.words, _fits)
    cues = []
    for speaker, of_speaker in parts.items():
        limits = [*(words[0].start for words in of_speaker[1:]), float("inf")]
        for words, limit in zip(of_speaker, limits, strict=True):
            start = words[0].start
            end = min(max(words[-1].end, start + MIN_SECONDS), limit)
            cues.append(Cue(start, end, _wrap(words), speaker))
    return sorted(cues, key=lambda cue: cue.start)


def _fits(words: Sequence[Word]) -> bool:
    pause = max((b.start - a.end for a, b in pairwise(words)), default=0.0)
    longest = max(map(len, _wrap(words)))
    seconds = words[-1].end - words[0].start
    return pause < _CUE_PAUSE and seconds <= MAX_SECONDS and longest <= MAX_LINE


def _wrap(words: Sequence[Word]) -> Sequence[str]:
    """Return one line, or the two whose lengths differ least."""
    texts = [word.text for word in words]
    line = " ".join(texts)
    if len(line) <= MAX_LINE or len(texts) == 1:
        return (line,)
    splits = [(" ".join(texts[:i]), " ".join(texts[i:])) for i in range(1, len(texts))]
    return min(splits, key=lambda lines: max(map(len, lines)))
