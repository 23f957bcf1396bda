"""Long recordings with timed text: TextGrid, ELAN, SRT, WebVTT and JSON."""

import io
import json
import re
import unicodedata
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile

from danish_asr.base.errors import SourceError
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import open_source, resolve_source
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.formats import FORMATS, SUFFIXES
from tests.builders import encode
from tests.corpora import TRAIN, options, read_rows, record, rows_of, srt

Form = Literal["NFC", "NFD"]
TIMED = {"textgrid": ".TextGrid", "srt": ".srt", "vtt": ".vtt", "json": ".json"}
SAID = [(0.0, 1.5, 'ja, "tak" & hej'), (2.0, 3.25, "på Ærø"), (4.0, 5.0, "nej")]


def transcript(*, channels: bool = False) -> Transcript:
    segments = [
        Segment(start, end, [Word(text, start, end)], number % 2 if channels else None)
        for number, (start, end, text) in enumerate(SAID)
    ]
    return Transcript(6.0, segments, "interviews/anna.wav")


@pytest.mark.parametrize("kind", TIMED)
def test_what_transcribe_writes_is_read_with_its_times(tmp_path: Path, kind: str) -> None:
    folder = record(tmp_path / "in")
    (folder / f"anna{SUFFIXES[kind]}").write_text(FORMATS[kind](transcript()), encoding="utf-8")
    assert resolve_source(str(folder)).kind == kind
    rows = rows_of(folder)
    found = [(row["start"], row["seconds"], row["text"], row["channel"]) for row in rows]
    assert found == [(start, end - start, text, None) for start, end, text in SAID]
    assert {row["audio"] for row in rows} == {folder / "anna.wav"}
    inventory = convert(folder, tmp_path / "out", TRAIN)
    assert inventory.rows == 3
    assert inventory.hours * 3600 == pytest.approx(3.75)
    one_file = rows_of(folder / f"anna{SUFFIXES[kind]}")
    assert [row["text"] for row in one_file] == [text for _, _, text in SAID]


@pytest.mark.parametrize("kind", TIMED)
@pytest.mark.parametrize("channels", [1, 2])
def test_speakers_on_channels_become_rows_of_their_channel(
    tmp_path: Path, kind: str, channels: int
) -> None:
    folder = record(tmp_path / "in", channels=channels)
    text = FORMATS[kind](transcript(channels=True))
    (folder / f"anna{SUFFIXES[kind]}").write_text(text, encoding="utf-8")
    found = [
        (row["start"], row["text"], row["speaker_id"], row["channel"]) for row in rows_of(folder)
    ]
    assert found == [
        (start, text, f"anna Speaker {1 + number % 2}", 1 + number % 2 if channels == 2 else None)
        for number, (start, _, text) in enumerate(SAID)
    ]


@pytest.mark.parametrize("kind", TIMED)
@pytest.mark.parametrize("channels", [1, 2])
def test_speakers_of_one_microphone_are_read_back_without_a_channel(
    tmp_path: Path, kind: str, channels: int
) -> None:
    folder = record(tmp_path / "in", channels=channels)
    names = "SPEAKER_01", "Søren", "SPEAKER_01"
    own = [replace(s, speaker=n) for s, n in zip(transcript().segments, names, strict=True)]
    text = FORMATS[kind](replace(transcript(), segments=own))
    (folder / f"anna{SUFFIXES[kind]}").write_text(text, encoding="utf-8")
    found = [
        (row["start"], row["text"], row["speaker_id"], row["channel"]) for row in rows_of(folder)
    ]
    people = "anna SPEAKER_01", "Søren", "anna SPEAKER_01"
    assert found == [
        (start, text, person, None) for (start, _, text), person in zip(SAID, people, strict=True)
    ]


