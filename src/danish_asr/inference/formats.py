"""Write a transcript as text, subtitles, JSON, CSV or a Praat TextGrid."""

import csv
import html
import io
import json
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Final

from danish_asr.base.errors import DanishAsrError
from danish_asr.decoding.transcript import Segment, Transcript
from danish_asr.inference.cues import make_cues, speaker

_Interval = tuple[float, float, str]


def to_txt(transcript: Transcript) -> str:
    """Return a line per segment, after its speaker's name if channels were kept apart."""
    lines = (_name(segment) + segment.text for segment in transcript.segments)
    return "".join(f"{line}\n" for line in lines)


def to_srt(transcript: Transcript) -> str:
    """Return SubRip subtitles, without a byte order mark and with plain line ends.

    The format has no escapes: a ``<`` or ``{`` in the text stays as it is.
    """
    blocks = []
    for number, cue in enumerate(make_cues(transcript, named=True), start=1):
        times = f"{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}"
        blocks.append("\n".join([str(number), times, *cue.lines, ""]))
    return "\n".join(blocks)


def to_vtt(transcript: Transcript) -> str:
    """Return WebVTT subtitles (https://www.w3.org/TR/webvtt1/), with speakers as voices."""
    blocks = ["WEBVTT\n"]
    for cue in make_cues(transcript):
        times = f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}"
        voice = "" if cue.channel is None else f"<v {speaker(cue.channel)}>"
        blocks.append(f"{times}\n{voice}{html.escape(chr(10).join(cue.lines), quote=False)}\n")
    return "\n".join(blocks)


def to_json(transcript: Transcript) -> str:
    """Return all that a transcript contains, numbers with at most 6 decimals."""
    return json.dumps(rounded(transcript.to_dict()), ensure_ascii=False, indent=1) + "\n"


def rounded(tree: dict[str, Any]) -> dict[str, Any]:
    """Return what JSON makes of it, numbers with at most 6 decimals."""
    exact = json.dumps(tree)
    found: dict[str, Any] = json.loads(exact, parse_float=lambda number: round(float(number), 6))
    return found


def to_csv(transcript: Transcript) -> str:
    """Return a row per word, so that files can be concatenated and segments grouped again.

    The columns: ``file``, ``segment`` (from 0), ``channel`` (from 0; empty if mixed), ``start``
    and ``end`` in seconds, ``word``, ``confidence`` (empty if unknown).
    """
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["file", "segment", "channel", "start", "end", "word", "confidence"])
    for number, segment in enumerate(transcript.segments):
        for word in segment.words:
            times = f"{word.start:.3f}", f"{word.end:.3f}"
            sure = None if word.confidence is None else f"{word.confidence:.4f}"
            rows.writerow([transcript.file, number, segment.channel, *times, word.text, sure])
    return out.getvalue()


def to_textgrid(transcript: Transcript) -> str:
    """Return a Praat TextGrid in the long format: tiers of segments and words, per channel."""
    channels: dict[int | None, list[Segment]] = {}
    for segment in transcript.segments:
        channels.setdefault(segment.channel, []).append(segment)
    tiers: list[tuple[str, list[_Interval]]] = []
    for channel, segments in sorted(
        (channels or {None: []}).items(), key=lambda item: item[0] or 0
    ):
        name = "" if channel is None else f"{speaker(channel)} "
        words = [word for segment in segments for word in segment.words]
        tiers.append((f"{name}segments", [(s.start, s.end, s.text) for s in segments]))
        tiers.append((f"{name}words", [(w.start, w.end, w.text) for w in words]))
    ends = [end for _, intervals in tiers for _, end, _ in intervals]
    duration = round(max([transcript.duration, *ends, 0.001]), 3)  # Praat refuses an empty one
    lines = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        "xmin = 0",
        f"xmax = {duration:.3f}",
        "tiers? <exists>",
        f"size = {len(tiers)}",
        "item []:",
    ]
    for number, (name, intervals) in enumerate(tiers, start=1):
        filled = _without_gaps(intervals, duration)
        lines += [
            f"    item [{number}]:",
            '        class = "IntervalTier"',
            f"        name = {_quoted(name)}",
            "        xmin = 0",
            f"        xmax = {duration:.3f}",
            f"        intervals: size = {len(filled)}",
        ]
        for index, (start, end, text) in enumerate(filled, start=1):
            lines += [
                f"        intervals [{index}]:",
                f"            xmin = {start:.3f}",
                f"            xmax = {end:.3f}",
                f"            text = {_quoted(text)}",
            ]
    return "\n".join(lines) + "\n"


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
    found = [name.strip().lower() for name in names.split(",") if name.strip()]
    for name in found or [names]:
        if name not in FORMATS:
            near = get_close_matches(name, FORMATS, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise DanishAsrError(f"unknown format '{name}'{hint}; available: {', '.join(FORMATS)}")
    return list(dict.fromkeys(found))


def _name(segment: Segment) -> str:
    return "" if segment.channel is None else f"{speaker(segment.channel)}: "


def _clock(seconds: float, point: str) -> str:
    minutes, milliseconds = divmod(round(seconds * 1000), 60_000)
    whole, thousandths = divmod(milliseconds, 1000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{whole:02}{point}{thousandths:03}"


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _without_gaps(intervals: Sequence[_Interval], duration: float) -> list[_Interval]:
    """Return intervals that cover all of the time, as Praat wants them: silence is ''."""
    filled: list[_Interval] = []
    last = 0.0
    for begin, end, text in ((round(a, 3), round(b, 3), text) for a, b, text in intervals):
        if begin > last:
            filled.append((last, begin, ""))
        filled.append((max(begin, last), end, text))
        last = end
    if last < duration or not filled:
        filled.append((last, duration, ""))
    return filled
