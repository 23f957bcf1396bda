"""Files of timed text: SRT, WebVTT, JSON of transcribers, and those with tiers (``tiers.py``).

Comes in: a path. Goes out: a `TimedFile`, whose texts have no signs of subtitling any more.
"""

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources import tiers
from danish_asr.corpus.sources.tiers import Medium, Span, Tier, TimedFile

_CLOCK: Final = r"(?:(\d+):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
_TIMING: Final = re.compile(rf"\s*{_CLOCK}\s*-+>\s*{_CLOCK}(?:\s.*)?")

_TAG: Final = re.compile(
    r"(?i)</?(?:v|c|i|b|u|s|ruby|rt|lang|font)(?:[.\s][^<>]*)?>|<\d[\d:.]*>|{\\[^}]*}"
)
"""Formatting in WebVTT, SubRip and SubStation Alpha; ``x < 5 og y > 3`` is none."""

_VOICE: Final = re.compile(r"<v(?:\.[^ >]*)?\s+([^<>]+)>")
_DASH: Final = re.compile(r"[-–—]+(?!\d)\s*")
_BREAK: Final = re.compile(r"\\[Nnh]")

_LABEL: Final = re.compile(r"(\w[^:?!.]{0,29}): +(?=\S)")
_OWN_LABEL: Final = re.compile(r"(Speaker (\d+)): ")
"""What ``danish-asr transcribe --channels split`` writes before a cue of SRT."""

_LABELLED: Final = 3
"""Cues, at least, in which names before the texts are those of speakers."""

_ROLLING: Final = 0.25
"""Share of cues that repeat a line; people repeat themselves less."""

_MANY: Final = 20
"""Segments of a word each, at least, that are taken for times of words."""

_MUSIC: Final = re.compile(r"[♪♫].*")
_BRACKET: Final = re.compile(r"\[[^]]*\]|\([^)]*\)")


def read_timed(path: Path) -> TimedFile:
    """Read a file by its ending; SourceError says what is wrong with it."""
    try:
        return READERS[path.suffix.lower()](path)
    except SourceError:
        raise
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: not UTF-8 ({error.reason}); save it in UTF-8") from error
    except Exception as error:  # of any reader
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SourceError(f"{path}: cannot be read as {path.suffix} ({reason})") from error


def no_speech(texts: Sequence[str]) -> list[str | None]:
    """For each text, why it is no speech: music, or a text in brackets that recurs.

    Linguists write overlapping speech in brackets, subtitlers noises; those occur again.
    """
    bracketed = Counter(text.casefold() for text in texts if _BRACKET.fullmatch(text))
    reasons: list[str | None] = []
    for text in texts:
        repeated = bracketed[text.casefold()] > 1
        reasons.append(
            "no speech" if _MUSIC.fullmatch(text) else "in brackets" if repeated else None
        )
    return reasons


def clean_line(line: str, removed: Counter[str]) -> str:
    """A line without the signs of subtitling, which ``removed`` counts."""
    for what, sign, instead in (
        ("formatting", _TAG, ""),
        (r"line breaks written as \N", _BREAK, " "),
    ):
        line, count = sign.subn(instead, line)
        removed[what] += bool(count)
    line = " ".join(line.split())
    if dash := _DASH.match(line):
        removed["dashes before a text"] += 1
        line = line[dash.end() :]
    return line


def read_srt(path: Path) -> TimedFile:
    """Read SubRip; a name before each cue (``Anna: ja``) is the speaker."""
    return _with_speakers(*_cues(_text(path), ends_at_blank=False))


def read_vtt(path: Path) -> TimedFile:
    """Read WebVTT; the speaker is a cue's voice, or a name before each cue, as Zoom writes it."""
    return _with_speakers(*_cues(_text(path), ends_at_blank=True))