def test_the_samples_of_a_row_are_those_of_its_channel(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    wave = np.sin(np.arange(96_000) / 5)
    stereo = np.stack([wave / 4, wave / 2], axis=1)
    (folder / "anna.wav").write_bytes(encode(stereo, 16_000))
    (folder / "anna.srt").write_text(FORMATS["srt"](transcript(channels=True)), encoding="utf-8")
    convert(folder, tmp_path / "out", TRAIN)
    rows = pq.read_table(tmp_path / "out" / "version=0").to_pylist()
    peaks = [soundfile.read(io.BytesIO(row["audio_bytes"]))[0].max() for row in rows]
    assert peaks == [pytest.approx(value, abs=1e-2) for value in (0.25, 0.5, 0.25)]


WHISPER = {
    "text": " ja nej",
    "language": "da",
    "segments": [
        {"id": 0, "seek": 0, "start": 0.0, "end": 1.5, "text": " ja", "tokens": [1]},
        {"id": 1, "seek": 0, "start": 2.0, "end": 3.0, "text": " nej", "tokens": [1]},
    ],
}
WHISPER_X = {
    "segments": [
        {"start": 0.0, "end": 1.5, "text": "ja", "speaker": "SPEAKER_00"},
        {"start": 2.0, "end": 3.0, "text": "nej", "speaker": "SPEAKER_01"},
    ]
}
WHISPER_CPP = {
    "transcription": [
        {"offsets": {"from": 0, "to": 1500}, "text": " ja"},
        {"offsets": {"from": 2000, "to": 3000}, "text": " nej"},
    ]
}
PIPELINE = {
    "text": "ja nej",
    "chunks": [
        {"timestamp": [0.0, 1.5], "text": "ja"},
        {"timestamp": [2.0, 3.0], "text": "nej"},
    ],
}


@pytest.mark.parametrize(
    ("tree", "speakers"),
    [
        (WHISPER, [None, None]),
        (WHISPER_X, ["anna SPEAKER_00", "anna SPEAKER_01"]),
        (WHISPER_CPP, [None, None]),
        (PIPELINE, [None, None]),
    ],
    ids=["whisper", "whisperx", "whisper.cpp", "pipeline"],
)
def test_json_of_other_transcribers_is_read(
    tmp_path: Path, tree: dict[str, Any], speakers: list[str | None]
) -> None:
    folder = record(tmp_path)
    (folder / "anna.json").write_text(json.dumps(tree))
    (folder / "settings.json").write_text('{"model": "large"}')
    found = rows_of(folder)
    assert [(row["start"], row["seconds"], row["text"]) for row in found] == [
        (0.0, 1.5, "ja"),
        (2.0, 1.0, "nej"),
    ]
    assert [row["speaker_id"] for row in found] == speakers


def test_a_segment_of_whisper_without_text_has_an_empty_one(tmp_path: Path) -> None:
    folder = record(tmp_path)
    segments = [
        {"start": 0.0, "end": 1.0, "text": None},
        {"start": 2.0, "end": 3.0, "text": "ja"},
    ]
    (folder / "anna.json").write_text(json.dumps({"segments": segments}))
    assert [row["text"] for row in rows_of(folder)] == ["", "ja"]


def textgrid(tiers: dict[str, list[tuple[float, float, str]]], *, end: float = 6.0) -> str:
    """Praat's short format; a tier whose name ends in "!" has points."""
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "0", str(end)]
    lines += ["<exists>", str(len(tiers))]
    for name, entries in tiers.items():
        points = name.endswith("!")
        lines += ['"TextTier"' if points else '"IntervalTier"', f'"{name}"', "0", str(end)]
        lines.append(str(len(entries)))
        for start, stop, text in entries:
            lines += [str(start), *([] if points else [str(stop)]), f'"{text}"']
    return "\n".join(lines) + "\n"


TIERS = {
    "ord": [(0.0, 1.0, "ja"), (1.0, 2.0, ""), (2.0, 3.0, "tak"), (3.0, 6.0, "")],
    "ORT@Bo": [(0.0, 3.0, "ja tak"), (3.0, 6.0, "")],
    "ORT@Anna": [(0.0, 4.0, ""), (4.0, 6.0, "s\\o/d")],
    "mark!": [(1.0, 1.0, "A"), (2.5, 2.5, "B")],
}


def test_several_tiers_ask_for_a_choice_and_are_listed(tmp_path: Path) -> None:
    folder = record(tmp_path)
    (folder / "anna.TextGrid").write_text(textgrid(TIERS))
    with pytest.raises(SourceError) as error:
        rows_of(folder)
    assert "'ord' with 2, such as 'ja'" in str(error.value)
    assert "--tier" in str(error.value)


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        (("ord",), [(0.0, 1.0, "ja", None), (2.0, 1.0, "tak", None)]),
        (("ORT@*",), [(0.0, 3.0, "ja tak", "Bo"), (4.0, 2.0, "sød", "Anna")]),
        (("ORT@Bo", "ORT@Anna"), [(0.0, 3.0, "ja tak", "ORT@Bo"), (4.0, 2.0, "sød", "ORT@Anna")]),
        (("mark!",), [(1.0, 1.5, "A", None), (2.5, 3.5, "B", None)]),
    ],
)
def test_a_tier_is_chosen_and_several_are_speakers(
    tmp_path: Path, tiers: tuple[str, ...], expected: list[Any]
) -> None:
    folder = record(tmp_path)
    (folder / "anna.TextGrid").write_text(textgrid(TIERS), encoding="utf-16")
    found = [
        (row["start"], row["seconds"], row["text"], row["speaker_id"])
        for row in rows_of(folder, tiers=tiers)
    ]
    assert found == expected


