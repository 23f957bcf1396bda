"""Recordings with texts beside them: TextGrid, ELAN, SRT, WebVTT, JSON, and plain texts."""

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile

from danish_asr.base.errors import DatasetError, SourceError
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import open_source, resolve_source
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.formats import FORMATS, SUFFIXES
from tests.builders import encode
from tests.corpora import TRAIN, options, read_rows, record, rows_of, srt

TIMED = ("textgrid", "srt", "vtt", "json")
SAID = [(0.0, 1.5, 'ja, "tak" & hej'), (2.0, 3.25, "på Ærø"), (4.0, 5.0, "nej")]
NAMES = ("SPEAKER_01", "Søren", "SPEAKER_01")

Tiers = dict[str, list[tuple[float, float, str]]]


def beside(folder: Path, suffix: str, content: str | bytes, stem: str = "anna") -> Path:
    """A folder with a recording of 6 seconds and a text beside it."""
    record(folder, f"{stem}.wav")
    data = content if isinstance(content, bytes) else content.encode()
    (folder / f"{stem}{suffix}").write_bytes(data)
    return folder


def subtitles(form: str, *cues: tuple[float, float, str]) -> str:
    return srt(*cues) if form == "srt" else "WEBVTT\n\n" + srt(*cues).replace(",", ".")


def texts(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [row["text"] for row in rows]


def times(rows: Sequence[dict[str, Any]]) -> list[tuple[float, float, str]]:
    return [(row["start"], row["seconds"], row["text"]) for row in rows]


def transcript(*, channels: bool = False) -> Transcript:
    segments = [
        Segment(start, end, [Word(text, start, end)], number % 2 if channels else None)
        for number, (start, end, text) in enumerate(SAID)
    ]
    return Transcript(6.0, segments, "interviews/anna.wav")


@pytest.mark.parametrize("kind", TIMED)
def test_what_transcribe_writes_is_read_with_its_times(tmp_path: Path, kind: str) -> None:
    folder = beside(tmp_path, SUFFIXES[kind], FORMATS[kind](transcript()))
    assert resolve_source(str(folder))[0] == kind
    for place in (folder, folder / f"anna{SUFFIXES[kind]}"):
        rows = rows_of(place)
        assert times(rows) == [(start, end - start, text) for start, end, text in SAID]
        assert {row["audio"] for row in rows} == {folder / "anna.wav"}


@pytest.mark.parametrize("kind", TIMED)
def test_speakers_are_read_back_and_numbers_are_of_their_file(tmp_path: Path, kind: str) -> None:
    segments = transcript().segments
    own = [replace(part, speaker=name) for part, name in zip(segments, NAMES, strict=True)]
    text = FORMATS[kind](replace(transcript(), segments=own))
    rows = rows_of(beside(tmp_path, SUFFIXES[kind], text))
    people = ["anna SPEAKER_01", "Søren", "anna SPEAKER_01"]
    assert [row["speaker_id"] for row in rows] == people


def test_the_samples_of_a_row_are_those_of_its_channel_in_json(tmp_path: Path) -> None:
    folder = beside(tmp_path / "in", ".json", FORMATS["json"](transcript(channels=True)))
    wave = np.sin(np.arange(96_000) / 5)
    stereo = np.stack([wave / 4, wave / 2], axis=1)
    (folder / "anna.wav").write_bytes(encode(stereo, 16_000))
    convert(folder, tmp_path / "out", TRAIN)
    rows = pq.read_table(tmp_path / "out" / "version=0").to_pylist()
    peaks = [soundfile.read(io.BytesIO(row["audio_bytes"]))[0].max() for row in rows]
    assert peaks == [pytest.approx(value, abs=1e-2) for value in (0.25, 0.5, 0.25)]
    assert [row["speaker_id"] for row in rows] == [f"anna Speaker {number}" for number in (1, 2, 1)]


@pytest.mark.parametrize("names", [(None, None), ("SPEAKER_00", "Bo")])
def test_json_of_whisper_and_whisperx_is_read(
    tmp_path: Path, names: tuple[str | None, ...]
) -> None:
    parts: list[dict[str, Any]] = [
        {"id": 0, "seek": 0, "start": 0.0, "end": 1.5, "text": " ja "},
        {"start": 2.0, "end": 3.0, "text": None},
    ]
    parts = [
        part | ({"speaker": name} if name else {}) for part, name in zip(parts, names, strict=True)
    ]
    folder = beside(tmp_path, ".json", json.dumps({"language": "da", "segments": parts}))
    (folder / "settings.json").write_text('{"model": "large"}')
    rows = rows_of(folder)
    assert times(rows) == [(0.0, 1.5, "ja"), (2.0, 1.0, "")]
    assert [row["speaker_id"] for row in rows] == [names[0] and "anna SPEAKER_00", names[1]]


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


@pytest.mark.parametrize("form", ["short", "long", "chronological"])
@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("name", ["ord", "mark!"])
def test_a_tier_of_any_class_and_size_is_read_in_any_form(
    tmp_path: Path, form: str, count: int, name: str
) -> None:
    """Points have no length, and are no utterances."""
    spans = [(0.5, 1.5, "ja 1"), (2.0, 3.0, "nej")][:count]
    tiers = {name: spans, "andre": [(4.0, 5.0, "tak")]}
    folder = beside(tmp_path, ".TextGrid", textgrid(tiers)[form])
    said = [(start, end - start, text) for start, end, text in spans if name == "ord"]
    chosen = ("ord", "andre") if name == "ord" else ()
    assert times(rows_of(folder, tiers=chosen)) == [*said, (4.0, 1.0, "tak")]


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        (("ord",), [("ja", None), ("tak", None)]),
        (("ORT@*",), [("ja tak", "ORT@Bo"), ("sød", "ORT@Anna")]),
        (("ord", "ORT@Anna"), [("ja", "ord"), ("tak", "ord"), ("sød", "ORT@Anna")]),
    ],
)
def test_a_tier_is_chosen_and_several_are_speakers(
    tmp_path: Path, tiers: tuple[str, ...], expected: list[tuple[str, str | None]]
) -> None:
    folder = beside(tmp_path, ".TextGrid", GRID.encode("utf-16"))
    with pytest.raises(SourceError, match=r"'ord' with 2, such as 'ja'.*--tier"):
        rows_of(folder)
    rows = rows_of(folder, tiers=tiers)
    assert [(row["text"], row["speaker_id"]) for row in rows] == expected


