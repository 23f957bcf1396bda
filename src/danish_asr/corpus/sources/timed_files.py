"""Files of texts: SRT, WebVTT, JSON of transcribers, Praat's TextGrid, ELAN, and plain text.

Comes in: a path. Goes out: a `TimedFile`, whose texts have no signs of subtitling any more. All are
parsed here: a tier that is empty or whose references break must not stop the others.
"""

import html
import json
import math
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple
from unicodedata import normalize
from urllib.parse import unquote
from xml.etree import ElementTree  # noqa: ICN001 - the name that its documentation has

from danish_asr.base.errors import SourceError
from danish_asr.base.tables import code_page_hint, is_utf8
from danish_asr.corpus.columns import seconds_of


class Span(NamedTuple):
    """A text, and when it is said, in seconds; None where the file gives no time."""

    start: float | None
    end: float | None
    text: str
    speaker: str | None = None
    channel: int | None = None  # from 1
    fault: str | None = None  # why it is no utterance


class Tier(NamedTuple):
    """Spans of a name; a format without tiers has one."""

    name: str
    spans: list[Span]
    speaker: str | None = None
    kind: str = ""  # its tier type in ELAN


class TimedFile(NamedTuple):
    """What a file holds."""

    tiers: Sequence[Tier]
    media: Mapping[str, float] = {}  # recordings, and by how many seconds their clocks are later
    removed: Mapping[str, int] = {}  # signs of subtitling
    named: Mapping[str, int] = {}  # speakers by names before texts, and how many texts
    is_of_model: bool = False  # a recogniser of ours has written it, and nobody has changed it


class NotUtf8Error(SourceError):
    """A text that cannot be read, because it has another code page."""


_LABELS: Final = re.compile(r"\d+([.,]\d+)?\s+\d+([.,]\d+)?\s+\S")
_CLOCK: Final = r"((?:\d+:)?\d{1,2}:\d{1,2}[.,]\d{1,3})"
_TIMING: Final = re.compile(rf"\s*{_CLOCK}\s*-+>\s*{_CLOCK}(?:\s.*)?")
_NEARLY_TIMES: Final = re.compile(r"\s*\d+[:;.,][\d:;.,]+\s*-+>.*|.*-->\s*\d+[:;.,]\d.*")
"""Times with a fault, such as ``00:00:02 --> 00:00:04``; as a text they would spoil two cues."""

_SHIFTED: Final = re.compile(r"X-TIMESTAMP-MAP=(?!(?:,?(?:MPEGTS|LOCAL):[0:.]+)+\s*$).*")
"""Where a part of a stream begins; its times may be others than those of the recording."""

_TAG: Final = re.compile(
    r"(?i)</?(?:v|c|i|b|u|s|ruby|rt|lang|font)(?:[.\s][^<>]*)?>|<\d[\d:.]*>|{\\[^}]*}"
)
"""Formatting in WebVTT, SubRip and SubStation Alpha; ``x < 5 og y > 3`` is none."""

_VOICE: Final = re.compile(r"<v(?:\.[^ >]*)?\s+([^<>]+)>")
_DASH: Final = re.compile(r"^(?:[-–—]+(?!\d|[-–—]*>)|>{2,})\s*")  # of no number and no arrow
_NEXT_NUMBER: Final = re.compile(r"(?:^|\n)\s*(?:\d+[^\S\n]*|\n\s*\d+\s*)\Z")
"""The number of the next cue below a text in SubRip; between blank lines it may also be one."""

_BREAK: Final = re.compile(r"\\[Nnh]")

_DOT: Final = "|".join([r"\.(?=\S)", *(rf"(?<=\b\w{{{size}}})\." for size in range(1, 5))])
_LABEL: Final = re.compile(
    rf"(?P<open>\[)?(?P<name>[\w+](?:[^\]:?!.]|{_DOT}){{0,39}})(?(open)\]):(?: +(?=\S)|$)"
)
"""``Anna: `` or ``[Anna]: `` before a text or alone; a dot is that of ``Bo H.`` or of a mail."""

_ZOOMS_LABEL: Final = re.compile(r"(?P<name>\S.{0,99}?):(?: +(?=\S)|$)")
_NO_LABEL: Final = re.compile(r"\[[^]]+\] +(?=\S)|[A-ZÆØÅ]\w+:(?=[^\W\d])")
"""``[Anna] `` or ``Anna:`` without a space: names that are not taken as those of speakers."""

