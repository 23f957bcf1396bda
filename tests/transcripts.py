import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from danish_asr.decoding.transcript import Segment, Transcript, Word
from tests.corpora import record, srt

SAID = [(0.0, 1.5, 'ja, "tak" & hej'), (2.0, 3.25, "på Ærø"), (4.0, 5.0, "nej")]

Tiers = dict[str, list[tuple[float, float, str]]]


def beside(folder: Path, suffix: str, content: str | bytes, stem: str = "anna") -> Path:
    """A folder with a recording of 6 seconds and a text beside it."""
    record(folder, f"{stem}.wav")
    data = content if isinstance(content, bytes) else content.encode()
    (folder / f"{stem}{suffix}").write_bytes(data)
    return folder


def times(rows: Sequence[dict[str, Any]]) -> list[tuple[float, float, str]]:
    return [(row["start"], row["seconds"], row["text"]) for row in rows]


def transcript() -> Transcript:
    segments = [Segment(start, end, [Word(text, start, end)]) for start, end, text in SAID]
    return Transcript(6.0, segments, "interviews/anna.wav")


def textgrid(tiers: Tiers) -> dict[str, str]:
    """Tiers in Praat's text forms; a tier whose name ends in "!" has points."""
    head = 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n'
    short = [f"0\n6\n<exists>\n{len(tiers)}"]
    long = [f"xmin = 0\nxmax = 6\ntiers? <exists>\nsize = {len(tiers)}\nitem []:"]
    by_time = ['"Praat chronological TextGrid text file"\n0 6   ! Time domain.']
    by_time.append(f"{len(tiers)}   ! Number of tiers.")
    entries = []
    for number, (name, spans) in enumerate(tiers.items(), 1):
        kind = "TextTier" if name.endswith("!") else "IntervalTier"
        short.append(f'"{kind}"\n"{name}"\n0\n6\n{len(spans)}')
        long.append(f'item [{number}]:\nclass = "{kind}"\nname = "{name}"\nxmin = 0\nxmax = 6')
        long.append(f"intervals: size = {len(spans)}")
        by_time.append(f'"{kind}" "{name}" 0 6')
        for place, (start, end, text) in enumerate(spans, 1):
            own = [start] if kind == "TextTier" else [start, end]
            short += [*map(str, own), f'"{text}"']
            long.append(f"intervals [{place}]:")
            long += [*(f"xmin = {time}" for time in own), f'text = "{text}"']
            entries.append((start, f'{number} {" ".join(map(str, own))}\n"{text}"'))
    by_time += [entry for _, entry in sorted(entries)]
    return {
        "short": head + "\n".join(short),
        "long": head + "\n".join(long),
        "chronological": "\n".join(by_time),
    }


TIERS: Tiers = {
    "ord": [(0.0, 1.0, "ja"), (1.0, 2.0, ""), (2.0, 3.0, "tak"), (3.0, 6.0, "")],
    "ORT@Bo": [(0.0, 3.0, "ja tak"), (3.0, 6.0, "")],
    "ORT@Anna": [(0.0, 4.0, ""), (4.0, 6.0, "sød")],
    "mark!": [(1.0, 1.0, "A"), (2.5, 2.5, "B")],
}

GRID = textgrid(TIERS)["short"]

ELAN = """<ANNOTATION_DOCUMENT><HEADER>
<MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/x/Anna.wav" {origin}/>{media}</HEADER><TIME_ORDER>
<TIME_SLOT TIME_SLOT_ID="t1" TIME_VALUE="500"/><TIME_SLOT TIME_SLOT_ID="t2" TIME_VALUE="1000"/>
<TIME_SLOT TIME_SLOT_ID="t3" TIME_VALUE="1500"/><TIME_SLOT TIME_SLOT_ID="t4" TIME_VALUE="2000"/>
<TIME_SLOT TIME_SLOT_ID="t5" TIME_VALUE="3000"/><TIME_SLOT TIME_SLOT_ID="t6"/></TIME_ORDER>
<TIER LINGUISTIC_TYPE_REF="r" TIER_ID="pos">
<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="p1" ANNOTATION_REF="w1">
<ANNOTATION_VALUE>intj</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="p2" ANNOTATION_REF="{reference}">
<ANNOTATION_VALUE>verb</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION></TIER>
<TIER LINGUISTIC_TYPE_REF="w" TIER_ID="ord">
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="w1" TIME_SLOT_REF1="t1" TIME_SLOT_REF2="t2">
<ANNOTATION_VALUE>goddag</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="w2" TIME_SLOT_REF1="t2" TIME_SLOT_REF2="t3">
<ANNOTATION_VALUE>hej</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
<TIER LINGUISTIC_TYPE_REF="t" TIER_ID="A" PARTICIPANT="Anna">
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="t1" TIME_SLOT_REF2="t3">
<ANNOTATION_VALUE>goddag &amp; hej</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
<TIER LINGUISTIC_TYPE_REF="t" TIER_ID="B" PARTICIPANT="Bo">
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="b1" TIME_SLOT_REF1="t4" TIME_SLOT_REF2="t5">
<ANNOTATION_VALUE>farvel</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="b2" TIME_SLOT_REF1="t5" TIME_SLOT_REF2="t6">
<ANNOTATION_VALUE>uden slut</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
</ANNOTATION_DOCUMENT>"""


def elan(origin: str = "", media: str = "", reference: str = "w2") -> str:
    return ELAN.format(origin=origin, media=media, reference=reference)


def elan_of(*texts: str) -> str:
    """An ELAN file in which all annotations but those with these texts have none."""
    other = re.compile(rf"(<ANNOTATION_VALUE>)(?!(?:{'|'.join(texts)})<)[^<]*")
    return other.sub(r"\1", elan())


def subtitles(form: str, *cues: tuple[float, float, str]) -> str:
    return srt(*cues) if form == "srt" else "WEBVTT\n\n" + srt(*cues).replace(",", ".")