def test_a_tier_that_no_file_has_is_an_error_and_one_that_some_lack_is_none(
    tmp_path: Path,
) -> None:
    for stem, name in (("anna", "ord"), ("bo", "Ord")):
        beside(tmp_path, ".TextGrid", textgrid({name: TIERS["ord"]})["short"], stem)
    with pytest.raises(SourceError, match=r"--tier tekst: .* Ord \(1 files\)"):
        rows_of(tmp_path, tiers=("tekst",))
    files = {row["file"] for row in rows_of(tmp_path, tiers=("ord",))}
    assert files == {f"{tmp_path.name}/anna.TextGrid"}


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


@pytest.mark.parametrize(("origin", "shift"), [("", 0.0), ('TIME_ORIGIN="250"', 0.25)])
def test_elans_participants_are_speakers_of_the_type_of_tiers_that_is_chosen(
    tmp_path: Path, origin: str, shift: float
) -> None:
    folder = beside(tmp_path, ".eaf", elan(origin))
    with pytest.raises(SourceError, match=r"'pos' of type r with 2.*'A' of type t with 1"):
        rows_of(folder)
    rows = rows_of(folder, tiers=("t",))
    assert [(row["start"], row["text"], row["speaker_id"], row["refused"]) for row in rows] == [
        (0.5 + shift, "goddag & hej", "Anna", None),
        (2.0 + shift, "farvel", "Bo", None),
        (3.0 + shift, "uden slut", "Bo", "no time"),
    ]


RUM = '<MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/x/rum.wav" {}/>'


@pytest.mark.parametrize(
    ("recording", "other", "start"),
    [("anna", "", 2.5), ("rum", "", 0.5), ("møde", 'TIME_ORIGIN="2000"', 2.5), ("møde", "", None)],
)
def test_each_medium_of_elan_has_a_clock_of_its_own(
    tmp_path: Path, recording: str, other: str, start: float | None
) -> None:
    text = elan('TIME_ORIGIN="2000"', RUM.format(other))
    folder = beside(tmp_path, ".eaf", text, stem=recording)
    if start is None:
        with pytest.raises(SourceError, match=r"møde\.wav is none of them: Anna\.wav \(2 s\)"):
            rows_of(folder, tiers=("t",))
    else:
        assert rows_of(folder, tiers=("t",))[0]["start"] == start