_OF_A_SPEAKER: Final = 3  # texts of a file that begin with one name, if others have none
_REPEATED: Final = 3  # cues of a file that begin with the line before them

_CLOCK_LINE: Final = re.compile(
    r"(?m)^\s*(?:[\[(]\d{1,2}:\d{2}|\d{1,2}:\d{2}:\d{2}|\d{1,2}:\d{2}[.,]\d+\s*-+>)"
)
"""A line that begins with the time of a passage: ``[00:12``, ``00:00:12`` or ``00:12.0 -->``."""

_SHORT_CLOCK_LINE: Final = re.compile(r"(?m)^\s*\d{1,2}:\d{2}\b")
"""The same or a time of the day, ``10:30``; texts with several are probably the former."""

KEPT_NAMES: Final = (
    "texts that begin with what may be a speaker's name (write it as <v Anna> in WebVTT, or into a "
    "column speaker of a table)"
)

OUTSIDE: Final = "texts of WebVTT that were not read, as they follow an empty line"

CLOCK_TIMES: Final = "clock times, not plain text"
NO_SPEECH_LABEL: Final = "a label, no speech"
MUSIC: Final = "no speech"
NO_TEXT: Final = "an annotation without a text"
"""Reasons in the ledger."""

NO_SPEECH: Final = (NO_SPEECH_LABEL, MUSIC, NO_TEXT)
"""Those of what nobody took for speech, or wrote down: ``--max-drop`` does not count them."""

_NO_SPEECH_LABELS: Final = {"silent", "sounding", "sil", "sp", "spn", "xxx"}
"""What Praat, forced aligners and CHAT write where nobody speaks or nobody understands."""

_TRIGRAPH: Final = re.compile(r"\\(ae|A[eE]|ao|A[oO]|[oO]/|ss|[A-Za-z][`'^~\",<])")
"""How Praat writes a letter beyond ASCII."""

_TRIGRAPHS: Final = {"ae": "æ", "ao": "å", "o/": "ø", "ss": "ß"}
_ACCENTS: Final = dict(zip("`'^~\",<", "\u0300\u0301\u0302\u0303\u0308\u0327\u030c", strict=True))

_TOKEN: Final = re.compile(
    r'"(?P<text>(?:[^"]|"")*)"|<(?P<flag>\w+)>|!.*|'
    r"(?<!\S)(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?!\S)"
)
"""What Praat reads of a text file: texts in quotes, flags, and numbers that stand alone."""


def read_timed(path: Path) -> TimedFile:
    """Read a file by its ending; SourceError says what is wrong with it."""
    try:
        return READERS.get(path.suffix.lower(), read_text)(path)
    except UnicodeDecodeError as error:
        raise NotUtf8Error(f"{path}: not UTF-8; {code_page_hint(path.read_bytes())}") from error
    except Exception as error:  # of any reader
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SourceError(f"{path}: cannot be read as {path.suffix} ({reason})") from error


def clean_line(line: str, removed: Counter[str]) -> str:
    """A line without the signs of subtitling, which ``removed`` counts."""
    line, tags = _TAG.subn("", line)
    first, *others = (_without_dash(part, removed) for part in _BREAK.split(line))
    removed["formatting"] += bool(tags)
    removed[r"line breaks written as \N"] += bool(others)
    return " ".join(filter(None, (first, *others)))


def _without_dash(line: str, removed: Counter[str]) -> str:
    """A line without the dash of its speaker, which ``removed`` counts."""
    line, dashes = _DASH.subn("", " ".join(line.split()))
    removed["dashes before a text"] += dashes
    return line


def read_text(path: Path) -> TimedFile:
    """Read a text that is that of all of its recording."""
    content = _text(path)
    text = " ".join(content.split())
    if _LABELS.match(text):
        raise ValueError(
            "it begins with two numbers, as Audacity's labels and TIMIT do; write a table with "
            "path,start,end,text"
        )
    has_times = _CLOCK_LINE.search(content) or len(_SHORT_CLOCK_LINE.findall(content)) > 1
    return TimedFile([Tier("", [Span(None, None, text, fault=CLOCK_TIMES if has_times else None)])])