def test_a_tier_that_no_file_has_is_an_error_and_one_that_some_lack_is_none(
    tmp_path: Path,
) -> None:
    folder = record(record(tmp_path), "bo.wav")
    (folder / "anna.TextGrid").write_text(textgrid({"ord": TIERS["ord"]}))
    (folder / "bo.TextGrid").write_text(textgrid({"Ord": TIERS["ord"]}))
    with pytest.raises(SourceError, match=r"--tier tekst: .* Ord \(1 files\)"):
        open_source(str(folder), options(split="train", tiers=("tekst",)))
    source = open_source(str(folder), options(split="train", tiers=("ord",)))
    assert {row["file"] for row in read_rows(source)} == {f"{folder.name}/anna.TextGrid"}
    assert source.counts == {"intervals without text": 2}


def forms(tiers: dict[str, list[tuple[float, float, str]]]) -> dict[str, str]:
    """The tiers in Praat's short, long and chronological text form."""
    long = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", "xmax = 6"]
    long += ["tiers? <exists>", f"size = {len(tiers)}", "item []:"]
    heads, entries = [], []
    for number, (name, spans) in enumerate(tiers.items(), 1):
        points = name.endswith("!")
        kind = "TextTier" if points else "IntervalTier"
        long += [f"    item [{number}]:", f'        class = "{kind}"', f'        name = "{name}"']
        long += ["        xmin = 0", "        xmax = 6"]
        long.append(f"        {'points' if points else 'intervals'}: size = {len(spans)}")
        heads.append(f'"{kind}" "{name}" 0 6')
        for place, (start, end, text) in enumerate(spans, 1):
            quoted = text.replace('"', '""')
            long.append(f"        {'points' if points else 'intervals'} [{place}]:")
            long.append(f"            {'number' if points else 'xmin'} = {start}")
            long += [] if points else [f"            xmax = {end}"]
            long.append(f'            {"mark" if points else "text"} = "{quoted}"')
            times = f"{start}" if points else f"{start} {end}"
            entries.append((start, f'{number} {times}\n"{quoted}"'))
    chronological = ['"Praat chronological TextGrid text file"', "0 6   ! Time domain."]
    chronological += [f"{len(tiers)}   ! Number of tiers.", *heads]
    chronological += [entry for _, entry in sorted(entries, key=lambda entry: entry[0])]
    return {
        "short": textgrid(tiers),
        "long": "\n".join(long) + "\n",
        "chronological": "\n".join(chronological) + "\n",
    }


@pytest.mark.parametrize("form", ["short", "long", "chronological"])
@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("name", ["ord", "mark!"])
def test_a_tier_of_any_class_and_size_is_read_in_any_form(
    tmp_path: Path, form: str, count: int, name: str
) -> None:
    folder = record(tmp_path)
    spans = [(0.5, 1.5, "ja 1"), (2.0, 3.0, "nej")][:count]
    tiers = {name: spans, "andre": [(4.0, 5.0, "tak")]}
    (folder / "anna.TextGrid").write_text(forms(tiers)[form])
    rows = rows_of(folder, tiers=(name, "andre"))
    assert [row["text"] for row in rows] == [*(text for _, _, text in spans), "tak"]
    assert [row["start"] for row in rows] == [*(start for start, _, _ in spans), 4.0]