def test_all_media_of_a_transcript_have_its_text(tmp_path: Path) -> None:
    folder = record(beside(tmp_path, ".eaf", elan(media=RUM.format(""))), "rum.wav")
    assert open_source(str(folder), options(split="train", tiers=("t",))).counts == {}


def test_a_tier_that_refers_to_others_has_their_times_where_they_are(
    tmp_path: Path,
) -> None:
    folder = beside(tmp_path, ".eaf", elan())
    assert times(rows_of(folder, tiers=("pos",))) == [(0.5, 0.5, "intj"), (1.0, 0.5, "verb")]
    (folder / "anna.eaf").write_text(elan(reference="a23"))
    assert texts(rows_of(folder, tiers=("A",))) == ["goddag & hej"]
    assert [row["refused"] for row in rows_of(folder, tiers=("pos",))] == ["no time", None]


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
    ("label", "name", "text"), [("Bo: ", "Anna", "det"), ("", None, "Anna: det")]
)
def test_labels_of_all_cues_are_speakers_and_numbers_stay_text(
    tmp_path: Path, label: str, name: str | None, text: str
) -> None:
    rows = rows_of(beside(tmp_path, ".da.srt", "\ufeff" + CUES.format(label=label)))
    assert [row["speaker_id"] for row in rows] == [name, name and "Bo", name]
    assert texts(rows)[:2] == [f"{text} var i 1987", "nej tak"]
    assert texts(rows)[2].endswith("i 1988")


@pytest.mark.parametrize("form", ["srt", "vtt"])
@pytest.mark.parametrize("count", [1, 3])
def test_names_before_all_of_several_cues_are_speakers(
    tmp_path: Path, form: str, count: int
) -> None:
    """As Zoom writes them; a single cue "Husk: køb mælk" names nobody."""
    cues = [(n, n + 1, f"Anna Jensen: hej {n}") for n in range(count)]
    row = rows_of(beside(tmp_path, f".{form}", subtitles(form, *cues)))[0]
    expected = ("Anna Jensen", "hej 0") if count > 1 else (None, "Anna Jensen: hej 0")
    assert (row["speaker_id"], row["text"]) == expected


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
    rows = rows_of(beside(tmp_path, ".vtt", VTT))
    assert [(row["text"], row["speaker_id"]) for row in rows] == [
        ("blå & grøn", "Anna"),
        ("nej", "Bo"),
    ]


@pytest.mark.parametrize("form", ["no numbers", "CR", "CRLF", "text with a blank line"])
def test_subrip_of_any_program_is_read(tmp_path: Path, form: str) -> None:
    content = srt((0, 1, "en to"), (2, 3, "tre"))
    changed = {
        "no numbers": re.sub(r"^\d+\n", "", content, flags=re.MULTILINE),
        "CR": content.replace("\n", "\r"),
        "CRLF": content.replace("\n", "\r\n"),
        "text with a blank line": content.replace("en to", "en\n\nto"),
    }[form]
    assert texts(rows_of(beside(tmp_path, ".srt", changed.encode()))) == ["en to", "tre"]


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
@pytest.mark.parametrize("form", ["srt", "vtt"])
def test_signs_of_subtitling_are_no_text(
    tmp_path: Path, form: str, written: str, read: str
) -> None:
    content = subtitles(form, (0, 1, written), (2, 3, "hej"))
    assert texts(rows_of(beside(tmp_path, f".{form}", content))) == [read, "hej"]


@pytest.mark.parametrize("form", ["srt", "vtt"])
@pytest.mark.parametrize(
    "written",
    [
        "vi skal først ned til\nA -> B og så hjem igen",
        "A -> B",
        "-> ud ad døren",
        "--> ud ad døren",
        "fra A --> B",
        "10 -> 20 grader",
        "3.5 procent -> 4",
        "fra 10.30 -> 11.30",
    ],
)
def test_an_arrow_in_a_text_is_part_of_the_text(tmp_path: Path, form: str, written: str) -> None:
    content = subtitles(form, (0, 1, "hej"), (2, 3, written), (4, 5, "tak"))
    rows = rows_of(beside(tmp_path, f".{form}", content))
    assert texts(rows) == ["hej", written.replace("\n", " "), "tak"]


def test_what_the_cleaner_removed_is_counted(tmp_path: Path) -> None:
    cues = [(0, 1, "- Kom!"), (1, 2, r"ja\Ntak"), (2, 3, "<i>nej</i>"), (3, 4, "(SUKKER) åh")]
    folder = record(beside(tmp_path, ".srt", srt(*cues)), "bo.wav")
    assert open_source(str(folder), TRAIN).counts == {
        "dashes before a text": 1,
        r"line breaks written as \N": 1,
        "formatting": 1,
        "texts with brackets": 1,
        "recordings without a text": 1,
    }