def read_subtitles(path: Path) -> TimedFile:
    """Read SubRip or WebVTT; the speaker is a cue's voice, or the name before each cue.

    A cue of SubRip ends before the number, if the first one has one, and the times of the next one,
    a cue of WebVTT at an empty line.
    """
    lines = re.split(r"\r*\n|\r", _text(path))
    is_subrip = path.suffix.lower() == ".srt" and not lines[0].startswith("WEBVTT")
    timings = {}
    for number, line in enumerate(lines):
        if timing := _TIMING.fullmatch(line):
            if number - 1 in timings:
                raise ValueError(f"line {number + 1} has times in place of a text: {line[:60]!r}")
            timings[number] = timing
        elif _NEARLY_TIMES.fullmatch(line):
            raise ValueError(
                f"line {number + 1} has no times: {line[:60]!r}; expected a line such as "
                "00:00:02,500 --> 00:00:04,000"
            )
        elif _SHIFTED.fullmatch(line):
            raise ValueError(
                f"line {number + 1} says that its times are those of a stream: {line[:80]}; remove "
                "the line if they are right, or else shift them: they count from the beginning"
            )
    if not timings and (is_subrip or any(lines[1:])):
        raise ValueError("it has no times")
    head = (line.replace("\ufeff", "").strip() for line in lines[: min(timings, default=0)])
    is_numbered = "".join([*filter(None, head)][-1:]).isdigit()
    removed: Counter[str] = Counter()
    spans, bodies = [], []
    for number, following in pairwise([*timings, len(lines)]):
        own = lines[number + 1 : following]
        if not is_subrip and "" in own:
            blank = own.index("")
            removed[OUTSIDE] += _outside(own[blank:], is_last=following == len(lines))
            own = own[:blank]
        elif is_numbered and following < len(lines):
            own = _NEXT_NUMBER.sub("", "\n".join(own)).split("\n")
        voices = {html.unescape(name).strip() for name in _VOICE.findall("\n".join(own))}
        body = [clean for line in own if (clean := clean_line(html.unescape(line), removed))]
        start, end = map(seconds_of, timings[number].groups())
        speaker = voices.pop() if len(voices) == 1 else None
        spans.append(Span(start, end, " ".join(body), speaker))
        bodies.append(body)
    _check_repeated(bodies)
    is_zooms = path.stem.lower().endswith(".transcript")
    named = _take_names(spans, bodies, removed, is_zooms=is_zooms)
    return TimedFile([Tier("", spans)], {}, removed, named)


def _outside(lines: list[str], *, is_last: bool) -> int:
    """How many blocks behind a cue of WebVTT are texts, and no comments."""
    if not is_last:
        lines = lines[:-1]  # the next cue may have a name
    blocks = (block.strip() for block in "\n".join(lines).split("\n\n"))
    return sum(not block.startswith(("NOTE", "STYLE", "REGION")) for block in blocks if block)


def _check_repeated(bodies: Sequence[list[str]]) -> None:
    """Raise ValueError if cues begin with the last line of those before: it is not said again."""
    longer = [(one, other) for one, other in pairwise(bodies) if len(other) > 1]
    repeated = sum(one[-1:] == other[:1] for one, other in longer)
    if repeated >= _REPEATED and 2 * repeated > len(longer):
        raise ValueError(
            "its cues repeat the lines before, as YouTube's automatic captions do; leave it out"
        )


def kept_names(spans: Sequence[Span]) -> int:
    """How many texts without a speaker begin with what may be a name.

    They do if most have one, or others a speaker, or else if a name recurs.
    """
    texts = [span.text for span in spans if span.text and not span.speaker]
    labels = [label["name"] for text in texts if (label := _LABEL.match(text))]
    kept = len(labels) + sum(bool(_NO_LABEL.match(text)) for text in texts)
    if 2 * kept > sum(bool(span.text) for span in spans) or any(span.speaker for span in spans):
        return kept
    return sum(count for count in Counter(labels).values() if count >= _OF_A_SPEAKER)


