"""Write a transcript as text, subtitles, JSON, CSV or a Praat TextGrid."""

import csv
import html
import io
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Final, NamedTuple

from danish_asr.base.errors import DanishAsrError
from danish_asr.decoding.transcript import Segment, Transcript, Word

MAX_LINE: Final = 42
"""Characters of a line; with two lines and 7 seconds the usual limits of broadcasters."""

MAX_SECONDS: Final = 7.0

MIN_SECONDS: Final = 1.0
"""A shorter cue stays until then, or until the next cue of its speaker."""


def to_txt(transcript: Transcript) -> str:
    """Return a line per segment, after its speaker's name if speakers are known."""
    lines = [_label(segment.speaker_name) + segment.text for segment in transcript.segments]
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
        voice = "" if cue.speaker is None else f"<v {html.escape(cue.speaker, quote=False)}>"
        text = html.escape("\n".join(cue.lines), quote=False)
        blocks.append(f"{times}\n{voice}{text}\n")
    return "\n".join(blocks)


def to_json(transcript: Transcript) -> str:
    """Return all that a transcript contains, numbers with at most 6 decimals."""
    return json.dumps(rounded(transcript.to_dict()), ensure_ascii=False, indent=1) + "\n"


def rounded(tree: dict[str, Any]) -> dict[str, Any]:
    """Return what JSON makes of it, numbers with at most 6 decimals."""
    exact = json.dumps(tree)
    plain: dict[str, Any] = json.loads(exact, parse_float=lambda number: round(float(number), 6))
    return plain


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


class _Interval(NamedTuple):
    """An interval of a TextGrid."""

    start: float
    end: float
    text: str


def to_textgrid(transcript: Transcript) -> str:
    """Return a Praat TextGrid in the long format: tiers of segments and words, per speaker."""
    speakers: dict[str | None, list[Segment]] = defaultdict(list)
    for segment in sorted(transcript.segments, key=_order_of_tiers):
        speakers[segment.speaker_name].append(segment)
    tiers: dict[str, list[_Interval]] = {}
    for speaker, segments in speakers.items():
        name = "" if speaker is None else f"{speaker} "
        words = [word for segment in segments for word in segment.words]
        tiers[f"{name}segments"] = [_Interval(s.start, s.end, s.text) for s in segments]
        tiers[f"{name}words"] = [_Interval(w.start, w.end, w.text) for w in words]
    tiers = tiers or {"segments": [], "words": []}
    ends = [interval.end for intervals in tiers.values() for interval in intervals]
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
    for number, (name, intervals) in enumerate(tiers.items(), start=1):
        filled = _without_gaps(intervals, duration)
        lines += [
            f"    item [{number}]:",
            '        class = "IntervalTier"',
            f"        name = {_quoted(name)}",
            "        xmin = 0",
            f"        xmax = {duration:.3f}",
            f"        intervals: size = {len(filled)}",
        ]
        for index, interval in enumerate(filled, start=1):
            lines += [
                f"        intervals [{index}]:",
                f"            xmin = {interval.start:.3f}",
                f"            xmax = {interval.end:.3f}",
                f"            text = {_quoted(interval.text)}",
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
    formats = [name.strip().lower() for name in names.split(",") if name.strip()]
    for name in formats or [names]:
        if name not in FORMATS:
            near = get_close_matches(name, FORMATS, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise DanishAsrError(f"unknown format '{name}'{hint}; available: {', '.join(FORMATS)}")
    return list(dict.fromkeys(formats))


def _order_of_tiers(segment: Segment) -> tuple[int, str]:
    return segment.channel or 0, segment.speaker or ""


def _label(speaker: str | None) -> str:
    return "" if speaker is None else f"{speaker}: "


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
    for interval in intervals:
        start, end = round(interval.start, 3), round(interval.end, 3)
        if start > last:
            filled.append(_Interval(last, start, ""))
        filled.append(_Interval(max(start, last), end, interval.text))
        last = end
    if last < duration or not filled:
        filled.append(_Interval(last, duration, ""))
    return filled


class Cue(NamedTuple):
    """One or two lines of a subtitle and when they are shown, in seconds."""

    start: float
    end: float
    lines: Sequence[str]
    speaker: str | None = None


def make_cues(transcript: Transcript, *, named: bool = False) -> list[Cue]:
    """Return the cues in the order of their starts; ``named`` begins each with its speaker.

    A cue has at most two lines of 42 characters and lasts at most 7 s, unless one word exceeds
    that. It ends preferably at a pause or a punctuation mark, and cues are about equally full.
    Cues of one speaker do not overlap; several may talk at the same time.
    """
    parts: dict[str | None, list[Sequence[Word]]] = defaultdict(list)
    for segment in transcript.segments:
        label = _label(segment.speaker_name) if named else ""
        parts[segment.speaker_name] += _divide(segment.words, label)
    cues = []
    for speaker, of_speaker in parts.items():
        label = _label(speaker) if named else ""
        limits = [*(words[0].start for words in of_speaker[1:]), float("inf")]
        for words, limit in zip(of_speaker, limits, strict=True):
            start = words[0].start
            end = min(max(words[-1].end, start + MIN_SECONDS), limit)
            cues.append(Cue(start, end, _wrap(label, words), speaker))
    return sorted(cues, key=lambda cue: cue.start)


def _divide(words: Sequence[Word], label: str) -> list[Sequence[Word]]:
    # The cheapest division, by dynamic programming: costs[n] is that of the first n words, and
    # begins[n] is where their last cue begins.
    costs, begins = [0.0], [0]
    for end in range(1, len(words) + 1):
        options = []
        for begin in range(end - 1, -1, -1):
            cue = words[begin:end]
            if len(cue) > 1 and not _fits(label, cue):
                break  # with one word more it does not fit either
            options.append((costs[begin] + _cost(label, cue) + _break_cost(words, begin), begin))
        cost, begin = min(options)
        costs.append(cost)
        begins.append(begin)
    ends = [len(words)]
    while ends[-1]:
        ends.append(begins[ends[-1]])
    ends.reverse()
    return [words[begin:end] for begin, end in pairwise(ends)]


def _fits(label: str, words: Sequence[Word]) -> bool:
    longest = max(map(len, _wrap(label, words)))
    return words[-1].end - words[0].start <= MAX_SECONDS and longest <= MAX_LINE


def _cost(label: str, words: Sequence[Word]) -> float:
    return (1 - sum(map(len, _wrap(label, words))) / (2 * MAX_LINE)) ** 2


def _break_cost(words: Sequence[Word], begin: int) -> float:
    if not begin:
        return 0.0
    last = words[begin - 1]
    pause = words[begin].start - last.end
    return 1 - 2 * min(max(pause, 0), 1) - (0.5 if last.text[-1:] in ".,:;?!" else 0)


def _wrap(label: str, words: Sequence[Word]) -> Sequence[str]:
    """Return one line, or the two whose lengths differ least."""
    texts = [word.text for word in words]
    texts[0] = label + texts[0]
    line = " ".join(texts)
    if len(line) <= MAX_LINE or len(texts) == 1:
        return (line,)
    splits = [(" ".join(texts[:i]), " ".join(texts[i:])) for i in range(1, len(texts))]
    return min(splits, key=lambda lines: max(map(len, lines)))
