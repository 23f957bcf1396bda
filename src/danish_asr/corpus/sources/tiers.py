"""Timed text in tiers: Praat's TextGrid and ELAN, each as tiers of spans.

Both are parsed here, because a tier that is empty or whose references break must not stop the
others, and a file may have a clock for each of its recordings.
"""

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree  # noqa: ICN001 - the name that its documentation has

from danish_asr.base.errors import SourceError


class Span(NamedTuple):
    """A text, and when it is said, in seconds; None where the file gives no time."""

    start: float | None
    end: float | None
    text: str
    speaker: str | None = None
    channel: int | None = None  # from 1


class Medium(NamedTuple):
    """A recording that a file names, and how much later its clock is, in seconds."""

    name: str
    offset: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Spans of a name; a format without tiers has one."""

    name: str
    spans: tuple[Span, ...]
    empty: int = 0  # intervals without text, which are no spans
    speaker: str | None = None
    kind: str = ""  # its tier type in ELAN
    is_points: bool = False  # each text is taken to last until the next point
    fault: str = ""  # why it cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedFile:
    """What a file holds."""

    tiers: tuple[Tier, ...]
    media: tuple[Medium, ...] = ()
    removed: Counter[str] = field(default_factory=Counter)  # signs of subtitling


_TRIGRAPHS: Final = {r"\ae": "æ", r"\Ae": "Æ", r"\o/": "ø", r"\O/": "Ø", r"\ao": "å", r"\Ao": "Å"}
"""How Praat writes letters in old TextGrids of ASCII."""

_TOKEN: Final = re.compile(
    r'"((?:[^"]|"")*)"|<(\w+)>|(?<!\S)(-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?!\S)|!.*'
)
"""What Praat reads of a text file: texts in quotes, flags, and numbers that stand alone."""

_CHRONOLOGICAL: Final = "Praat chronological TextGrid text file"


def read_textgrid(path: Path) -> TimedFile:
    """Read a TextGrid in any of Praat's text forms; SourceError if it begins after 0.

    Raises ValueError for a file that was cut, or is none.
    """
    data = path.read_bytes()
    if data.startswith(b"ooBinaryFile"):
        raise ValueError("it is binary; in Praat: Save as text file")
    content = data.decode("utf-16" if data[:2] in {BOM_UTF16_LE, BOM_UTF16_BE} else "utf-8-sig")
    return _grid(path, _tokens(content))


def _grid(path: Path, tokens: Iterator[str | float]) -> TimedFile:
    form = _take(tokens)
    chronological = form == _CHRONOLOGICAL
    if form == "ooTextFile":
        form = _take(tokens)
    if form not in {"TextGrid", _CHRONOLOGICAL}:
        raise ValueError(f"it holds {form!r}")
    begin, _ = _number(tokens), _number(tokens)
    if begin:
        raise SourceError(
            f"{path}: begins at {begin:g} s, so its times may not be those of the audio; in Praat: "
            "Modify > Shift to zero"
        )
    if not chronological and _take(tokens) != "exists":
        return TimedFile(tiers=())
    count = int(_number(tokens))
    if not chronological:
        return TimedFile(tiers=tuple(_tier(tokens) for _ in range(count)))
    heads = [(_take(tokens), _take(tokens), _number(tokens), _number(tokens)) for _ in range(count)]
    entries: list[list[tuple[float, float, str]]] = [[] for _ in heads]
    for number in tokens:
        place = int(float(number)) - 1
        start = _number(tokens)
        end = start if heads[place][0] == "TextTier" else _number(tokens)
        entries[place].append((start, end, str(_take(tokens))))
    pairs = zip(heads, entries, strict=True)
    return TimedFile(tiers=tuple(_made(*head, own) for head, own in pairs))


def _tier(tokens: Iterator[str | float]) -> Tier:
    kind, name, start, end = _take(tokens), _take(tokens), _number(tokens), _number(tokens)
    entries = []
    for _ in range(int(_number(tokens))):
        begin = _number(tokens)
        until = begin if kind == "TextTier" else _number(tokens)
        entries.append((begin, until, str(_take(tokens))))
    return _made(kind, name, start, end, entries)


def _made(
    kind: object, name: object, _: float, end: float, entries: list[tuple[float, float, str]]
) -> Tier:
    is_points = kind == "TextTier"
    if is_points:
        following = [start for start, _, _ in entries[1:]] + [end]
        entries = [
            (start, until, text)
            for (start, _, text), until in zip(entries, following, strict=False)
        ]
    spans = [Span(start, until, _untangled(text)) for start, until, text in entries]
    spoken = tuple(span for span in spans if span.text)
    return Tier(name=str(name), spans=spoken, empty=len(spans) - len(spoken), is_points=is_points)


def _tokens(content: str) -> Iterator[str | float]:
    for match in _TOKEN.finditer(content):
        text, flag, number = match.groups()
        if text is not None:
            yield text.replace('""', '"')
        elif flag or number:
            yield flag or float(number)


def _take(tokens: Iterator[str | float]) -> str | float:
    token = next(tokens, None)
    if token is None:
        raise ValueError("it ends too early; it was cut")
    return token


def _number(tokens: Iterator[str | float]) -> float:
    token = _take(tokens)
    if isinstance(token, str):
        raise ValueError(f"expected a number, found {token[:40]!r}")  # noqa: TRY004
    return token


def _untangled(label: str) -> str:
    for written, letter in _TRIGRAPHS.items():
        label = label.replace(written, letter)
    return " ".join(label.split())


def read_elan(path: Path) -> TimedFile:
    """Read an ELAN file; the times are those of its own clock, see `Medium`."""
    root = ElementTree.parse(path).getroot()  # noqa: S314 - the user's own file
    media = tuple(
        Medium(
            re.split(r"[/\\]", item.get("RELATIVE_MEDIA_URL") or item.get("MEDIA_URL") or "")[-1],
            int(item.get("TIME_ORIGIN") or 0) / 1000,
        )
        for item in root.iter("MEDIA_DESCRIPTOR")
    )
    slots = {
        slot.get("TIME_SLOT_ID"): int(value) / 1000 if (value := slot.get("TIME_VALUE")) else None
        for slot in root.iter("TIME_SLOT")
    }
    tiers = [*root.iter("TIER")]
    times: dict[str, tuple[float | None, float | None]] = {}
    faults: dict[str, str] = {}
    waiting = [(tier, [*tier.iter("REF_ANNOTATION")]) for tier in tiers]
    for tier in tiers:
        try:
            times |= _aligned([*tier.iter("ALIGNABLE_ANNOTATION")], slots)
        except KeyError as error:
            faults[tier.get("TIER_ID", "")] = f"it has no time slot {error}"
    for _ in tiers:  # a tier may refer to one that is below it
        for _, references in waiting:
            times |= _referred(references, times)
    return TimedFile(tiers=tuple(_elan_tier(tier, times, faults) for tier in tiers), media=media)


def _aligned(
    annotations: list[ElementTree.Element], slots: Mapping[str | None, float | None]
) -> dict[str, tuple[float | None, float | None]]:
    """The times of annotations; those of a subdivision without times are spread evenly."""
    begins = [annotation.get("TIME_SLOT_REF1") for annotation in annotations]
    ends = [annotation.get("TIME_SLOT_REF2") for annotation in annotations]
    known = {slot: slots[slot] for slot in (*begins, *ends)}
    for place, begin in enumerate(begins):
        if known[begin] is None:
            continue
        last = place
        while known[ends[last]] is None and begins[last + 1 : last + 2] == [ends[last]]:
            last += 1
        first, until = known[begin], known[ends[last]]
        if first is not None and until is not None:
            step = (until - first) / (last - place + 1)
            known |= {ends[n]: first + step * (n - place + 1) for n in range(place, last)}
    names = [annotation.get("ANNOTATION_ID", "") for annotation in annotations]
    triples = zip(names, begins, ends, strict=True)
    return {name: (known[begin], known[end]) for name, begin, end in triples}


def _referred(
    annotations: list[ElementTree.Element],
    times: Mapping[str, tuple[float | None, float | None]],
) -> dict[str, tuple[float | None, float | None]]:
    """The times of annotations that refer to others: theirs, divided among those that share one."""
    parents: dict[str, list[str]] = {}
    for annotation in annotations:
        parent = annotation.get("ANNOTATION_REF", "")
        parents.setdefault(parent, []).append(annotation.get("ANNOTATION_ID", ""))
    found: dict[str, tuple[float | None, float | None]] = {}
    for parent, children in parents.items():
        if parent not in times:
            continue
        start, end = times[parent]
        for place, child in enumerate(children):
            if start is None or end is None:
                found[child] = start, end
            else:
                step = (end - start) / len(children)
                found[child] = start + place * step, start + (place + 1) * step
    return found


def _elan_tier(
    tier: ElementTree.Element,
    times: Mapping[str, tuple[float | None, float | None]],
    faults: Mapping[str, str],
) -> Tier:
    name = tier.get("TIER_ID", "")
    spans, empty, fault = [], 0, faults.get(name, "")
    for annotation in (*tier.iter("ALIGNABLE_ANNOTATION"), *tier.iter("REF_ANNOTATION")):
        own, text = annotation.get("ANNOTATION_ID", ""), annotation.findtext("ANNOTATION_VALUE")
        if own not in times:
            fault = fault or f"{own} refers to no annotation"
        elif words := " ".join((text or "").split()):
            spans.append(Span(*times[own], words))
        else:
            empty += 1
    return Tier(
        name=name,
        spans=() if fault else tuple(spans),
        empty=empty,
        speaker=(tier.get("PARTICIPANT") or "").strip() or None,
        kind=tier.get("LINGUISTIC_TYPE_REF") or "",
        fault=fault,
    )


READERS: Final[Mapping[str, Callable[[Path], TimedFile]]] = {
    ".textgrid": read_textgrid,
    ".eaf": read_elan,
}
"""By ending, in lower case."""