ELAN = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="" DATE="2026-01-01T00:00:00+01:00" FORMAT="3.0" VERSION="3.0"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv3.0.xsd">
<HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">
<MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/x/Anna.wav" MIME_TYPE="audio/x-wav" {origin}/></HEADER>
<TIME_ORDER><TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="500"/>
<TIME_SLOT TIME_SLOT_ID="ts2" TIME_VALUE="1500"/><TIME_SLOT TIME_SLOT_ID="ts3" TIME_VALUE="2000"/>
<TIME_SLOT TIME_SLOT_ID="ts4" TIME_VALUE="3000"/><TIME_SLOT TIME_SLOT_ID="ts5"/></TIME_ORDER>
<TIER LINGUISTIC_TYPE_REF="t" TIER_ID="A" PARTICIPANT="Anna">
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2">
<ANNOTATION_VALUE>goddag &amp; hej</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
<TIER LINGUISTIC_TYPE_REF="t" TIER_ID="B" PARTICIPANT="Bo">
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a2" TIME_SLOT_REF1="ts3" TIME_SLOT_REF2="ts4">
<ANNOTATION_VALUE>farvel</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a4" TIME_SLOT_REF1="ts4" TIME_SLOT_REF2="ts5">
<ANNOTATION_VALUE>uden slut</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
<TIER LINGUISTIC_TYPE_REF="r" TIER_ID="oversat" PARENT_REF="A">
<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a3" ANNOTATION_REF="a1">
<ANNOTATION_VALUE>hello</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION></TIER>
<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="t" TIME_ALIGNABLE="true"/>
<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="r" TIME_ALIGNABLE="false"/>
</ANNOTATION_DOCUMENT>
"""


@pytest.mark.parametrize(("origin", "shift"), [("", 0.0), ('TIME_ORIGIN="250"', 0.25)])
def test_elans_participants_are_speakers_of_the_type_of_tiers_that_is_chosen(
    tmp_path: Path, origin: str, shift: float
) -> None:
    folder = record(tmp_path, "anna.wav")
    (folder / "session1.eaf").write_text(ELAN.format(origin=origin))
    with pytest.raises(SourceError, match=r"'A' of type t with 1.*'oversat' of type r with 1"):
        rows_of(folder)
    rows = rows_of(folder, tiers=("t",))
    assert [(row["start"], row["text"], row["speaker_id"], row["refused"]) for row in rows] == [
        (0.5 + shift, "goddag & hej", "Anna", None),
        (2.0 + shift, "farvel", "Bo", None),
        (3.0 + shift, "uden slut", "Bo", "no time"),
    ]
    assert {row["audio"] for row in rows} == {folder / "anna.wav"}


def test_a_described_tier_of_elan_can_be_chosen_and_an_empty_one_leaves_no_choice(
    tmp_path: Path,
) -> None:
    folder = record(tmp_path, "anna.wav")
    (folder / "anna.eaf").write_text(ELAN.format(origin="").replace("hello", ""))
    assert {row["speaker_id"] for row in rows_of(folder)} == {
        "Anna",
        "Bo",
    }
    (folder / "anna.eaf").write_text(ELAN.format(origin=""))
    assert [row["text"] for row in rows_of(folder, tiers=("oversat",))] == ["hello"]


TWO_MEDIA = """<MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/x/Anna.wav" TIME_ORIGIN="2000"/>
<MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/x/rum.wav" {origin}/>"""


def two_media(origin: str) -> str:
    return re.sub("<MEDIA_DESCRIPTOR.*/>", TWO_MEDIA, ELAN).format(origin=origin)


@pytest.mark.parametrize(("recording", "start"), [("anna.wav", 2.5), ("rum.wav", 0.5)])
def test_each_medium_of_elan_has_a_clock_of_its_own(
    tmp_path: Path, recording: str, start: float
) -> None:
    folder = record(tmp_path, recording)
    (folder / "session.eaf").write_text(two_media(""))
    assert rows_of(folder, tiers=("t",))[0]["start"] == start


@pytest.mark.parametrize(("origin", "refused"), [("", True), ('TIME_ORIGIN="2000"', False)])
def test_a_recording_that_is_no_medium_of_elan_needs_clocks_that_agree(
    tmp_path: Path, origin: str, *, refused: bool
) -> None:
    folder = record(tmp_path, "session.wav")
    (folder / "session.eaf").write_text(two_media(origin))
    if refused:
        with pytest.raises(SourceError, match=r"session\.wav is none of them: Anna\.wav"):
            rows_of(folder, tiers=("t",))
    else:
        assert rows_of(folder, tiers=("t",))[0]["start"] == 2.5