@pytest.mark.parametrize(
    ("sounds", "refused"),
    [
        (["♪ la la ♪"], "no speech"),
        (["[latter]", "(SUKKER)", "[latter]", "(SUKKER)"], "in brackets"),
        (["[ja det gør vi]", "[nej]"], None),  # overlapping speech, as linguists write it
    ],
)
def test_music_and_a_bracket_that_recurs_are_no_speech_and_overlap_nothing(
    tmp_path: Path, sounds: list[str], refused: str | None
) -> None:
    length = 1 if refused is None else 6
    cues = [(number, number + length, sound) for number, sound in enumerate(sounds)]
    rows = rows_of(beside(tmp_path, ".srt", srt(*cues, (5, 6, "ja [latter]"))))
    assert [row["refused"] for row in rows] == [refused] * len(sounds) + [None]


def test_overlaps_empty_cues_and_times_behind_the_audio_are_in_the_ledger(tmp_path: Path) -> None:
    cues = [(0, 1, "et"), (0.9, 2, "to"), (2, 3, "tre"), (2.5, 4, "fire"), (4, 3.5, "fem")]
    text = srt(*cues, (4.5, 5, ""), (5, 7, "syv"))
    folder = beside(tmp_path / "in", ".srt", text)
    convert(folder, tmp_path / "out", options(split="train", max_drop=1.0))
    ledger = pq.read_table(tmp_path / "out" / "ledger.parquet").to_pylist()
    assert sorted((row["row"], row["reason"]) for row in ledger) == [
        (2, "overlaps another utterance"),
        (3, "overlaps another utterance"),
        (4, "end before its start"),
        (5, "empty text"),
        (6, "past the end of its audio"),
    ]


@pytest.mark.parametrize(
    ("suffix", "text"), [(".srt", "ja tak"), (".srt", ""), (".vtt", "WEBVTT\n\nja tak\n")]
)
def test_subtitles_without_a_time_are_refused_by_name(
    tmp_path: Path, suffix: str, text: str
) -> None:
    folder = beside(tmp_path, suffix, text)
    with pytest.raises(SourceError, match=rf"anna\{suffix}: .*no times"):
        rows_of(folder)


def test_a_recording_that_is_mended_after_a_refusal_is_read_again(tmp_path: Path) -> None:
    folder = beside(tmp_path / "in", ".txt", "ja tak")
    (folder / "anna.wav").write_bytes(b"")
    with pytest.raises(DatasetError, match="empty file"):
        convert(folder, tmp_path / "out", options(split="train"))
    record(folder, "anna.wav")
    assert convert(folder, tmp_path / "out", options(split="train")).dropped == {}


@pytest.mark.parametrize("there", ["NFD", "NFC"])
@pytest.mark.parametrize("suffix", [".TextGrid", ".srt", ".txt"])
def test_a_recording_in_another_unicode_form_is_that_of_the_text(
    tmp_path: Path, there: Any, suffix: str
) -> None:
    record(tmp_path, f"{normalize(there, 'åse øre')}.wav")
    named = normalize("NFC" if there == "NFD" else "NFD", "åse øre")
    grid = textgrid({"ord": [(0, 1, "ja")]})["short"]
    content = {".TextGrid": grid, ".srt": srt((0, 1, "ja")), ".txt": "ja"}[suffix]
    (tmp_path / f"{named}{suffix}").write_text(content)
    (row,) = rows_of(tmp_path)
    assert row["audio"] == tmp_path / f"{normalize(there, 'åse øre')}.wav"


def test_a_recording_lies_in_another_folder_and_a_missing_one_stops_no_others(
    tmp_path: Path,
) -> None:
    record(tmp_path / "wav", seconds=13)
    (tmp_path / "srt").mkdir()
    for name in ("anna", "bo"):
        cues = [(n, n + 1, f"{name} nr {n}") for n in range(12)]
        (tmp_path / "srt" / f"{name}.srt").write_text(srt(*cues))
    paths = {row["audio"] for row in rows_of(tmp_path)}
    assert paths == {tmp_path / "wav" / "anna.wav", tmp_path / "srt" / "bo.wav"}
    inventory = convert(tmp_path, tmp_path / "out", options(split="train", max_drop=0.5))
    assert inventory.dropped == {"audio file missing": 12}
    assert inventory.rows == 12


