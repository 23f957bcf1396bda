"""Timed text as tiers of spans: Praat TextGrid, ELAN, SRT, WebVTT, and JSON of transcribers."""

import html
import io
import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources.spans import (
    LABEL,
    Span,
    Tier,
    TimedFile,
    Word,
    channel_of,
    without_dash,
)

_OWN_LABEL: Final = re.compile(r"(Speaker (\d+)): ")
"""What ``danish-asr transcribe --channels split`` writes before a cue of SRT."""

_ROLLING: Final = 0.25
"""Share of cues that repeat a line; people repeat themselves less."""

MANY: Final = 20
"""Segments of a word each, at least, that are taken for times of words."""

_TRIGRAPHS: Final = {r"\ae": "æ", r"\Ae": "Æ", r"\o/": "ø", r"\O/": "Ø", r"\ao": "å", r"\Ao": "Å"}
"""How Praat writes letters in old TextGrids of ASCII."""

_TIERS: Final = re.compile(r"<exists>\s+(?:size\s*=\s*)?(\d+)")
_INTERVALS: Final = re.compile(
    r"(?:intervals|points): size\s*=\s*(\d+)"  # long, or short:
    r'|"(?:IntervalTier|TextTier)"\s+"(?:[^"]|"")*"\s+[\d.eE+-]+\s+[\d.eE+-]+\s+(\d+)\s'
)
"""The numbers of tiers, and of intervals or points of each, in a TextGrid."""


def read_textgrid(path: Path) -> TimedFile:
    """Read a TextGrid in any of Praat's text formats; SourceError if it begins after 0."""
    # The parser alone: the package's classes refuse a file for an overlap of 1e-15 s.
    from praatio.utilities.textgrid_io import parseTextgridStr  # noqa: PLC0415

    data = path.read_bytes()
    content = data.decode("utf-16" if data[:2] in {BOM_UTF16_LE, BOM_UTF16_BE} else "utf-8-sig")
    grid = parseTextgridStr(content, includeEmptyIntervals=True)
    if float(grid["xmin"]):
        raise SourceError(
            f"{path}: begins at {grid['xmin']:g} s, so its times may not be those of the audio; in "
            "Praat: Modify > Shift to zero"
        )
    end = float(grid["xmax"])
    tiers = []
    for tier in grid["tiers"]:
        entries = list(tier["entries"])
        starts = [float(entry[0]) for entry in entries]
        is_points = tier["class"] == "TextTier"
        ends = [*starts[1:], end] if is_points else [float(entry[1]) for entry in entries]
        labels = [_untangled(entry[-1]) for entry in entries]
        spans = tuple(Span(*span) for span in zip(starts, ends, labels, strict=True) if span[2])
        empty = len(entries) - len(spans)
        tiers.append(Tier(name=tier["name"], spans=spans, empty=empty, is_points=is_points))
    _check_counts(content, [len(tier.spans) + tier.empty for tier in tiers])
    return TimedFile(tiers=tuple(tiers), seconds=end)


def _check_counts(content: str, found: list[int]) -> None:
    """Raise ValueError for a file that was cut: the parser takes what is there."""
    tiers = _TIERS.search(content)
    if tiers and int(tiers[1]) != len(found):
        raise ValueError(f"expected {tiers[1]} tiers, found {len(found)}")
    sizes = [int(long or short) for long, short in _INTERVALS.findall(content)]
    if tiers and sizes != found:
        raise ValueError(f"expected {sum(sizes)} intervals, found {sum(found)}")


def _untangled(label: str) -> str:
    for written, letter in _TRIGRAPHS.items():
        label = label.replace(written, letter)
    return _line(label)


def read_elan(path: Path) -> TimedFile:
    """Read an ELAN file; times are those in its first media file."""
    from pympi.Elan import Eaf  # noqa: PLC0415

    try:
        eaf = Eaf(str(path), suppress_version_warning=True)
    except KeyError as error:
        raise ValueError(f"no attribute {error}; open it in ELAN and save it") from error
    media = eaf.media_descriptors
    offset = int(media[0].get("TIME_ORIGIN", 0)) if media else 0
    tiers = []
    for name in eaf.get_tier_names():
        parameters = eaf.get_parameters_for_tier(name)
        found = [
            Span(_seconds(start, offset), _seconds(end, offset), _line(text))
            for start, end, text, *_ in eaf.get_annotation_data_for_tier(name)
        ]
        spans = tuple(span for span in found if span.text)
        tiers.append(
            Tier(
                name=name,
                spans=spans,
                empty=len(found) - len(spans),
                speaker=(parameters.get("PARTICIPANT") or "").strip() or None,
                kind=parameters.get("LINGUISTIC_TYPE_REF") or "",
            )
        )
    names = [item.get("RELATIVE_MEDIA_URL") or item.get("MEDIA_URL") or "" for item in media]
    stems = tuple(re.split(r"[/\\]", name)[-1] for name in names)
    return TimedFile(tiers=tuple(tiers), media=stems)


def _seconds(time: int | None, offset: int) -> float | None:
    return None if time is None else (time + offset) / 1000


def read_srt(path: Path) -> TimedFile:
    """Read SubRip; a name before each cue (``Anna: ja``) is the speaker."""
    content = _text(path)
    spans = _cues(content, "srt")
    spans = [_labelled(span, _OWN_LABEL) for span in spans]
    if all(span.speaker or LABEL.match(span.text) for span in spans):
        spans = [span if span.speaker else _labelled(span, LABEL) for span in spans]
    return TimedFile(tiers=(Tier(name="", spans=tuple(spans)),))