WORDS = """<TIER LINGUISTIC_TYPE_REF="w" TIER_ID="ord" PARENT_REF="A">
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="w1" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts5">
<ANNOTATION_VALUE>goddag</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="w2" TIME_SLOT_REF1="ts5" TIME_SLOT_REF2="ts2">
<ANNOTATION_VALUE>hej</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
<TIER LINGUISTIC_TYPE_REF="r" TIER_ID="pos" PARENT_REF="ord">
<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="p1" ANNOTATION_REF="w1">
<ANNOTATION_VALUE>intj</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
<ANNOTATION><REF_ANNOTATION ANNOTATION_ID="p2" ANNOTATION_REF="{reference}">
<ANNOTATION_VALUE>verb</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION></TIER>"""


@pytest.mark.parametrize(
    ("tier", "found"),
    [
        ("A", [(0.5, 1.0, "goddag & hej")]),
        ("ord", [(0.5, 0.5, "goddag"), (1.0, 0.5, "hej")]),
        ("pos", [(0.5, 0.5, "intj"), (1.0, 0.5, "verb")]),
    ],
)
def test_tiers_that_subdivide_and_describe_others_have_the_times_of_those(
    tmp_path: Path, tier: str, found: list[tuple[float, float, str]]
) -> None:
    folder = record(tmp_path)
    own = ELAN.format(origin="").replace("<TIER", WORDS.format(reference="w2") + "<TIER", 1)
    (folder / "anna.eaf").write_text(own)
    rows = rows_of(folder, tiers=(tier,))
    assert [(row["start"], row["seconds"], row["text"]) for row in rows] == found


def test_a_tier_of_elan_that_cannot_be_read_fails_alone(tmp_path: Path) -> None:
    folder = record(tmp_path)
    own = ELAN.format(origin="").replace("<TIER", WORDS.format(reference="a23") + "<TIER", 1)
    (folder / "anna.eaf").write_text(own)
    assert [row["text"] for row in rows_of(folder, tiers=("A",))] == ["goddag & hej"]
    with pytest.raises(SourceError, match="tier pos cannot be read: p2"):
        rows_of(folder, tiers=("pos",))


CUES = """1
00:00:00,000 --> 00:00:02,000
Anna: det var i
1987

2
00:00:02,500 --> 00:00:04,000
{label}<i>nej</i> {{\\an8}}tak

3
00:00:04,500 --> 00:00:05,500
Anna: i
1988
"""


@pytest.mark.parametrize(
    ("label", "speakers"),
    [("Bo: ", ["Anna", "Bo", "Anna"]), ("", [None, None, None])],
)
def test_labels_of_all_cues_are_speakers_and_numbers_stay_text(
    tmp_path: Path, label: str, speakers: list[str | None]
) -> None:
    folder = record(tmp_path)
    (folder / "anna.da.srt").write_text(CUES.format(label=label), encoding="utf-8-sig")
    rows = rows_of(folder)
    assert [row["speaker_id"] for row in rows] == speakers
    said = "det var i 1987" if label else "Anna: det var i 1987"
    assert [row["text"] for row in rows][:2] == [said, "nej tak"]
    assert str(rows[2]["text"]).endswith("i 1988")


VTT = """WEBVTT

NOTE made by hand

intro
00:00.000 --> 00:02.000 align:start
<v Anna>blå &amp; <b>grøn</b></v>

slut
00:03.000 --> 00:04.000
<v Bo>nej
"""


def test_notes_and_names_of_cues_are_no_text_of_webvtt(tmp_path: Path) -> None:
    folder = record(tmp_path)
    (folder / "anna.vtt").write_text(VTT)
    rows = rows_of(folder)
    assert [(row["text"], row["speaker_id"]) for row in rows] == [
        ("blå & grøn", "Anna"),
        ("nej", "Bo"),
    ]


def test_overlaps_and_times_behind_the_audio_are_in_the_ledger(tmp_path: Path) -> None:
    folder = record(tmp_path / "in")
    cues = [(0, 1, "et"), (0.9, 2, "to"), (2, 3, "tre"), (2.5, 4, "fire"), (5, 7, "fem")]
    (folder / "anna.srt").write_text(srt(*cues, (4, 3.5, "seks")))
    convert(folder, tmp_path / "out", options(split="train", max_drop=1.0))
    ledger = pq.read_table(tmp_path / "out" / "ledger.parquet").to_pylist()
    assert sorted((row["row"], row["reason"]) for row in ledger) == [
        (2, "overlaps another utterance"),
        (3, "overlaps another utterance"),
        (4, "end before its start"),
        (5, "past the end of its audio"),
    ]