def test_the_same_name_in_several_files_is_one_person_unless_it_is_asked_otherwise(
    tmp_path: Path,
) -> None:
    for name in ("x", "y"):
        cues = (0, 1, "INT: ja"), (2, 3, f"{name}b: nej"), (4, 5, "INT: tak")
        beside(tmp_path, ".srt", srt(*cues), stem=name)
    assert {row["speaker_id"] for row in rows_of(tmp_path)} == {"INT", "xb", "yb"}
    columns = {"speaker_id": "file_and_speaker"}
    names = {row["speaker_id"] for row in rows_of(tmp_path, columns=columns)}
    assert names == {"x INT", "y INT", "x xb", "y yb"}


def test_several_kinds_of_transcripts_ask_for_a_choice(tmp_path: Path) -> None:
    folder = beside(tmp_path, ".srt", srt((0, 1, "ja")))
    (folder / "anna.TextGrid").write_text(GRID)
    (folder / "anna.txt").write_text("ja")
    with pytest.raises(SourceError, match=r"textgrid:.* or srt:.* or pairs:"):
        resolve_source(str(folder))
    assert len(rows_of(f"srt:{folder}")) == 1
    with pytest.raises(SourceError, match="--tier"):
        rows_of(f"srt:{folder}", tiers=("ord",))


