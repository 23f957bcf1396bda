"""Recordings with texts beside them: TextGrid, ELAN, SRT, WebVTT, JSON, and plain texts."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources import open_source, resolve_source
from danish_asr.corpus.sources.recordings import SEVERAL
from danish_asr.corpus.sources.timed import APART, NAMED, NO_SPEAKER, UNCHOSEN, UNLINKED, no_speech
from danish_asr.corpus.sources.timed_files import (
    CLOCK_TIMES,
    KEPT_NAMES,
    MUSIC,
    NO_SPEECH_LABEL,
    NO_TEXT,
)
from danish_asr.inference.formats import FORMATS, SUFFIXES
from tests.corpora import TRAIN, options, read_rows, record, rows_of, srt
from tests.transcripts import (
    GRID,
    SAID,
    TIERS,
    beside,
    elan,
    elan_of,
    subtitles,
    textgrid,
    times,
    transcript,
)

OVERLAP = "overlaps another utterance"
NAMES = ("SPEAKER_01", "Søren", "SPEAKER_01")


@pytest.mark.parametrize("kind", ["textgrid", "srt", "vtt", "json"])
def test_what_transcribe_writes_is_read(tmp_path: Path, kind: str) -> None:
    """A speaker who has a number only is one of the file."""
    segments = transcript().segments
    own = [replace(part, speaker=name) for part, name in zip(segments, NAMES, strict=True)]
    text = FORMATS[kind](replace(transcript(), segments=own))
    folder = beside(tmp_path, SUFFIXES[kind], text)
    assert resolve_source(str(folder)).kind == kind
    for place in (folder, folder / f"anna{SUFFIXES[kind]}"):
        rows = rows_of(place)
        assert times(rows) == [(start, end - start, text) for start, end, text in SAID]
        assert {row["audio"] for row in rows} == {folder / "anna.wav"}
        people = ["anna SPEAKER_01", "Søren", "anna SPEAKER_01"]
        assert [row["speaker_id"] for row in rows] == people


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


def test_beside_empty_tiers_the_only_one_with_text_is_read(tmp_path: Path) -> None:
    tiers = textgrid({"tom": [(0, 6, "")], "ord": [(0, 1, "ja")], "fri": []})["short"]
    (row,) = rows_of(beside(tmp_path, ".TextGrid", tiers))
    assert (row["text"], row["speaker_id"]) == ("ja", None)


def test_a_textgrid_says_of_all_its_recording_what_is_speech(tmp_path: Path) -> None:
    """So nobody is told of sound after its only utterance, as after a rounded duration."""
    grid = textgrid({"ord": [(0, 1, "ja"), (1, 6, "")]})["short"]
    for suffix, content, alone in ((".TextGrid", grid, False), (".srt", srt((0, 1, "ja")), True)):
        folder = beside(tmp_path / suffix, suffix, content)
        assert open_source(str(folder), TRAIN).rows["alone"].to_pylist() == [alone]


def test_spans_of_several_tiers_are_ordered_by_start_end_and_speaker(tmp_path: Path) -> None:
    tiers = textgrid({"B": [(0, 2, "to"), (2, 3, "fem")], "A": [(0, 1, "et"), (2, 3, "tre")]})
    rows = rows_of(beside(tmp_path, ".TextGrid", tiers["short"]), tiers=("*",))
    assert [row["text"] for row in rows] == ["et", "to", "tre", "fem"]


def test_a_tier_that_no_file_has_is_refused(tmp_path: Path) -> None:
    for stem, name in (("anna", "ord"), ("bo", "Ord")):
        beside(tmp_path, ".TextGrid", textgrid({name: TIERS["ord"]})["short"], stem)
    with pytest.raises(SourceError, match=r"--tier tekst: .* Ord \(1 files\)"):
        rows_of(tmp_path, tiers=("tekst",))
    files = {row["file"] for row in rows_of(tmp_path, tiers=("ord",))}
    assert files == {f"{tmp_path.name}/anna.TextGrid"}


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
        rows = rows_of(folder, tiers=("t",))
        assert rows[0]["start"] == start
        assert [row["refused"] for row in rows] == [None, None, "no time"]


@pytest.mark.parametrize(
    ("name", "missing"), [("anna.transcript.vtt", "anna.wav"), ("anna.eaf", "møde 1.flac")]
)
def test_a_missing_recording_is_named_as_the_file_names_it(
    tmp_path: Path, name: str, missing: str
) -> None:
    media = '<MEDIA_DESCRIPTOR MEDIA_URL="m%C3%B8de%201.flac"/>'
    is_elan = name.endswith("eaf")
    text = elan(media=media).replace("Anna.wav", "film.mp4")
    (tmp_path / name).write_text(text if is_elan else subtitles("vtt", (0, 1, "ja")))
    rows = rows_of(tmp_path, tiers=("t",) if is_elan else ())
    assert {row["audio"].name for row in rows} == {missing}


def test_names_that_stay_in_the_texts_of_files_are_counted(tmp_path: Path) -> None:
    for number, text in enumerate(("Anna: ja", "Bo H. Hansen: nej", "tak")):
        beside(tmp_path, ".txt", text, f"{number}")
    counts = open_source(f"pairs:{tmp_path}", options(split="train")).counts
    assert counts[KEPT_NAMES] == 2


def test_all_media_of_a_transcript_have_its_text(tmp_path: Path) -> None:
    folder = record(beside(tmp_path, ".eaf", elan(media=RUM.format(""))), "rum.wav")
    (several,) = open_source(str(folder), options(split="train", tiers=("t",))).counts.items()
    assert several == (f"{SEVERAL}, such as anna.wav, not rum.wav", 1)


@pytest.mark.parametrize("note", [SEVERAL, UNLINKED])
def test_a_recording_is_noted_that_has_the_name_of_a_file_which_links_to_another(
    tmp_path: Path, note: str
) -> None:
    folder = beside(tmp_path, ".eaf", elan().replace("Anna.wav", "film.mp4"))
    if note == SEVERAL:  # the film is there, and may have no sound
        record(folder, "film.mp4")
    counts = open_source(str(folder), options(split="train", tiers=("t",))).counts
    assert counts == {f"{note}, such as anna.wav, not film.mp4": 1}


def test_speakers_by_names_before_cues_are_shown_the_rarest_first(tmp_path: Path) -> None:
    cues = [(2.0 * n, 2.0 * n + 1, f"{name}: ja") for n, name in enumerate(("Bo", "Men", "Bo"))]
    counts = open_source(str(beside(tmp_path, ".srt", srt(*cues))), TRAIN).counts
    assert counts == {f"{NAMED}, such as Men (1), Bo (2)": 2}


def test_tiers_that_nobody_chose_are_shown_if_files_have_others(tmp_path: Path) -> None:
    for name, tier in (("anna", "ORT"), ("bo", "ORT"), ("carl", "Kommentar")):
        beside(tmp_path, ".TextGrid", textgrid({tier: [(0.0, 1.0, "ja")]})["long"], stem=name)
    folder = str(tmp_path)
    assert open_source(folder, TRAIN).counts == {f"{UNCHOSEN}, such as Kommentar (1), ORT (2)": 2}
    chosen = options(split="train", tiers=("ORT", "Kommentar"))
    assert UNCHOSEN not in str(open_source(folder, chosen).counts)
    (tmp_path / "carl.TextGrid").unlink()
    assert UNCHOSEN not in str(open_source(folder, TRAIN).counts)


@pytest.mark.parametrize("medium", ["film.mp4", "anna.mkv"])
def test_a_video_is_the_last_choice_of_several_recordings(tmp_path: Path, medium: str) -> None:
    """It may have no sound. Each medium has its own clock."""
    film = f'<MEDIA_DESCRIPTOR MEDIA_URL="file:///{medium}" TIME_ORIGIN="1000"/>'
    text = elan().replace("<HEADER>", f"<HEADER>{film}")
    folder = record(beside(tmp_path, ".eaf", text), medium)
    first = rows_of(folder, tiers=("t",))[0]
    assert (first["audio"], first["start"]) == (folder / "anna.wav", 0.5)
    (folder / "anna.wav").unlink()
    first = rows_of(folder, tiers=("t",))[0]
    assert (first["audio"], first["start"]) == (folder / medium, 1.5)


def test_of_recordings_whose_names_differ_in_capitals_the_one_of_the_text_is_read(
    tmp_path: Path,
) -> None:
    for stem in ("Anna", "anna"):
        beside(tmp_path, ".srt", srt((0, 1, stem)), stem=stem)
        record(tmp_path, f"{stem}.wav")
    found = {row["text"]: row["audio"].stem for row in rows_of(tmp_path)}
    assert found == {"Anna": "Anna", "anna": "anna"}


def test_what_was_removed_and_what_has_no_text_is_counted(tmp_path: Path) -> None:
    folder = record(beside(tmp_path, ".srt", srt((0, 1, "- Kom!"), (3, 4, "(SUK) åh"))), "bo.wav")
    removed = {"dashes before a text": 1}
    found = open_source(str(folder), TRAIN).counts
    assert found == removed | {"recordings without a text": 1}
    (folder / "bo.srt").write_text(srt((0, 1, "(ja) nej")))
    assert open_source(str(folder / "anna.srt"), TRAIN).counts == removed  # of this file alone


def test_labels_are_refused_and_a_tier_of_nothing_else_is_no_choice(tmp_path: Path) -> None:
    labels = [(0.0, 1.0, "silent"), (1.0, 4.0, "sounding")]
    both = textgrid({"stille": labels, "ord": [(0, 2, "ja"), (2, 3, "sil")]})["short"]
    found = [(row["text"], row["refused"]) for row in rows_of(beside(tmp_path, ".TextGrid", both))]
    assert found == [("ja", None), ("sil", NO_SPEECH_LABEL)]
    (tmp_path / "anna.TextGrid").write_text(textgrid({"stille": labels})["short"])
    assert [row["refused"] for row in rows_of(tmp_path)] == [NO_SPEECH_LABEL] * 2
    beside(tmp_path / "b", ".txt", "[00:00.000 --> 00:01.000] ja", stem="b")
    assert [row["refused"] for row in rows_of(f"pairs:{tmp_path}")] == [CLOCK_TIMES]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("farvel",), [("farvel", None), ("", NO_TEXT)]),  # of this tier
        ((), [("", NO_TEXT)] * 7),  # of all
    ],
)
def test_annotations_of_elan_without_a_text_are_rows_and_tiers_of_them_no_choice(
    tmp_path: Path, texts: tuple[str, ...], expected: list[tuple[str, str | None]]
) -> None:
    rows = rows_of(beside(tmp_path, ".eaf", elan_of(*texts)))
    assert [(row["text"], row["refused"]) for row in rows] == expected


def test_what_is_no_speech_is_refused_and_overlaps_nothing(tmp_path: Path) -> None:
    sounds = (0, 6, "♪ la la ♪"), (1, 6, "[latter]"), (2, 6, "[latter]")
    speech = (3, 4, "ja [latter]"), (5, 6, "[ja det gør vi]")  # as linguists write overlaps
    rows = rows_of(beside(tmp_path, ".srt", srt(*sounds, *speech)))
    refused = ["no speech", "in brackets", "in brackets", None, None]
    assert [row["refused"] for row in rows] == refused


@pytest.mark.parametrize(
    ("spans", "overlapping"),
    [
        ([(0, 4), (1, 2), (3, 3.5)], [0, 1, 2]),  # the last one that of the first alone
        ([(0, 4), (3.9, 5), (4.5, 6)], [1, 2]),
        ([(0, 1), (0.8, 2)], []),
        ([(0, 1), (0.75, 2)], [0, 1]),
        ([(0, 5), (2, 2.1), (3, 3.1)], []),
        ([(1, 2), (0, 1.5), (2, 3)], [0, 1]),
    ],
)
@pytest.mark.parametrize("channels", [(None,), (0, 1)])
def test_a_span_that_has_too_much_of_another_of_its_channel_is_refused(
    tmp_path: Path, spans: list[tuple[float, float]], overlapping: list[int], channels: Any
) -> None:
    segments = [
        {"start": start, "end": end, "text": f"nr {n}", "channel": channel}
        for n, (start, end) in enumerate(spans)
        for channel in channels
    ]
    rows = rows_of(beside(tmp_path, ".json", json.dumps({"segments": segments})))
    assert [row["start"] for row in rows] == sorted(row["start"] for row in rows)
    found = sorted(row["text"] for row in rows if row["refused"] == "overlaps another utterance")
    assert found == sorted(f"nr {n}" for n in overlapping for _ in channels)


@pytest.mark.parametrize("there", ["NFD", "NFC"])
@pytest.mark.parametrize(("suffix", "content"), [(".srt", srt((0, 1, "ja"))), (".txt", "ja")])
def test_unicode_forms_are_one_name(tmp_path: Path, there: Any, suffix: str, content: str) -> None:
    record(tmp_path, f"{normalize(there, 'åse øre')}.wav")
    named = normalize("NFC" if there == "NFD" else "NFD", "åse øre")
    (tmp_path / f"{named}{suffix}").write_text(content)
    (row,) = rows_of(tmp_path)
    assert row["audio"] == tmp_path / f"{normalize(there, 'åse øre')}.wav"


def test_a_recording_is_missing_or_in_another_folder(tmp_path: Path) -> None:
    record(tmp_path / "wav")
    (tmp_path / "srt").mkdir()
    for name in ("anna", "bo"):
        (tmp_path / "srt" / f"{name}.srt").write_text(srt((0, 1, "ja")))
    source = open_source(str(tmp_path), TRAIN)
    paths = {row["audio"] for row in read_rows(source)}
    assert paths == {tmp_path / "wav" / "anna.wav", tmp_path / "srt" / "bo.wav"}
    assert source.counts == {f"{APART}, such as wav/anna.wav, not srt/anna.wav": 1}


def test_a_name_in_several_files_is_one_person_unless_it_is_said(tmp_path: Path) -> None:
    for name in ("x", "y"):
        cues = (0, 1, "INT: ja"), (2, 3, f"{name}b: nej"), (4, 5, "INT: tak")
        beside(tmp_path, ".srt", srt(*cues), stem=name)
    assert {row["speaker_id"] for row in rows_of(tmp_path)} == {"INT", "xb", "yb"}
    columns = {"speaker_id": "file_and_speaker"}
    names = {row["speaker_id"] for row in rows_of(tmp_path, columns=columns)}
    assert names == {"x INT", "y INT", "x xb", "y yb"}


@pytest.mark.parametrize("name", ["SPEAKER_00", "Speaker A", "taler 2", "Guest-1"])
def test_a_number_or_a_letter_is_another_speaker_in_each_file(tmp_path: Path, name: str) -> None:
    for stem in ("x", "y"):
        beside(tmp_path, ".vtt", subtitles("vtt", (0, 1, f"<v {name}>ja")), stem=stem)
    assert {row["speaker_id"] for row in rows_of(tmp_path)} == {f"x {name}", f"y {name}"}


def test_divided_speakers_have_no_text_that_may_be_of_any_of_them(tmp_path: Path) -> None:
    """Its file would be a speaker more, in another split perhaps."""
    cues = (0, 1, "<v Anna>ja"), (2, 3, "nej"), (4, 5, "<v Anna>jo <v Bo>jo"), (6, 7, "♪")
    together = (8, 9, "<v Bo>ja"), (8, 9, "og nej")
    beside(tmp_path, ".vtt", subtitles("vtt", *cues, *together), stem="x")
    beside(tmp_path, ".vtt", subtitles("vtt", (0, 1, "tak")), stem="y")
    divided = {"split": "train", "split_by_speaker": "50/0/50"}

    def refused(**values: Any) -> list[tuple[str | None, str | None]]:
        rows = open_source(str(tmp_path), options(**values)).rows
        return [*zip(rows["speaker_id"].to_pylist(), rows["refused"].to_pylist(), strict=True)]

    nobody = [("x", NO_SPEAKER)] * 2
    others = [("x", MUSIC), ("x", OVERLAP), ("Bo", OVERLAP), ("y", None)]
    assert refused(**divided) == [("Anna", None), *nobody, *others]
    of_all = [None] * 3 + [MUSIC, OVERLAP, OVERLAP, None]
    by_file = refused(**divided, columns={"speaker_id": "file"})
    assert by_file == [*zip("xxxxxxy", of_all, strict=True)]
    assert [reason for _, reason in refused()] == of_all


def test_a_number_in_a_name_is_that_of_another_recording(tmp_path: Path) -> None:
    beside(tmp_path, ".2.srt", srt((0, 1, "ja")))
    (row,) = rows_of(tmp_path)
    assert row["audio"] == tmp_path / "anna.2.wav"  # which is missing
    record(tmp_path, "anna.2.mp3")
    assert [row["audio"].name for row in rows_of(tmp_path)] == ["anna.2.mp3"]


@pytest.mark.parametrize("suffix", [".txt", ".TextGrid"])
def test_all_texts_that_are_not_utf8_are_refused_at_once(tmp_path: Path, suffix: str) -> None:
    """The command converts these files, and leaves others alone."""
    folder = tmp_path / "a b"
    texts = {"1": "rødgrød", "2": "på Ærø", "sub/3": "tå", "4": "æ"}
    for stem, text in texts.items():
        content = textgrid({"ord": [(0, 1, text)]})["short"] if suffix != ".txt" else text
        codec = "mac_roman" if stem != "4" else "utf-16" if suffix != ".txt" else "utf-8"
        beside((folder / stem).parent, suffix, content.encode(codec), stem=stem[-1])
    with pytest.raises(SourceError, match=r"3 \S+ files are .*på Ærø.*tå") as refusal:
        rows_of(folder)
    command = str(refusal.value).split("If that is right: ")[1]
    subprocess.run(command, shell=True, check=True)  # noqa: S602 - ours
    assert {row["text"] for row in rows_of(folder)} == {*texts.values()}


def test_two_files_of_one_recording_are_refused(tmp_path: Path) -> None:
    for language in ("da", "en"):
        beside(tmp_path, f".{language}.srt", srt((0, 1, "ja")))
    with pytest.raises(SourceError, match=r"anna\.wav: .*anna\.da\.srt and anna\.en\.srt"):
        rows_of(tmp_path)


def test_a_folder_of_pairs_has_a_text_for_each_recording(tmp_path: Path) -> None:
    beside(tmp_path / "train" / "s1", ".txt", "\ufeffpå\r\nÆrø\n", stem="a")
    beside(tmp_path / "test", ".TXT", "ja", stem="b.1")
    record(tmp_path / "test", "alone.wav")
    (tmp_path / "README.txt").write_bytes("1 2 læs".encode("latin-1"))
    assert resolve_source(str(tmp_path))[:2] == ("pairs", str(tmp_path))
    source = open_source(str(tmp_path), options(columns={"speaker_id": "folder"}))
    rows = [(row["split"], row["speaker_id"], row["text"]) for row in read_rows(source)]
    assert rows == [("test", "test", "ja"), ("train", "s1", "på Ærø")]
    assert source.rows["uncut"].to_pylist() == [True] * 2
    # README.txt may be a text, whose recording was forgotten.
    why = "as no recording beside them has their name"
    unused = f".txt files of which nothing was read, {why} (README.txt)"
    missing = "recordings without a text", unused
    unread = (
        "texts without a speaker in several folders (--column speaker_id=folder takes their names)"
    )
    assert source.counts == dict.fromkeys(missing, 1)
    assert open_source(str(tmp_path), options()).counts.keys() == {*missing, unread}


def test_folders_are_a_dialect_and_a_speaker(tmp_path: Path) -> None:
    for place in ("Fynsk/anna", "Fynsk/bo", "Bornholmsk/carl"):
        beside(tmp_path / place, ".txt", "ja", stem="01")
    columns = {"dialect": "folder_above", "speaker_id": "folder"}
    rows = rows_of(tmp_path, columns=columns)
    found = {(row["dialect"], row["speaker_id"]) for row in rows}
    assert found == {("Fynsk", "anna"), ("Fynsk", "bo"), ("Bornholmsk", "carl")}


NUMBERED = subtitles("vtt", (0, 1, "<v Speaker 1>ja"))


@pytest.mark.parametrize(
    ("file", "content", "places", "columns"),
    [
        ("1.srt", srt((0, 1, "ja")), r"anna/1\.srt and bo/1\.srt", ("file", "folder")),
        ("1.vtt", NUMBERED, r"anna/1\.vtt and bo/1\.vtt", ("file_and_speaker", "folder")),
        ("day1/1.txt", "ja", "anna/day1 and bo/day1", ("folder", "folder_above")),
        ("train/1.txt", "ja", "anna and bo", ("folder", "folder_above")),
    ],
)
def test_names_that_make_one_speaker_of_two_places_are_refused(
    tmp_path: Path, file: str, content: str, places: str, columns: tuple[str, str]
) -> None:
    for name in ("anna", "bo"):
        path = tmp_path / name / file
        beside(path.parent, path.suffix, content, stem=path.stem)
    one, several = columns
    divided = {"split": "train", "split_by_speaker": "50/0/50"}
    advice = rf"{places} .*speaker_id={several}.* --column speaker_id={one}$"
    with pytest.raises(SourceError, match=advice):
        open_source(str(tmp_path), options(**divided))
    for count, column in enumerate(columns, 1):
        rows = rows_of(tmp_path, **divided, columns={"speaker_id": column})
        assert len({row["speaker_id"] for row in rows}) == count
    names = {row["speaker_id"] for row in rows_of(tmp_path)}  # where nobody is divided
    assert names == ({"1 Speaker 1"} if content == NUMBERED else {None})


def test_a_speakers_folder_in_several_splits_is_one_place(tmp_path: Path) -> None:
    for folder in ("train/anna", "test/anna"):
        beside(tmp_path / folder, ".txt", "ja", stem=folder[:4])
    divided = options(split="train", split_by_speaker="50/0/50")
    assert open_source(str(tmp_path), divided).rows["speaker_id"].to_pylist() == ["anna"] * 2
    beside(tmp_path / "bo" / "anna", ".txt", "ja", stem="1")
    with pytest.raises(SourceError, match="bo/anna"):
        open_source(str(tmp_path), divided)


def test_music_and_brackets_that_recur_are_no_speech() -> None:
    texts = ["♪ la", "[Latter]", "[latter]", "(suk)", "ja", "ja", "[ja] nej", "[ja] nej"]
    brackets = dict.fromkeys(("[Latter]", "[latter]"), "in brackets")
    assert no_speech(texts) == brackets | {"♪ la": "no speech"}