@pytest.mark.parametrize(
    ("sounds", "reason"),
    [
        (["♪ la la ♪"], "no speech"),
        (["[latter]"] * 2, "in brackets"),
        (["(SUKKER)"] * 2, "in brackets"),
    ],
)
def test_music_and_a_bracket_that_recurs_are_no_speech_and_overlap_nothing(
    tmp_path: Path, sounds: list[str], reason: str
) -> None:
    folder = record(tmp_path)
    cues = [(number, number + 3, sound) for number, sound in enumerate(sounds)]
    (folder / "anna.srt").write_text(srt(*cues, (1.5, 2, "ja [latter] ja")), encoding="utf-8")
    rows = {row["text"]: row["refused"] for row in rows_of(folder)}
    assert rows == {sounds[0]: reason, "ja [latter] ja": None}


def test_overlapping_speech_in_brackets_is_speech(tmp_path: Path) -> None:
    """As linguists write it, in GAT and CA."""
    folder = record(tmp_path)
    spans = [(0.0, 1.0, "[ja det gør vi]"), (2.0, 3.0, "[nej]"), (3.0, 4.0, "hej")]
    (folder / "anna.TextGrid").write_text(textgrid({"ord": spans}))
    source = open_source(str(folder), TRAIN)
    assert [row["refused"] for row in read_rows(source)] == [None] * 3
    assert source.counts == {"texts with brackets": 2}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("- Kom nu!", "Kom nu!"),
        ("–Nej\n— Jo", "Nej Jo"),
        ("-5 grader", "-5 grader"),
        (r"hun\Ncykler\hnu", "hun cykler nu"),
        (r"{\an8}<i>ja</i>", "ja"),
        ("x < 5 og y > 3", "x < 5 og y > 3"),
        ("A &amp; B", "A & B"),
    ],
)
@pytest.mark.parametrize("suffix", ["srt", "vtt"])
def test_signs_of_subtitling_are_no_text(
    tmp_path: Path, suffix: str, written: str, read: str
) -> None:
    folder = record(tmp_path)
    content = srt((0, 1, written), (2, 3, "hej"))
    content = "WEBVTT\n\n" + content.replace(",000", ".000") if suffix == "vtt" else content
    (folder / f"anna.{suffix}").write_text(content)
    assert [row["text"] for row in rows_of(folder)] == [read, "hej"]


def test_what_the_cleaner_removed_is_counted(tmp_path: Path) -> None:
    folder = record(tmp_path)
    cues = [(0, 1, "- Kom!"), (1, 2, r"ja\Ntak"), (2, 3, "<i>nej</i>"), (3, 4, "(SUKKER) åh")]
    (folder / "anna.srt").write_text(srt(*cues))
    assert open_source(str(folder), TRAIN).counts == {
        "dashes before a text": 1,
        r"line breaks written as \N": 1,
        "formatting": 1,
        "texts with brackets": 1,
    }


def test_an_empty_cue_goes_to_the_ledger_alone(tmp_path: Path) -> None:
    folder = record(tmp_path / "in")
    cues = [(n, n + 0.9, "" if n == 1 else f"nummer {n}") for n in range(4)]
    (folder / "anna.srt").write_text(srt(*cues))
    convert(folder, tmp_path / "out", options(split="train", max_drop=0.3))
    ledger = pq.read_table(tmp_path / "out" / "ledger.parquet").to_pylist()
    assert [(row["row"], row["reason"]) for row in ledger] == [(1, "empty text")]


@pytest.mark.parametrize("form", ["no numbers", "CR", "CRLF", "text with a blank line"])
def test_subrip_of_any_program_is_read(tmp_path: Path, form: str) -> None:
    folder = record(tmp_path)
    content = srt((0, 1, "en to"), (2, 3, "tre"))
    changed = {
        "no numbers": re.sub(r"^\d+\n", "", content, flags=re.MULTILINE),
        "CR": content.replace("\n", "\r"),
        "CRLF": content.replace("\n", "\r\n"),
        "text with a blank line": content.replace("en to", "en\n\nto"),
    }[form]
    (folder / "anna.srt").write_bytes(changed.encode())
    assert [row["text"] for row in rows_of(folder)] == ["en to", "tre"]