def _take_names(
    spans: list[Span], bodies: Sequence[list[str]], removed: Counter[str], *, is_zooms: bool
) -> dict[str, int]:
    """Make the names before texts speakers; returns these names with how often they are there.

    Of Zoom it is any name; else one of three lines, or that of each cue. If all differ they are no
    names, but count something: ``Nummer et: ``.
    """
    pattern, least = (_ZOOMS_LABEL, 1) if is_zooms else (_LABEL, _OF_A_SPEAKER)
    labels = [None if span.speaker else pattern.match(span.text) for span in spans]
    firsts = Counter(label["name"] for label in labels if label)
    names = [span.speaker or label for span, label in zip(spans, labels, strict=True) if span.text]
    if len(names) >= _OF_A_SPEAKER and all(names) and len(firsts) < len(names):
        least = 1
    others = [label for body in bodies for line in body[1:] if (label := pattern.match(line))]
    own = (label["name"] for label in others)
    counts = firsts + Counter(name for name in own if name[0].isupper())  # no part of a sentence
    named = {
        name: count
        for name, count in counts.items()
        if firsts[name] >= least or count >= _OF_A_SPEAKER
    }
    for place, (span, body) in enumerate(zip(spans, bodies, strict=True)):
        if not span.speaker:
            parts = [_part(line, pattern, named, removed) for line in body]
            people = {name for name, _ in parts if name} | {name for name, _ in parts[:1]}
            speaker = people.pop() if len(people) == 1 else None  # none of several
            text = " ".join(part for _, part in parts if part)
            spans[place] = span._replace(text=text, speaker=speaker)
    return named


def _part(
    line: str, pattern: re.Pattern[str], named: Mapping[str, int], removed: Counter[str]
) -> tuple[str | None, str]:
    """Who is named before a line, and what is behind the name."""
    label = pattern.match(line)
    if label is None or label["name"] not in named:
        return None, line
    return label["name"], _without_dash(line[label.end() :], removed)


def read_json(path: Path) -> TimedFile:
    """Read the segments of our own JSON, or of Whisper's and WhisperX's."""
    tree = json.loads(_text(path))
    segments = tree.get("segments") if isinstance(tree, dict) else None
    if not isinstance(segments, list):
        fix = 'expected {"segments": [...]}; write a list of segments so'
        raise ValueError(fix)  # noqa: TRY004 - of the file
    spans = []
    for segment in segments:
        text = " ".join((segment["text"] or "").split())
        channel, speaker = segment.get("channel"), segment.get("speaker")
        speaker = re.sub(r"^(\d+|[A-Z])$", r"Speaker \1", "" if speaker is None else str(speaker))
        if isinstance(channel, int):  # our own count from 0
            channel, speaker = channel + 1, f"Speaker {channel + 1}"
        fault = None if is_utf8(text + speaker) else "malformed text"  # half a surrogate pair
        text, speaker = (own.encode(errors="replace").decode() for own in (text, speaker))
        start, end = _time_in_json(segment["start"]), _time_in_json(segment.get("end"))
        spans.append(Span(start, end, text, speaker, channel, fault))
    about = tree.get("about")
    is_of_model = isinstance(about, dict) and "decoder" in about
    return TimedFile([Tier("", spans)], is_of_model=is_of_model)


def _time_in_json(written: Any) -> float | None:
    """Seconds, also in quotes; None for no time, which pandas writes as NaN."""
    if isinstance(written, str):
        return seconds_of(written)
    return None if written is None or math.isnan(written) else float(written)


def read_textgrid(path: Path) -> TimedFile:
    """Read the intervals of a TextGrid in any of Praat's text forms; points have no length."""
    data = path.read_bytes()
    content = data.decode("utf-16" if data[:2] in {BOM_UTF16_LE, BOM_UTF16_BE} else "utf-8-sig")
    try:
        return TimedFile(_intervals(match for match in _TOKEN.finditer(content) if match.lastgroup))
    except StopIteration:
        raise ValueError("it is no complete text of Praat's: Save as text file") from None


def _intervals(tokens: Iterator[re.Match[str]]) -> list[Tier]:
    form = _next(tokens, "text")
    by_time = form == "Praat chronological TextGrid text file"
    if not by_time and (form, _next(tokens, "text")) != ("ooTextFile", "TextGrid"):
        raise ValueError(f"it holds {form!r}")
    begin, _ = _number(tokens), _number(tokens)
    if begin:
        raise ValueError(f"it begins at {begin:g} s; in Praat: Modify > Shift to zero")
    if not by_time and _next(tokens, "flag") != "exists":
        return []
    tiers: list[Tier] = []
    for _ in range(int(_number(tokens))):
        kind, name = _next(tokens, "text"), _next(tokens, "text")
        _, _ = _number(tokens), _number(tokens)
        count = 0 if by_time else int(_number(tokens))
        tiers.append(Tier(name, [_entry(kind, tokens) for _ in range(count)], kind=kind))
    if by_time:
        for token in tokens:
            tier = tiers[int(_value(token, "number")) - 1]
            tier.spans.append(_entry(tier.kind, tokens))
    return [
        Tier(tier.name, [span for span in tier.spans if span.text])
        for tier in tiers
        if tier.kind == "IntervalTier"
    ]


