"""Long recordings with timed text: TextGrid, ELAN, SRT, WebVTT and JSON."""

import io
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile

from danish_asr.base.errors import DatasetError, SourceError
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import SourceOptions, open_source, resolve_source
from danish_asr.corpus.sources.base import Source, Utterance
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.formats import FORMATS, SUFFIXES
from tests.builders import encode, tone

TRAIN = SourceOptions(corpus="own", split="train")
TIMED = {"textgrid": ".TextGrid", "srt": ".srt", "vtt": ".vtt", "json": ".json"}
SAID = [(0.0, 1.5, 'ja, "tak" & hej'), (2.0, 3.25, "på Ærø"), (4.0, 5.0, "nej")]


def read_all(source: Source) -> list[Utterance]:
    return [row for file in source.files for row in source.read(file, 0, file.rows)]


def transcript(*, channels: bool = False) -> Transcript:
    segments = [
        Segment(start, end, [Word(text, start, end)], number % 2 if channels else None)
        for number, (start, end, text) in enumerate(SAID)
    ]
    return Transcript(6.0, segments, "interviews/anna.wav")


def record(folder: Path, name: str = "anna.wav", seconds: float = 6.0, channels: int = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(tone(seconds, rate=16_000, channels=channels))
    return folder


@pytest.mark.parametrize("kind", TIMED)
def test_what_transcribe_writes_is_read_with_its_times(tmp_path: Path, kind: str) -> None:
    folder = record(tmp_path / "in")
    (folder / f"anna{SUFFIXES[kind]}").write_text(FORMATS[kind](transcript()), encoding="utf-8")
    assert resolve_source(str(folder))[::2] == (kind, f"it has anna{TIMED[kind]} and anna.wav")
    source = open_source(str(folder), TRAIN)
    found = [(row.start, row.seconds, row.text, row.channel) for row in read_all(source)]
    assert found == [(start, end - start, text, None) for start, end, text in SAID]
    assert {row.audio for row in read_all(source)} == {folder / "anna.wav"}
    inventory = convert(source, tmp_path / "out", name="x")
    assert inventory.rows == 3
    assert inventory.hours * 3600 == pytest.approx(3.75)
    one_file = open_source(str(folder / f"anna{SUFFIXES[kind]}"), TRAIN)
    assert [row.text for row in read_all(one_file)] == [text for _, _, text in SAID]


@pytest.mark.parametrize("kind", TIMED)
@pytest.mark.parametrize("channels", [1, 2])
def test_speakers_on_channels_become_rows_of_their_channel(
    tmp_path: Path, kind: str, channels: int
) -> None:
    folder = record(tmp_path / "in", channels=channels)
    text = FORMATS[kind](transcript(channels=True))
    (folder / f"anna{SUFFIXES[kind]}").write_text(text, encoding="utf-8")
    found = [
        (row.start, row.text, row.speaker.speaker_id, row.channel)
        for row in read_all(open_source(str(folder), TRAIN))
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
        (row.start, row.text, row.speaker.speaker_id, row.channel)
        for row in read_all(open_source(str(folder), TRAIN))
    ]
    people = "anna SPEAKER_01", "Søren", "anna SPEAKER_01"
    assert found == [
        (start, text, person, None) for (start, _, text), person in zip(SAID, people, strict=True)
    ]


def test_the_samples_of_a_row_are_those_of_its_channel(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    stereo = np.stack([np.full(96_000, 0.25), np.full(96_000, -0.5)], axis=1)
    (folder / "anna.wav").write_bytes(encode(stereo, 16_000))
    (folder / "anna.srt").write_text(FORMATS["srt"](transcript(channels=True)), encoding="utf-8")
    convert(open_source(str(folder), TRAIN), tmp_path / "out", name="x")
    rows = pq.read_table(tmp_path / "out" / "version=0").to_pylist()
    means = [soundfile.read(io.BytesIO(row["audio_bytes"]))[0].mean() for row in rows]
    assert means == [pytest.approx(value, abs=1e-3) for value in (0.25, -0.5, 0.25)]


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
    found = read_all(open_source(str(folder), TRAIN))
    assert [(row.start, row.seconds, row.text) for row in found] == [
        (0.0, 1.5, "ja"),
        (2.0, 1.0, "nej"),
    ]
    assert [row.speaker.speaker_id for row in found] == speakers


def test_a_segment_of_whisper_without_text_has_an_empty_one(tmp_path: Path) -> None:
    folder = record(tmp_path)
    segments = [
        {"start": 0.0, "end": 1.0, "text": None},
        {"start": 2.0, "end": 3.0, "text": "ja"},
    ]
    (folder / "anna.json").write_text(json.dumps({"segments": segments}))
    assert [row.text for row in read_all(open_source(str(folder), TRAIN))] == ["", "ja"]


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
        open_source(str(folder), TRAIN)
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
    source = open_source(str(folder), SourceOptions(corpus="own", split="train", tiers=tiers))
    found = [(r.start, r.seconds, r.text, r.speaker.speaker_id) for r in read_all(source)]
    assert found == expected


def test_a_tier_that_no_file_has_is_an_error_and_one_that_some_lack_is_noted(
    tmp_path: Path,
) -> None:
    folder = record(record(tmp_path), "bo.wav")
    (folder / "anna.TextGrid").write_text(textgrid({"ord": TIERS["ord"]}))
    (folder / "bo.TextGrid").write_text(textgrid({"Ord": TIERS["ord"]}))
    with pytest.raises(SourceError, match=r"--tier tekst: .* Ord \(1 files\)"):
        open_source(str(folder), SourceOptions(corpus="own", split="train", tiers=("tekst",)))
    source = open_source(str(folder), SourceOptions(corpus="own", split="train", tiers=("ord",)))
    assert "without any of the tiers: 1 files, such as bo.TextGrid" in source.notes
    assert "2 intervals without text are no utterances" in source.notes


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
        open_source(str(folder), TRAIN)
    options = SourceOptions(corpus="own", split="train", tiers=("t",))
    rows = read_all(open_source(str(folder), options))
    assert [(row.start, row.text, row.speaker.speaker_id, row.refused) for row in rows] == [
        (0.5 + shift, "goddag & hej", "Anna", None),
        (2.0 + shift, "farvel", "Bo", None),
        (3.0 + shift, "uden slut", "Bo", "no time"),
    ]
    assert {row.audio for row in rows} == {folder / "anna.wav"}


def test_a_described_tier_of_elan_can_be_chosen_and_an_empty_one_leaves_no_choice(
    tmp_path: Path,
) -> None:
    folder = record(tmp_path, "anna.wav")
    (folder / "anna.eaf").write_text(ELAN.format(origin="").replace("hello", ""))
    assert {row.speaker.speaker_id for row in read_all(open_source(str(folder), TRAIN))} == {
        "Anna",
        "Bo",
    }
    (folder / "anna.eaf").write_text(ELAN.format(origin=""))
    options = SourceOptions(corpus="own", split="train", tiers=("oversat",))
    assert [row.text for row in read_all(open_source(str(folder), options))] == ["hello"]


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
    rows = read_all(open_source(str(folder), TRAIN))
    assert [row.speaker.speaker_id for row in rows] == speakers
    notes = [note for note in open_source(str(folder), TRAIN).notes if "2 of 3 texts" in note]
    assert [("'Anna:'" in note) for note in notes] == ([] if label else [True])
    said = "det var i 1987" if label else "Anna: det var i 1987"
    assert [row.text for row in rows][:2] == [said, "nej tak"]
    assert str(rows[2].text).endswith("i 1988")


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
    rows = read_all(open_source(str(folder), TRAIN))
    assert [(row.text, row.speaker.speaker_id) for row in rows] == [
        ("blå & grøn", "Anna"),
        ("nej", "Bo"),
    ]


def srt(*cues: tuple[float, float, str]) -> str:
    def clock(seconds: float) -> str:
        return f"00:00:{int(seconds):02},{round(seconds % 1 * 1000):03}"

    return "\n".join(
        f"{number}\n{clock(start)} --> {clock(end)}\n{text}\n"
        for number, (start, end, text) in enumerate(cues, start=1)
    )


def test_overlaps_and_times_behind_the_audio_are_in_the_ledger(tmp_path: Path) -> None:
    folder = record(tmp_path / "in")
    cues = [(0, 1, "et"), (0.9, 2, "to"), (2, 3, "tre"), (2.5, 4, "fire"), (5, 7, "fem")]
    (folder / "anna.srt").write_text(srt(*cues, (4, 4, "seks")))
    options = ConvertOptions(max_drop=1.0)
    convert(open_source(str(folder), TRAIN), tmp_path / "out", name="x", options=options)
    ledger = pq.read_table(tmp_path / "out" / "ledger.parquet").to_pylist()
    assert sorted((row["row"], row["reason"]) for row in ledger) == [
        (2, "overlaps another utterance"),
        (3, "overlaps another utterance"),
        (4, "malformed end"),
        (5, "past the end of its audio"),
    ]


@pytest.mark.parametrize("sound", ["[musik]", "♪ la la ♪"])
def test_cues_of_sounds_are_no_speech_and_overlap_nothing(tmp_path: Path, sound: str) -> None:
    folder = record(tmp_path)
    (folder / "anna.srt").write_text(srt((0, 3, sound), (1, 2, "ja [latter] ja")), encoding="utf-8")
    rows = read_all(open_source(str(folder), TRAIN))
    assert [row.refused for row in rows] == ["no speech", None]


def test_a_file_that_ends_apart_from_its_audio_is_noted(tmp_path: Path) -> None:
    folder = record(tmp_path, seconds=4.0)
    (folder / "anna.TextGrid").write_text(textgrid({"ord": TIERS["ord"]}))
    (note,) = (note for note in open_source(str(folder), TRAIN).notes if "after" in note)
    assert "1 files, such as anna.TextGrid" in note


def test_files_without_speakers_are_divided_as_speakers_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for name in "abcd":
        record(folder, f"{name}.wav")
        (folder / f"{name}.srt").write_text(srt((0, 1, f"sætning {name} en"), (2, 3, f"{name} to")))
    source = open_source(str(folder), SourceOptions(corpus="own", by_speaker=True))
    assert {row.speaker.speaker_id for row in read_all(source)} == set("abcd")
    options = ConvertOptions(split_by_speaker="50/25/25")
    assert convert(source, tmp_path / "out", name="x", options=options).rows == 8


def test_a_recording_lies_in_another_folder_and_a_missing_one_goes_to_the_ledger(
    tmp_path: Path,
) -> None:
    record(tmp_path / "wav")
    (tmp_path / "srt").mkdir()
    for name in ("anna", "nobody"):
        (tmp_path / "srt" / f"{name}.srt").write_text(srt((0, 1, "ja")))
    found = {Path(str(row.audio)).name for row in read_all(open_source(str(tmp_path), TRAIN))}
    assert found == {"anna.wav", "nobody.wav"}
    with pytest.raises(DatasetError, match=r"nobody\.wav"):
        convert(open_source(str(tmp_path), TRAIN), tmp_path / "out", name="x")


def test_the_same_name_in_several_files_is_one_person_unless_it_is_asked_otherwise(
    tmp_path: Path,
) -> None:
    for name in ("x", "y"):
        record(tmp_path, f"{name}.wav")
        (tmp_path / f"{name}.srt").write_text(srt((0, 1, "INT: ja"), (2, 3, f"{name}b: nej")))
    source = open_source(str(tmp_path), TRAIN)
    assert {row.speaker.speaker_id for row in read_all(source)} == {"INT", "xb", "yb"}
    (note,) = (note for note in source.notes if "same person" in note)
    assert "INT" in note
    column = SourceOptions(corpus="own", split="train", columns=("speaker_id=file_and_speaker",))
    names = {row.speaker.speaker_id for row in read_all(open_source(str(tmp_path), column))}
    assert names == {"x INT", "y INT", "x xb", "y yb"}


def test_several_kinds_of_transcripts_ask_for_a_choice(tmp_path: Path) -> None:
    folder = record(tmp_path)
    for kind in ("srt", "textgrid"):
        text = FORMATS[kind](transcript())
        (folder / f"anna{SUFFIXES[kind]}").write_text(text, encoding="utf-8")
    (folder / "anna.txt").write_text("ja")
    with pytest.raises(SourceError, match=r"textgrid:.* or srt:.* or pairs:"):
        resolve_source(str(folder))
    assert len(read_all(open_source(f"srt:{folder}", TRAIN))) == 3


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
        (".TextGrid", textgrid(TIERS).encode()[:200], "expected 4 tiers"),
        (".TextGrid", textgrid({"ord": TIERS["ord"]}).encode()[:-10], "expected 4 intervals"),
        (".TextGrid", FORMATS["textgrid"](transcript()).encode()[:600], "cannot be read"),
        (".eaf", ELAN[:700].encode(), "cannot be read"),
        (
            ".eaf",
            re.sub(r"xsi:no\S+\"", "", ELAN.format(origin="")).encode(),
            "no attribute .*Schema.* save it",
        ),
        (".srt", srt((0, 1, "ja"), (2, 3, "to")).replace("02,000", "02").encode(), "1 of 2 cues"),
        (".srt", b"x\n" + srt((0, 1, "ja")).encode(), "cannot be read"),
        (".vtt", VTT.replace("00:03.000", "0003.000").encode(), "cannot be read"),
        (".vtt", VTT.replace("00:03.000 --", "00:03.000 -").encode(), "1 of 2 cues"),
        (".srt", srt((0, 1, "ja"), (2, 3, "to")).replace("02,000 -", "02,000 ").encode(), "1 of 2"),
        (".vtt", VTT.replace("WEBVTT", "VTT").encode(), "cannot be read"),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong(
    tmp_path: Path, suffix: str, content: bytes, reason: str
) -> None:
    folder = record(tmp_path)
    (folder / f"anna{suffix}").write_bytes(content)
    with pytest.raises(SourceError, match=rf"anna\{suffix}: .*({reason})"):
        open_source(str(folder), TRAIN)


def test_intervals_that_overlap_by_a_rounding_error_are_read(tmp_path: Path) -> None:
    folder = record(tmp_path)
    entries = [(0.0, 0.6000000000000001, "et"), (0.6, 3.0, "to"), (3.0, 6.0, "")]
    (folder / "anna.TextGrid").write_text(textgrid({"ord": entries}))
    rows = read_all(open_source(str(folder), TRAIN))
    assert [(row.text, row.refused) for row in rows] == [("et", None), ("to", None)]


def test_two_files_of_one_recording_are_refused(tmp_path: Path) -> None:
    folder = record(tmp_path)
    for language in ("da", "en"):
        (folder / f"anna.{language}.srt").write_text(srt((0, 1, "ja")))
    with pytest.raises(SourceError, match=r"anna\.wav: .*anna\.da\.srt, anna\.en\.srt"):
        open_source(str(folder), TRAIN)


@pytest.mark.parametrize("rolling", [True, False])
def test_captions_that_repeat_the_line_before_are_refused(tmp_path: Path, *, rolling: bool) -> None:
    folder = record(tmp_path)
    lines = [f"linje {number}" for number in range(6)]
    texts = [f"{a}\n{b}" for a, b in pairwise(lines)] if rolling else lines[:-2] * 2
    text = srt(*((n, n + 1, text) for n, text in enumerate(texts)))
    (folder / "anna.srt").write_text(text)
    if rolling:
        with pytest.raises(SourceError, match="4 of 5 cues begin with the line"):
            open_source(str(folder), TRAIN)
    else:
        assert len(read_all(open_source(str(folder), TRAIN))) == 8


def test_automatic_captions_that_roll_word_by_word_are_refused(tmp_path: Path) -> None:
    folder = record(tmp_path)
    cues = [" \nhun<00:00:00.400><c> cykler</c>", "hun cykler\n ", "hun cykler\nså<00:00:02.100>"]
    times = (f"00:0{n}.000 --> 00:0{n + 1}.000\n{text}\n" for n, text in enumerate(cues))
    (folder / "anna.vtt").write_text("WEBVTT\n\n" + "\n".join(times))
    with pytest.raises(SourceError, match="2 of 3 cues begin with the line"):
        open_source(str(folder), TRAIN)


def test_a_tier_is_refused_where_there_are_none(tmp_path: Path) -> None:
    folder = record(tmp_path)
    (folder / "anna.srt").write_text(srt((0, 1, "ja")))
    with pytest.raises(SourceError, match="--tier"):
        open_source(str(folder), SourceOptions(corpus="own", split="train", tiers=("ord",)))


@pytest.mark.parametrize(("column", "speakers"), [("folder", {"anna", "bo"}), ("file", {"0001"})])
def test_files_of_one_name_in_several_folders_are_no_speakers_until_that_is_said(
    tmp_path: Path, column: str, speakers: set[str]
) -> None:
    for name in ("anna", "bo"):
        folder = record(tmp_path / name, "0001.wav")
        (folder / "0001.srt").write_text("1\n00:00:00,000 --> 00:00:00,900\nja\n")
    options = SourceOptions(corpus="own", split="train", by_speaker=True)
    with pytest.raises(SourceError, match="--column speaker_id=folder"):
        open_source(str(tmp_path), options)
    source = open_source(str(tmp_path), replace(options, columns=(f"speaker_id={column}",)))
    assert {row.speaker.speaker_id for row in read_all(source)} == speakers