@pytest.mark.parametrize("suffix", ["srt", "vtt"])
@pytest.mark.parametrize("count", [1, 3])
def test_names_before_all_of_several_cues_are_speakers(
    tmp_path: Path, suffix: str, count: int
) -> None:
    """As Zoom writes them; a single cue "Husk: køb mælk" names nobody."""
    folder = record(tmp_path)
    content = srt(*((n, n + 1, f"Anna Jensen: hej {n}") for n in range(count)))
    content = "WEBVTT\n\n" + content.replace(",000", ".000") if suffix == "vtt" else content
    (folder / f"anna.{suffix}").write_text(content)
    row = rows_of(folder)[0]
    assert (row["speaker_id"], row["text"]) == (
        ("Anna Jensen", "hej 0") if count > 1 else (None, "Anna Jensen: hej 0")
    )


@pytest.mark.parametrize(("there", "named"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_a_recording_in_another_unicode_form_is_found(
    tmp_path: Path, there: Form, named: Form
) -> None:
    audio, transcript = (unicodedata.normalize(form, "åse øre") for form in (there, named))
    folder = record(tmp_path, f"{audio}.wav")
    (folder / f"{transcript}.srt").write_text(srt((0, 1, "ja tak")))
    (row,) = rows_of(folder)
    assert row["audio"] == folder / f"{audio}.wav"


def test_files_without_speakers_are_divided_as_speakers_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for name in "abcd":
        record(folder, f"{name}.wav")
        (folder / f"{name}.srt").write_text(srt((0, 1, f"sætning {name} en"), (2, 3, f"{name} to")))
    divided = options(split_by_speaker="50/25/25")
    source = open_source(str(folder), divided)
    assert {row["speaker_id"] for row in read_rows(source)} == set("abcd")
    assert convert(folder, tmp_path / "out", divided).rows == 8


def test_a_recording_lies_in_another_folder_and_a_missing_one_goes_to_the_ledger(
    tmp_path: Path,
) -> None:
    record(tmp_path / "wav")
    (tmp_path / "srt").mkdir()
    for name, text in (("anna", "ja"), ("nobody", "nej")):
        (tmp_path / "srt" / f"{name}.srt").write_text(srt((0, 1, text)))
    found = {row["text"]: row["audio"] for row in rows_of(tmp_path)}
    assert found == {"ja": tmp_path / "wav" / "anna.wav", "nej": tmp_path / "srt" / "nobody.wav"}
    inventory = convert(tmp_path, tmp_path / "out", options(split="train", max_drop=0.5))
    assert inventory.dropped == [{"reason": "audio file missing", "dialect": None, "rows": 1}]


def test_a_recording_that_is_missing_stops_no_folder_of_others(tmp_path: Path) -> None:
    for name in ("a", "b"):
        folder = record(tmp_path / "in", f"{name}.wav", seconds=13)
        (folder / f"{name}.srt").write_text(srt(*((n, n + 1, f"{name} nr {n}") for n in range(12))))
    (folder / "b.wav").unlink()
    inventory = convert(folder, tmp_path / "out", options(split="train", max_drop=0.5))
    assert (inventory.rows, inventory.dropped_rows) == (12, 12)


def test_the_same_name_in_several_files_is_one_person_unless_it_is_asked_otherwise(
    tmp_path: Path,
) -> None:
    for name in ("x", "y"):
        record(tmp_path, f"{name}.wav")
        cues = (0, 1, "INT: ja"), (2, 3, f"{name}b: nej"), (4, 5, "INT: tak")
        (tmp_path / f"{name}.srt").write_text(srt(*cues))
    assert {row["speaker_id"] for row in rows_of(tmp_path)} == {"INT", "xb", "yb"}
    columns = {"speaker_id": "file_and_speaker"}
    names = {row["speaker_id"] for row in rows_of(tmp_path, columns=columns)}
    assert names == {"x INT", "y INT", "x xb", "y yb"}


def test_several_kinds_of_transcripts_ask_for_a_choice(tmp_path: Path) -> None:
    folder = record(tmp_path)
    for kind in ("srt", "textgrid"):
        text = FORMATS[kind](transcript())
        (folder / f"anna{SUFFIXES[kind]}").write_text(text, encoding="utf-8")
    (folder / "anna.txt").write_text("ja")
    with pytest.raises(SourceError, match=r"textgrid:.* or srt:.* or pairs:"):
        resolve_source(str(folder))
    assert len(rows_of(f"srt:{folder}")) == 3


@pytest.mark.parametrize(
    ("suffix", "content", "reason"),
    [
        (".TextGrid", textgrid({"ord": [(0, 1, "sæl")]}).encode("latin-1"), "UTF-8"),
        (
            ".TextGrid",
            textgrid({"ord": [(2, 3, "ja")]}).replace("\n0\n", "\n2\n").encode(),
            "begins at 2 s",
        ),
        (".TextGrid", b"no grid", "cannot be read"),
        (".TextGrid", textgrid(TIERS).encode()[:200], "it was cut"),
        (".TextGrid", textgrid({"ord": TIERS["ord"]}).encode()[:-10], "it was cut"),
        (".TextGrid", FORMATS["textgrid"](transcript()).encode()[:120], "it was cut"),
        (".TextGrid", b"ooBinaryFile\x08TextGrid", "Save as text file"),
        (".eaf", ELAN[:700].encode(), "cannot be read"),
        (".srt", srt((0, 1, "ja"), (2, 3, "to")).replace("02,000", "02").encode(), "line 6 has no"),
        (".vtt", VTT.replace("00:03.000", "0003.000").encode(), "line 10 has no"),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong(
    tmp_path: Path, suffix: str, content: bytes, reason: str
) -> None:
    folder = record(tmp_path)
    (folder / f"anna{suffix}").write_bytes(content)
    with pytest.raises(SourceError, match=rf"anna\{suffix}: .*({reason})"):
        rows_of(folder)


def test_intervals_that_overlap_by_a_rounding_error_are_read(tmp_path: Path) -> None:
    folder = record(tmp_path)
    entries = [(0.0, 0.6000000000000001, "et"), (0.6, 3.0, "to"), (3.0, 6.0, "")]
    (folder / "anna.TextGrid").write_text(textgrid({"ord": entries}))
    rows = rows_of(folder)
    assert [(row["text"], row["refused"]) for row in rows] == [("et", None), ("to", None)]


def test_two_files_of_one_recording_are_refused(tmp_path: Path) -> None:
    folder = record(tmp_path)
    for language in ("da", "en"):
        (folder / f"anna.{language}.srt").write_text(srt((0, 1, "ja")))
    with pytest.raises(SourceError, match=r"anna\.wav: .*anna\.da\.srt, anna\.en\.srt"):
        rows_of(folder)


@pytest.mark.parametrize("rolling", [True, False])
def test_captions_that_repeat_the_line_before_are_refused(tmp_path: Path, *, rolling: bool) -> None:
    folder = record(tmp_path)
    lines = [f"linje {number}" for number in range(6)]
    texts = [f"{a}\n{b}" for a, b in pairwise(lines)] if rolling else lines[:-2] * 2
    text = srt(*((n, n + 1, text) for n, text in enumerate(texts)))
    (folder / "anna.srt").write_text(text)
    if rolling:
        with pytest.raises(SourceError, match="4 of 5 cues begin with the line"):
            rows_of(folder)
    else:
        assert len(rows_of(folder)) == 8


def test_automatic_captions_that_roll_word_by_word_are_refused(tmp_path: Path) -> None:
    folder = record(tmp_path)
    cues = [" \nhun<00:00:00.400><c> cykler</c>", "hun cykler\n ", "hun cykler\nså<00:00:02.100>"]
    times = (f"00:0{n}.000 --> 00:0{n + 1}.000\n{text}\n" for n, text in enumerate(cues))
    (folder / "anna.vtt").write_text("WEBVTT\n\n" + "\n".join(times))
    with pytest.raises(SourceError, match="2 of 3 cues begin with the line"):
        rows_of(folder)


def test_a_tier_is_refused_where_there_are_none(tmp_path: Path) -> None:
    folder = record(tmp_path)
    (folder / "anna.srt").write_text(srt((0, 1, "ja")))
    with pytest.raises(SourceError, match="--tier"):
        rows_of(folder, tiers=("ord",))


@pytest.mark.parametrize(("column", "speakers"), [("folder", {"anna", "bo"}), ("file", {"0001"})])
def test_files_of_one_name_in_several_folders_are_no_speakers_until_that_is_said(
    tmp_path: Path, column: str, speakers: set[str]
) -> None:
    for name in ("anna", "bo"):
        folder = record(tmp_path / name, "0001.wav")
        (folder / "0001.srt").write_text("1\n00:00:00,000 --> 00:00:00,900\nja\n")
    divided = options(split="train", split_by_speaker="80/10/10")
    with pytest.raises(SourceError, match="--column speaker_id=folder"):
        open_source(str(tmp_path), divided)
    source = open_source(str(tmp_path), replace(divided, columns={"speaker_id": column}))
    assert {row["speaker_id"] for row in read_rows(source)} == speakers