def _cues(content: str, *, ends_at_blank: bool) -> tuple[list[Span], Counter[str]]:
    """The cues of a file; in SubRip they end before the number and the times of the next one."""
    lines = re.split(r"\r\n|\r|\n", content)
    timings = [(n, _TIMING.fullmatch(line)) for n, line in enumerate(lines) if "->" in line]
    removed: Counter[str] = Counter()
    spans, bodies = [], []
    for (number, timing), (following, _) in pairwise([*timings, (len(lines), None)]):
        if timing is None:
            if re.match(r"\s*\d", lines[number]):
                raise ValueError(f"line {number + 1} has no times: {lines[number][:60]!r}")
            continue  # an arrow in a text
        own = lines[number + 1 : following]
        if ends_at_blank:
            blank = (place for place, line in enumerate(own) if not line)
            own = own[: next(blank, len(own))]
        elif own and following < len(lines) and own[-1].strip().isdecimal():
            own = own[:-1]
        voices = _VOICE.findall("\n".join(own))
        body = [clean for line in own if (clean := clean_line(html.unescape(line), removed))]
        bodies.append(body)
        start, end = _seconds(timing.groups()[:4]), _seconds(timing.groups()[4:])
        voice = voices[0].strip() if len(voices) == 1 else None
        spans.append(_on_channel(Span(start, end, " ".join(body), voice)))
    rolling = sum(one[-1:] == other[:1] != [] for one, other in pairwise(bodies))
    if rolling > max(1, _ROLLING * len(spans)):
        raise ValueError(
            f"{rolling:,} of {len(spans):,} cues begin with the line of the one before, as "
            "YouTube's automatic captions do; make cues without repetition of them"
        )
    return spans, removed


def _seconds(clock: Sequence[str | None]) -> float:
    hours, minutes, seconds, fraction = clock
    whole = 3600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
    return whole + float(f"0.{fraction}")


def _with_speakers(spans: list[Span], removed: Counter[str]) -> TimedFile:
    spans = [_labelled(span, _OWN_LABEL) for span in spans]
    texts = [span for span in spans if span.text]
    if len(texts) >= _LABELLED and all(span.speaker or _LABEL.match(span.text) for span in texts):
        spans = [span if span.speaker else _labelled(span, _LABEL) for span in spans]
    return TimedFile(tiers=(Tier(name="", spans=tuple(spans)),), removed=removed)


def _labelled(span: Span, label: re.Pattern[str]) -> Span:
    found = label.match(span.text)
    if found is None:
        return span
    return _on_channel(span._replace(text=span.text[found.end() :], speaker=found[1]))


def _on_channel(span: Span) -> Span:
    """With the channel that our own names of speakers give."""
    channel = channel_of(span.speaker)
    return span if channel is None else span._replace(channel=channel)


def channel_of(speaker: str | None) -> int | None:
    """The channel of a name as ``danish-asr transcribe --channels split`` writes it, from 1."""
    found = re.fullmatch(r"Speaker (\d+)", speaker or "")
    return int(found[1]) if found else None


def read_json(path: Path) -> TimedFile:
    """Read the segments of our own JSON, or of Whisper's, WhisperX's and whisper.cpp's."""
    tree = json.loads(_text(path))
    segments = segments_of(tree)
    if segments is None:
        raise ValueError("expected an object with 'segments'")
    spans = tuple(map(_span, segments))
    if len(spans) >= _MANY and not any(" " in span.text for span in spans):
        raise ValueError(
            f"each of its {len(spans):,} segments is a single word; write sentences, such as with "
            "return_timestamps=True instead of 'word'"
        )
    file = tree.get("file")
    return TimedFile(
        tiers=(Tier(name="", spans=spans),),
        media=(Medium(Path(file).name),) if isinstance(file, str) else (),
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
    text = " ".join((segment["text"] or "").split())
    if isinstance(channel, int):  # our own count from 0
        return Span(start, end, text, f"Speaker {channel + 1}", channel + 1)
    return Span(start, end, text, str(speaker) if speaker else None)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig")


READERS: Final[Mapping[str, Callable[[Path], TimedFile]]] = {
    **tiers.READERS,
    ".srt": read_srt,
    ".vtt": read_vtt,
    ".json": read_json,
}
"""By ending, in lower case."""