def _entry(kind: str, tokens: Iterator[re.Match[str]]) -> Span:
    start = _number(tokens)
    end = _number(tokens) if kind == "IntervalTier" else start
    return _span_of_tier(start, end, _TRIGRAPH.sub(_letter, _next(tokens, "text")))


def _number(tokens: Iterator[re.Match[str]]) -> float:
    return float(_next(tokens, "number"))


def _next(tokens: Iterator[re.Match[str]], kind: str) -> str:
    return _value(next(tokens), kind)


def _value(token: re.Match[str], kind: str) -> str:
    """The value of a token, which has to be of a kind."""
    if token.lastgroup != kind:
        line = token.string.count("\n", 0, token.start()) + 1
        raise ValueError(f"line {line} has {token[0][:60]} in place of a {kind}")
    return token[kind].replace('""', '"')


def _letter(trigraph: re.Match[str]) -> str:
    """The letter that a trigraph stands for; itself if there is none."""
    base, accent = trigraph[1][0], trigraph[1][1]
    letter = _TRIGRAPHS.get(trigraph[1].lower(), normalize("NFC", base + _ACCENTS.get(accent, "")))
    if len(letter) > 1:
        return trigraph[0]
    return letter.upper() if base.isupper() else letter


def _span_of_tier(start: float | None, end: float | None, written: str) -> Span:
    """A span of a tier, in which a text may be a label of what is no speech."""
    text = " ".join(written.split())
    is_label = text.casefold() in _NO_SPEECH_LABELS
    return Span(start, end, text, fault=NO_SPEECH_LABEL if is_label else None)


def read_elan(path: Path) -> TimedFile:
    """Read an ELAN file; the times are those of its own clock, see `TimedFile`."""
    root = ElementTree.parse(path).getroot()  # noqa: S314 - the user's own file
    media = {}
    for medium in root.iter("MEDIA_DESCRIPTOR"):
        location = medium.get("RELATIVE_MEDIA_URL") or medium.get("MEDIA_URL") or ""
        name = unquote(re.split(r"[/\\]", location)[-1])
        media[name] = int(medium.get("TIME_ORIGIN") or 0) / 1000
    slots: dict[str, float | None] = {}
    for slot in root.iter("TIME_SLOT"):
        value = slot.get("TIME_VALUE")
        slots[slot.get("TIME_SLOT_ID", "")] = int(value) / 1000 if value else None
    annotations = {own.get("ANNOTATION_ID", ""): own for own in root.iterfind(".//ANNOTATION/*")}

    def times(own: ElementTree.Element | None) -> tuple[float | None, float | None]:
        """Those of an annotation, or of that which it refers to, if it is there."""
        if own is None:
            return None, None
        if own.tag == "REF_ANNOTATION":
            return times(annotations.get(own.get("ANNOTATION_REF", "")))
        return slots.get(own.get("TIME_SLOT_REF1", "")), slots.get(own.get("TIME_SLOT_REF2", ""))

    tiers = []
    for tier in root.iter("TIER"):
        spans = []
        for own in tier.iterfind("ANNOTATION/*"):
            span = _span_of_tier(*times(own), own.findtext("ANNOTATION_VALUE", ""))
            spans.append(span if span.text else span._replace(fault=NO_TEXT))
        speaker = tier.get("PARTICIPANT", "").strip() or None
        kind = tier.get("LINGUISTIC_TYPE_REF", "")
        tiers.append(Tier(tier.get("TIER_ID", ""), spans, speaker, kind))
    return TimedFile(tiers, media)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig")


READERS: Final[Mapping[str, Callable[[Path], TimedFile]]] = {
    ".textgrid": read_textgrid,
    ".eaf": read_elan,
    ".srt": read_subtitles,
    ".vtt": read_subtitles,
    ".json": read_json,
}
"""By ending, in lower case."""