def read_vtt(path: Path) -> TimedFile:
    """Read WebVTT; the voice of a cue is its speaker."""
    return TimedFile(tiers=(Tier(name="", spans=tuple(_cues(_text(path), "vtt"))),))


def _cues(content: str, form: str) -> list[Span]:
    import webvtt  # noqa: PLC0415

    cues = webvtt.from_buffer(io.StringIO(content.strip()), format=form, strict=True).captions
    expected = len(re.findall(r"^\s*\d[\d:.,]*\s*-*>", content, re.MULTILINE))
    if len(cues) != expected:
        raise ValueError(f"{len(cues)} of {expected} cues can be read")
    lines = [[line for line in map(_line, cue.text.splitlines()) if line] for cue in cues]
    rolling = sum(a[-1:] == b[:1] != [] for a, b in pairwise(lines))
    if rolling > _ROLLING * len(cues):
        raise ValueError(
            f"{rolling:,} of {len(cues):,} cues begin with the line of the one before, as "
            "YouTube's automatic captions do; make cues without repetition of them"
        )
    spans = []
    for cue in cues:
        text = re.sub(r"{\\[^}]*}", "", html.unescape(cue.text))
        start, end = (time.in_milliseconds() / 1000 for time in (cue.start_time, cue.end_time))
        alone = cue.raw_text.count("<v") == 1
        span = Span(start, end, without_dash(_line(text)), cue.voice if alone else None)
        spans.append(_on_channel(span))
    return spans


def _line(text: str) -> str:
    return " ".join(text.split())


def _labelled(span: Span, label: re.Pattern[str]) -> Span:
    found = label.match(span.text)
    if found is None:
        return span
    text = without_dash(span.text[found.end() :])
    return _on_channel(span._replace(text=text, speaker=found[1]))


def _on_channel(span: Span) -> Span:
    """With the channel that our own names of speakers give."""
    channel = channel_of(span.speaker)
    return span if channel is None else span._replace(channel=channel)


def read_json(path: Path) -> TimedFile:
    """Read the segments of our own JSON, or of Whisper's, WhisperX's and whisper.cpp's."""
    tree = json.loads(_text(path))
    segments = segments_of(tree)
    if segments is None:
        raise ValueError("expected an object with 'segments'")
    spans = tuple(map(_span, segments))
    if len(spans) >= MANY and not any(" " in span.text for span in spans):
        raise ValueError(
            f"each of its {len(spans):,} segments is a single word; write sentences, such as with "
            "return_timestamps=True instead of 'word'"
        )
    seconds = tree.get("duration")
    return TimedFile(
        tiers=(Tier(name="", spans=spans),),
        seconds=seconds if isinstance(seconds, int | float) else None,
        media=(Path(tree["file"]).name,) if isinstance(tree.get("file"), str) else (),
    )


def segments_of(tree: Any) -> list[Mapping[str, Any]] | None:
    """The segments of a transcript in JSON; None if it is something else."""
    if not isinstance(tree, dict):
        return None
    for name in ("segments", "chunks", "transcription"):
        segments = tree.get(name)
        if isinstance(segments, list) and all(isinstance(part, dict) for part in segments):
            texts = all("text" in part for part in segments)
            return segments if texts and (segments or "text" in tree) else None
    return None


def is_transcript(path: Path) -> bool:
    """Whether a file is a transcript in JSON."""
    try:
        return segments_of(json.loads(_text(path))) is not None
    except (OSError, ValueError, RecursionError):
        return False


def _span(segment: Mapping[str, Any]) -> Span:
    times: Iterable[Any] = (segment.get("start"), segment.get("end"))
    if "timestamp" in segment:  # of Hugging Face's pipelines
        times = segment["timestamp"]
    elif "offsets" in segment:  # of whisper.cpp, in milliseconds
        times = (segment["offsets"][name] / 1000 for name in ("from", "to"))
    start, end = (None if time is None else float(time) for time in times)
    channel, speaker = segment.get("channel"), segment.get("speaker")
    text = _line(segment["text"] or "")
    words = tuple(word for entry in segment.get("words") or () for word in _words(entry))
    if isinstance(channel, int):  # our own count from 0
        return Span(start, end, text, f"Speaker {channel + 1}", channel + 1, words)
    return Span(start, end, text, str(speaker) if speaker else None, words=words)


def _words(entry: Any) -> Iterator[Word]:
    """The words of an entry; one of several has the times of its ends only."""
    if not isinstance(entry, Mapping):
        return
    texts = str(entry.get("word") or entry.get("text") or "").split()
    start, end = _time(entry.get("start")), _time(entry.get("end"))
    if start is not None and end is not None and end < start:
        start = end = None
    for number, text in enumerate(texts, start=1):
        yield Word(start if number == 1 else None, end if number == len(texts) else None, text)


def _time(value: Any) -> float | None:
    """Seconds, or None for what is none."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if isfinite(seconds) else None


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig")


READERS: Final[Mapping[str, Callable[[Path], TimedFile]]] = {
    ".textgrid": read_textgrid,
    ".eaf": read_elan,
    ".srt": read_srt,
    ".vtt": read_vtt,
    ".json": read_json,
}
"""By suffix, in lower case."""


def read_timed(path: Path) -> TimedFile:
    """Read a file by its suffix; SourceError says what is wrong with it."""
    try:
        return READERS[path.suffix.lower()](path)
    except SourceError:
        raise
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: not UTF-8 ({error.reason}); save it in UTF-8") from error
    except Exception as error:  # of any reader
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SourceError(f"{path}: cannot be read as {path.suffix} ({reason})") from error
