import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import SourceError
from danish_asr.inference.formats import FORMATS
from tests.corpora import rows_of, srt
from tests.transcripts import GRID, beside, elan, subtitles, textgrid, times, transcript


def texts(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [row["text"] for row in rows]


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
    parts.append({"start": 4.0, "end": 5.0, "text": "nej", "channel": 1})  # ours count from 0
    folder = beside(tmp_path, ".json", json.dumps({"language": "da", "segments": parts}))
    (folder / "settings.json").write_text('{"model": "large"}')
    rows = rows_of(folder)
    assert times(rows) == [(0.0, 1.5, "ja"), (2.0, 1.0, ""), (4.0, 1.0, "nej")]
    people = [names[0] and "anna SPEAKER_00", names[1], "anna Speaker 2"]
    assert [row["speaker_id"] for row in rows] == people
    assert [row["channel"] for row in rows] == [None, None, 2]


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


@pytest.mark.parametrize(
    ("suffix", "text"), [(".srt", "ja tak"), (".srt", ""), (".vtt", "WEBVTT\n\nja tak\n")]
)
def test_subtitles_without_a_time_are_refused_by_name(
    tmp_path: Path, suffix: str, text: str
) -> None:
    folder = beside(tmp_path, suffix, text)
    with pytest.raises(SourceError, match=rf"anna\{suffix}: .*no times"):
        rows_of(folder)


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