@pytest.mark.parametrize(
    ("suffix", "content", "reason"),
    [
        (".TextGrid", textgrid({"ord": [(0, 1, "sæl")]})["short"].encode("latin-1"), "UTF-8"),
        (".TextGrid", GRID.replace("\n0\n", "\n2\n", 1), "begins at 2 s"),
        (".TextGrid", "no grid", "no complete"),
        (".TextGrid", GRID[:200], "no complete"),
        (".TextGrid", GRID[:-10], "no complete"),
        (".TextGrid", FORMATS["textgrid"](transcript())[:120], "no complete"),
        (".TextGrid", b"ooBinaryFile\x08TextGrid", "Save as text file"),
        (".eaf", elan()[:700], "cannot be read"),
        (".srt", srt((0, 1, "ja"), (2, 3, "to")).replace("02,000", "02"), "line 6 has no"),
        (".srt", srt((0, 1, "ja"), (2, 3, "to")).replace("00:00:02", "OO:00:02"), "line 6 has no"),
        (".srt", "1\n00:00:00,5 -> 00:00:01\nja\n", "line 2 has no"),
        (".vtt", VTT.replace("00:03.000", "0003.000"), "line 10 has no"),
        (".txt", "0 32000 hun cykler\n", "TIMIT"),
        (".txt", "0.7\t2.3\thun cykler\n", "Audacity.*path,start,end,text"),
        (".txt", "nej\ntå".encode("latin-1"), "UTF-8"),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong(
    tmp_path: Path, suffix: str, content: str | bytes, reason: str
) -> None:
    with pytest.raises(SourceError, match=rf"anna\{suffix}: .*({reason})"):
        rows_of(beside(tmp_path, suffix, content))


def test_two_files_of_one_recording_are_refused(tmp_path: Path) -> None:
    for language in ("da", "en"):
        beside(tmp_path, f".{language}.srt", srt((0, 1, "ja")))
    with pytest.raises(SourceError, match=r"anna\.wav: .*anna\.da\.srt and anna\.en\.srt"):
        rows_of(tmp_path)


def test_a_folder_of_pairs_has_a_text_for_each_recording(tmp_path: Path) -> None:
    for name in ("s1", "s2"):
        beside(tmp_path / "train" / name, ".txt", f"\ufeffpå\r\nÆrø {name}\n", stem="a")
    beside(tmp_path / "test", ".TXT", "ja", stem="b.1")
    record(tmp_path / "test", "alone.wav")
    (tmp_path / "README.txt").write_bytes("1 2 læs".encode("latin-1"))
    assert resolve_source(str(tmp_path))[:2] == ("pairs", str(tmp_path))
    source = open_source(str(tmp_path), options(columns={"speaker_id": "folder"}))
    rows = [(row["split"], row["speaker_id"], row["text"]) for row in read_rows(source)]
    assert rows == [
        ("test", "test", "ja"),
        ("train", "s1", "på Ærø s1"),
        ("train", "s2", "på Ærø s2"),
    ]
    assert source.rows["uncut"].to_pylist() == [True] * 3
    # README.txt may be a text, whose recording was forgotten.
    missing = "recordings without a text", ".txt files without a recording"
    assert source.counts == dict.fromkeys(missing, 1)


@pytest.mark.parametrize(
    ("columns", "names"),
    [({"speaker_id": "folder"}, {"day1"}), ({"speaker_id": "folder_above"}, {"anna", "bo"})],
)
def test_speakers_of_pairs_are_their_folders_if_they_are_divided(
    tmp_path: Path, columns: dict[str, str], names: set[str]
) -> None:
    folder = tmp_path / "in"
    for name in ("anna/day1", "bo/day1"):
        beside(folder / name, ".txt", "ja", stem="1")
    assert {row["speaker_id"] for row in rows_of(folder)} == {None}
    divided = options(split_by_speaker="80/10/10", columns=columns)
    rows = read_rows(open_source(str(folder), divided))
    assert {row["speaker_id"] for row in rows} == names


@pytest.mark.parametrize(
    ("suffix", "content", "files", "places"),
    [
        (".srt", srt((0, 1, "ja")), ("anna/1", "bo/1"), r"anna/1\.srt and bo/1\.srt"),
        (
            ".json",
            '{"segments": [{"start": 0, "end": 1, "text": "ja"}]}',
            ("anna/1", "bo/1"),
            r"anna/1\.json and bo/1\.json",
        ),
        (
            ".vtt",
            subtitles("vtt", (0, 1, "<v Speaker 1>ja")),
            ("anna/1", "bo/1"),
            r"anna/1\.vtt and bo/1\.vtt",
        ),
        (".txt", "ja", ("anna/day1/0", "bo/day1/0"), "anna/day1 and bo/day1"),
        (".txt", "ja", ("anna/train/0", "bo/train/0"), "anna and bo"),
    ],
)
def test_names_that_make_one_speaker_of_two_places_are_refused(
    tmp_path: Path, suffix: str, content: str, files: tuple[str, str], places: str
) -> None:
    for name in files:
        folder, _, stem = name.rpartition("/")
        beside(tmp_path / folder, suffix, content, stem=stem)
    with pytest.raises(SourceError, match=f"{places} .*speaker_id=folder_above"):
        open_source(str(tmp_path), options(split="train", split_by_speaker="50/0/50"))
    assert rows_of(tmp_path)  # where nobody is divided


def test_a_speakers_folder_in_several_splits_is_one_place_and_elsewhere_another(
    tmp_path: Path,
) -> None:
    for folder in ("train/anna", "test/anna"):
        beside(tmp_path / folder, ".txt", "ja", stem=folder[:4])
    divided = options(split="train", split_by_speaker="50/0/50")
    assert open_source(str(tmp_path), divided).rows["speaker_id"].to_pylist() == ["anna"] * 2
    beside(tmp_path / "bo" / "anna", ".txt", "ja", stem="1")
    with pytest.raises(SourceError, match="bo/anna"):
        open_source(str(tmp_path), divided)


def test_a_link_to_a_folder_above_it_adds_no_recordings(tmp_path: Path) -> None:
    outside = tmp_path / "disk" / "s2"
    for folder in (tmp_path / "in" / "s1", outside):
        beside(folder, ".txt", "ja")
    (tmp_path / "in" / "s1" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "s2").symlink_to(outside)
    (outside / "again").symlink_to(outside)
    files = [row["file"] for row in rows_of(tmp_path / "in")]
    assert files == ["in/s1/anna.txt", "in/s2/anna.txt"]


def test_a_transcript_in_json_that_was_cut_is_refused(tmp_path: Path) -> None:
    written = FORMATS["json"](transcript())
    folder = beside(tmp_path, ".json", written)
    beside(folder, ".json", written[: len(written) // 2], stem="bo")
    with pytest.raises(SourceError, match=r"bo\.json"):
        rows_of(folder)


def test_where_a_cue_has_no_name_those_that_occur_often_are_speakers(tmp_path: Path) -> None:
    said = [f"Anna Jensen: hej {n}" for n in range(3)] + ["nå", "husk: det blæser"]
    cues = [(n, n + 0.9, text) for n, text in enumerate(said)]
    rows = rows_of(beside(tmp_path, ".vtt", subtitles("vtt", *cues)))
    assert [(row["speaker_id"], row["text"]) for row in rows] == [
        *(("Anna Jensen", f"hej {n}") for n in range(3)),
        (None, "nå"),
        (None, "husk: det blæser"),
    ]
