"""What each form of texts beside a recording holds, and what is wrong with a file."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from danish_asr.base.errors import SourceError
from danish_asr.corpus.sources.timed_files import (
    NO_TEXT,
    OUTSIDE,
    Span,
    Tier,
    TimedFile,
    kept_names,
    read_timed,
)
from danish_asr.inference.formats import FORMATS
from tests.corpora import srt
from tests.transcripts import GRID, elan, subtitles, textgrid, transcript


def read(folder: Path, suffix: str, content: str | bytes) -> TimedFile:
    path = folder / f"anna{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_timed(path)


def read_segments(folder: Path, segments: list[dict[str, Any]]) -> TimedFile:
    return read(folder, ".json", json.dumps({"segments": segments}))


def said(file: TimedFile) -> list[tuple[str, str | None]]:
    """The texts and speakers of a file without tiers."""
    (tier,) = file.tiers
    return [(span.text, span.speaker) for span in tier.spans]


def test_plain_text_is_that_of_a_whole_recording(tmp_path: Path) -> None:
    (tier,) = read(tmp_path, ".txt", "\ufeffpå\r\n Ærø\n").tiers
    assert tier.spans == [Span(None, None, "på Ærø")]
    file = read(tmp_path, ".txt", "på Ærø")
    assert (file.media, file.removed, file.named, file.is_of_model) == ({}, {}, {}, False)


def test_json_of_whisper_and_of_ours_is_read(tmp_path: Path) -> None:
    segments: list[dict[str, Any]] = [
        {"id": 0, "seek": 0, "start": 0.0, "end": 1.5, "text": " ja  tak "},
        {"start": 2.0, "text": None, "speaker": "SPEAKER_00"},
        {"start": 4.0, "end": 5.0, "text": "nej", "channel": 1},  # ours count from 0
    ]
    (tier,) = read_segments(tmp_path, segments).tiers
    assert tier.spans == [
        Span(0.0, 1.5, "ja tak", ""),
        Span(2.0, None, "", "SPEAKER_00"),
        Span(4.0, 5.0, "nej", "Speaker 2", 2),
    ]
    for about, is_of_model in ((None, False), ({"decoder": {"name": "greedy"}}, True)):
        written = json.dumps({"segments": [], "about": about})
        assert read(tmp_path, ".json", written).is_of_model == is_of_model


def test_a_number_or_a_letter_in_json_is_a_speaker_of_the_file(tmp_path: Path) -> None:
    speakers = [0, 1, "12", "B", "Bo", None, ""]
    segments = [{"start": 0, "text": "ja", "speaker": speaker} for speaker in speakers]
    found = [speaker for _, speaker in said(read_segments(tmp_path, segments))]
    assert found == ["Speaker 0", "Speaker 1", "Speaker 12", "Speaker B", "Bo", "", ""]


def test_times_in_json_may_be_in_quotes_or_missing(tmp_path: Path) -> None:
    pairs = [("0.5", "1,5"), ("00:00:02.000", "0:01:00,25"), (math.nan, 1), (1, None)]
    segments = [{"start": start, "end": end, "text": "ja"} for start, end in pairs]
    (tier,) = read_segments(tmp_path, segments).tiers
    assert [span[:2] for span in tier.spans] == [(0.5, 1.5), (2.0, 60.25), (None, 1.0), (1.0, None)]


def test_half_a_surrogate_pair_in_json_has_a_fault(tmp_path: Path) -> None:
    segments = r'[{"start": 0, "text": "ja \ud83d"}, {"start": 1, "text": "\ud83d\ude00"}]'
    (tier,) = read(tmp_path, ".json", f'{{"segments": {segments}}}').tiers
    assert [span.fault for span in tier.spans] == ["malformed text", None]
    assert [span.text for span in tier.spans] == ["ja ?", "\N{GRINNING FACE}"]


@pytest.mark.parametrize("form", ["short", "long", "chronological"])
@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("name", ["ord", "mark!"])
def test_tiers_are_read_in_any_form(tmp_path: Path, form: str, count: int, name: str) -> None:
    """Points have no length, and are no utterances."""
    spans = [(0.5, 1.5, "ja 1"), (2.0, 3.0, "nej")][:count]
    tiers = {name: spans, "andre": [(3.0, 4.0, ""), (4.0, 5.0, "tak")]}
    own = [Tier(name, [Span(*span) for span in spans])]
    other = Tier("andre", [Span(4.0, 5.0, "tak")])
    file = read(tmp_path, ".TextGrid", textgrid(tiers)[form])
    assert file.tiers == [*(own if name == "ord" else []), other]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"bl\ao b\aer, \O/ og \o/l", "blå bær, Ø og øl"),
        (r"\AErlig \Aerlig \Aose \AOse", "Ærlig Ærlig Åse Åse"),
        (r"""caf\e' f\u""r \ss fa\c,ade \n~ \S<""", "café für ß façade ñ Š"),
        (r"\N \b' c:\data", r"\N \b' c:\data"),  # none of them
    ],
)
def test_praats_trigraphs_are_letters(tmp_path: Path, written: str, text: str) -> None:
    tiers = textgrid({"ord": [(0, 1, written)]})["short"]
    assert said(read(tmp_path, ".TextGrid", tiers)) == [(text, None)]


def test_labels_of_no_speech_in_tiers_have_a_fault(tmp_path: Path) -> None:
    labels = ("silent", "sounding", "sil", "SP", "xxx")
    spans = [(float(number), number + 1.0, text) for number, text in enumerate((*labels, "ja sp"))]
    (tier,) = read(tmp_path, ".TextGrid", textgrid({"ord": spans})["short"]).tiers
    assert [span.fault for span in tier.spans] == ["a label, no speech"] * 5 + [None]
    tiers = read(tmp_path, ".eaf", elan().replace("farvel", "xxx").replace("goddag", "silt")).tiers
    assert [span.fault for tier in tiers for span in tier.spans if span.fault] == [
        "a label, no speech"
    ]


@pytest.mark.parametrize(
    ("text", "has_times"),
    [
        ("[00:00.000 --> 00:01.000]  Hej", True),
        ("00:00.0 --> 00:01.0 Hej", True),
        ("Møde\n00:00:01 Anna\nja", True),
        ("[00:12] ja", True),
        ("0:00\nja\n0:05\nnej", True),
        ("10:30 gik toget", False),
        ("toget gik 10:30:15\nog kom", False),
        ("1:0\n2:1", False),
    ],
)
def test_a_text_with_clock_times_has_a_fault(tmp_path: Path, text: str, *, has_times: bool) -> None:
    (tier,) = read(tmp_path, ".txt", text).tiers
    assert tier.spans[0].fault == ("clock times, not plain text" if has_times else None)


def test_a_textgrid_may_have_no_tiers_or_quotes_in_a_text(tmp_path: Path) -> None:
    empty = GRID[: GRID.index("<exists>")] + "<absent>"
    assert read(tmp_path, ".TextGrid", empty).tiers == []
    tiers = textgrid({"ord": [(0, 1, 'han sagde ""ja""')]})["short"].encode("utf-16")
    assert said(read(tmp_path, ".TextGrid", tiers)) == [('han sagde "ja"', None)]


@pytest.mark.parametrize(("origin", "shift"), [("", 0.0), ('TIME_ORIGIN="250"', 0.25)])
def test_elans_tiers_have_speakers_and_times(tmp_path: Path, origin: str, shift: float) -> None:
    file = read(tmp_path, ".eaf", elan(origin))
    assert file.media == {"Anna.wav": shift}
    assert file.tiers == [
        Tier("pos", [Span(0.5, 1.0, "intj"), Span(1.0, 1.5, "verb")], kind="r"),
        Tier("ord", [Span(0.5, 1.0, "goddag"), Span(1.0, 1.5, "hej")], kind="w"),
        Tier("A", [Span(0.5, 1.5, "goddag & hej")], "Anna", "t"),
        Tier("B", [Span(2.0, 3.0, "farvel"), Span(3.0, None, "uden slut")], "Bo", "t"),
    ]
    blank = read(tmp_path, ".eaf", elan().replace("farvel", " ")).tiers[3].spans
    assert blank == [Span(2.0, 3.0, "", fault=NO_TEXT), Span(3.0, None, "uden slut")]
    broken = read(tmp_path, ".eaf", elan(reference="gone")).tiers[0].spans
    assert broken == [Span(0.5, 1.0, "intj"), Span(None, None, "verb")]


@pytest.mark.parametrize("form", ["srt", "vtt"])
@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("- Kom nu!", "Kom nu!"),
        ("–Nej\n— Jo", "Nej Jo"),
        (">> Nej\n>>>Jo", "Nej Jo"),
        ("-5 grader", "-5 grader"),
        (r"hun\Ncykler\hnu", "hun cykler nu"),
        (r"- ja\N- nej\N-5 grader", "ja nej -5 grader"),
        (r"{\an8}<i>ja</i>", "ja"),
        ("x < 5 og y > 3", "x < 5 og y > 3"),
        ("A &amp; B", "A & B"),
        # an arrow in a text is part of it
        ("ned til\nA -> B og hjem", "ned til A -> B og hjem"),
        *((text, text) for text in ("A -> B", "-> ud ad døren", "--> ud ad døren", "fra A --> B")),
        *((text, text) for text in ("10 -> 20 grader", "3.5 procent -> 4", "fra 10.30 -> 11.30")),
    ],
)
def test_subtitling_signs_are_no_text(tmp_path: Path, form: str, written: str, text: str) -> None:
    content = subtitles(form, (0, 1, "hej"), (2, 3, written), (4, 5, "tak"))
    assert [own for own, _ in said(read(tmp_path, f".{form}", content))] == ["hej", text, "tak"]


def test_signs_that_are_removed_are_counted(tmp_path: Path) -> None:
    content = srt((0, 1, "- Kom!\n- Nu"), (1, 2, r"ja\N- tak"), (2, 3, "<i>nej</i>"))
    signs = {"formatting": 1, r"line breaks written as \N": 1, "dashes before a text": 3}
    assert read(tmp_path, ".srt", content).removed == signs


ANNA = ["Anna Jensen: hej 0", "Anna Jensen: hej 1", "Anna Jensen: hej 2"]


@pytest.mark.parametrize("form", ["srt", "vtt"])
@pytest.mark.parametrize(
    ("texts", "people", "first"),
    [
        (["Anna: i\n1987", "Bo: nej", "Anna: i\n1988"], ["Anna", "Bo", "Anna"], "i 1987"),
        (["Anna: ja", "nej", "Anna: tak"], [None] * 3, "Anna: ja"),
        (["Husk: køb mælk"], [None], "Husk: køb mælk"),
        (["Bo: ja", "Anna: tak"], [None] * 2, "Bo: ja"),
        (["Bo: - ja", "Ida: -5 grader", "Bo: –nej"], ["Bo", "Ida", "Bo"], "ja"),
        ([">> Bo: ja", ">> Ida: nej", ">> Bo: nå"], ["Bo", "Ida", "Bo"], "ja"),
        (["Bo: -5 grader", "Ida: ja", "Bo: nej"], ["Bo", "Ida", "Bo"], "-5 grader"),
        # A cue of several has no speaker; what is no name here is said.
        (
            ["Bo: ja\nIda: - nej", "Ida: så\nHusk: ja", "Bo: a\nBo: b"],
            [None, "Ida", "Bo"],
            "ja nej",
        ),
        (["ja\nBo: nej", *["Bo: ja"] * 3], [None, *["Bo"] * 3], "ja nej"),
        (["Bo: a\nIda: b"] * 3, [None] * 3, "a b"),
        (["ja\nIda: nej"] * 3, [None] * 3, "ja nej"),
        (["ja\nIda: nej"] * 2, [None] * 2, "ja Ida: nej"),
        (["ja\nog så: nej"] * 3, [None] * 3, "ja og så: nej"),
        (ANNA, ["Anna Jensen"] * 3, "hej 0"),  # as Zoom writes them
        ([*ANNA, "nå", "husk: blæst"], [*["Anna Jensen"] * 3, None, None], "hej 0"),
        (["Bo: ja", "", "Anna: nej", "Bo: nå"], ["Bo", None, "Anna", "Bo"], "ja"),
        (["Nummer et: ja", "Nummer to: nej", "Nummer tre: nå"], [None] * 3, "Nummer et: ja"),
        (["[S_1]: ja", "[S_2]: nej", "[S_1]: nå"], ["S_1", "S_2", "S_1"], "ja"),
        (["[latter] ja"] * 3, [None] * 3, "[latter] ja"),
        (["Bo:", "Anna: ja", "Bo: nej", "Anna: tak"], ["Bo", "Anna", "Bo", "Anna"], ""),
        (["[Ida]:", *["[Bo]: ja"] * 2], ["Ida", "Bo", "Bo"], ""),
        (["<v Ida>", "<v Bo>ja"], ["Ida", "Bo"], ""),
        (["Og han sagde:", "Nej", "ja"], [None] * 3, "Og han sagde:"),
    ],
)
def test_names_before_all_cues_or_before_three_are_speakers(
    tmp_path: Path, form: str, texts: list[str], people: list[str | None], first: str
) -> None:
    cues = [(2 * number, 2 * number + 1, text) for number, text in enumerate(texts)]
    found = said(read(tmp_path, f".{form}", subtitles(form, *cues).rstrip()))
    assert [speaker for _, speaker in found] == people
    assert found[0][0] == first
    if "1988" in texts[-1]:  # that is no number of a cue
        assert found[-1][0] == "i 1988"


def test_a_name_that_occurs_once_is_a_speaker_in_zooms_files_and_else_counted(
    tmp_path: Path,
) -> None:
    texts = ["Anna Hansen: hej", "Bo: nej", "husk: blæst", "ja", "Ida:"]
    cues = [(2 * number, 2 * number + 1, text) for number, text in enumerate(texts)]
    zooms = read(tmp_path, ".transcript.vtt", subtitles("vtt", *cues))
    assert said(zooms)[:3] == [("hej", "Anna Hansen"), ("nej", "Bo"), ("blæst", "husk")]
    assert said(zooms)[4] == ("", "Ida")
    other = read(tmp_path, ".vtt", subtitles("vtt", *cues))
    assert said(other)[0] == ("Anna Hansen: hej", None)
    few = read(tmp_path, ".srt", srt((0, 1, "Bo: ja"), (2, 3, "nej")))
    assert [kept_names(file.tiers[0].spans) for file in (zooms, other, few)] == [0, 4, 0]
    assert zooms.named == {"Anna Hansen": 1, "Bo": 1, "husk": 1, "Ida": 1}
    assert other.named == {}


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        (["[Anna] hej", "[Bo] nej", "ja"], 2),
        (["[S_1]: hej", "[S_2]: nej", "ja"], 2),
        (["Bo:hej", "Ida:nej", "Kl:10"], 2),
        (["Bo: hej"] * 3 + ["ja"] * 5, 3),  # as in cues
        (["Bo: hej"] * 2 + ["[latter] hej"] * 2 + ["ja"] * 5, 0),
    ],
)
def test_names_that_most_texts_have_or_that_recur_are_counted(texts: list[str], count: int) -> None:
    assert kept_names([Span(0.0, 1.0, text) for text in texts]) == count


def test_names_that_stay_beside_speakers_are_counted() -> None:
    texts = [Span(0.0, 1.0, text) for text in ("Bo: ja", "[Ida] nej", "jo", "ja tak", "nå da")]
    assert kept_names(texts) == 0
    assert kept_names([*texts, Span(1.0, 2.0, "Eva: ja", "Anna")]) == 2


@pytest.mark.parametrize(
    "name",
    [
        *("Bo H. Hansen", "Dr. Kirsten Holm", "Søren Kierkegaard Andersen Møller", "ida@dtu.dk"),
        *("Mødelokale 3.12", "Prof. Nielsen (KU)", "+45 12345678", "Anna Jensen (hun/hende)"),
    ],
)
def test_a_name_may_have_initials_titles_and_an_address(tmp_path: Path, name: str) -> None:
    cues = [(0, 1, f"{name}: hej"), (2, 3, "ja. Og: nå"), (4, 5, "tak")]
    zooms = read(tmp_path, ".transcript.vtt", subtitles("vtt", *cues))
    assert said(zooms)[0] == ("hej", name)
    cues[1:] = [(2 * number, 2 * number + 1, f"{name}: ja {number}") for number in (1, 2)]
    assert said(read(tmp_path, ".srt", srt(*cues)))[0] == ("hej", name)


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
    assert said(read(tmp_path, ".vtt", VTT)) == [("blå & grøn", "Anna"), ("nej", "Bo")]
    again = VTT.replace("<b>", "<v Anna>").replace("<v Bo>", "<v S&oslash;ren &amp; Bo>")
    assert [speaker for _, speaker in said(read(tmp_path, ".vtt", again))] == ["Anna", "Søren & Bo"]
    windows = read(tmp_path, ".vtt", VTT.replace("\n", "\r\r\n"))
    assert said(windows) == [("blå & grøn", "Anna"), ("nej", "Bo")]
    stream = VTT.replace("\n", "\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:0\n", 1)
    assert said(read(tmp_path, ".vtt", stream)) == [("blå & grøn", "Anna"), ("nej", "Bo")]
    close = "WEBVTT\n\n" + srt((0, 1, "en"), (2, 3, "to")).replace("\n\n", "\n")
    assert said(read(tmp_path, ".vtt", close)) == [("en", None), ("to", None)]
    both = VTT.replace("<b>", "<v Carl>")
    assert said(read(tmp_path, ".vtt", both))[0] == ("blå & grøn", None)
    assert said(read(tmp_path, ".vtt", "WEBVTT")) == []


def test_texts_behind_an_empty_line_of_webvtt_are_counted(tmp_path: Path) -> None:
    file = read(
        tmp_path, ".vtt", VTT.replace("slut\n", "og rød\n\n  NOTE igen\n\nslut\n") + "\n\nå"
    )
    assert said(file) == [("blå & grøn", "Anna"), ("nej", "Bo")]
    assert file.removed[OUTSIDE] == 2
    assert read(tmp_path, ".vtt", VTT).removed[OUTSIDE] == 0


@pytest.mark.parametrize(
    "form",
    [
        *("no numbers", "CR", "CRLF", "CRCRLF", "text with a blank line"),
        *("numbers with a blank line", "a header", "two marks of UTF-8", "a form feed", "WebVTT"),
    ],
)
def test_subrip_of_any_program_is_read(tmp_path: Path, form: str) -> None:
    content = srt((0, 1, "en to"), (2, 3, "tre"))
    changed = {
        "no numbers": re.sub(r"^\d+\n", "", content, flags=re.MULTILINE),
        "CR": content.replace("\n", "\r"),
        "CRLF": "\ufeff" + content.replace("\n", "\r\n"),
        "CRCRLF": content.replace("\n", "\r\r\n"),
        "numbers with a blank line": re.sub(r"^(\d+)\n", r"\1\n\n", content, flags=re.MULTILINE),
        "text with a blank line": content.replace("en to", "en\n\nto"),
        "a header": f"Tekst: Anna\n\n{content}",
        "two marks of UTF-8": f"\ufeff\ufeff{content}",
        "a form feed": f"\f{content}",
        "WebVTT": f"WEBVTT\n\n{content}".replace("en to", "en to\n\nNOTE hej"),
    }[form]
    (tier,) = read(tmp_path, ".srt", changed).tiers
    assert tier.spans == [Span(0.0, 1.0, "en to"), Span(2.0, 3.0, "tre")]


def test_a_number_is_a_text_of_subrip_unless_it_is_that_of_a_cue(tmp_path: Path) -> None:
    content = srt((0, 1, "12"), (2, 3, "i\n1984"), (4, 5, "13"))
    texts = ["12", "i 1984", "13"]
    assert [text for text, _ in said(read(tmp_path, ".srt", content))] == texts
    without = re.sub(r"^\d\n", "", content, flags=re.MULTILINE)
    for content in (without, without.replace("\n\n", "\n")):
        assert [text for text, _ in said(read(tmp_path, ".srt", content))] == texts


@pytest.mark.parametrize("form", ["srt", "vtt"])
def test_cues_that_repeat_the_lines_before_are_refused(tmp_path: Path, form: str) -> None:
    lines = ["en to", "tre", "fire fem", "seks", "syv"]
    said_once = subtitles(form, *((n, n + 1, f"ja\n{line}") for n, line in enumerate(lines)))
    read(tmp_path, f".{form}", said_once)
    rolling = [(n, n + 1, "\n".join(lines[max(0, n - 1) : n + 1])) for n in range(5)]
    read(tmp_path, f".{form}", subtitles(form, *rolling[:3]))
    others = [(n, n + 1, "nej\nja") for n in range(5, 9)]
    read(tmp_path, f".{form}", subtitles(form, *rolling, *others))
    read(tmp_path, f".{form}", subtitles(form, *((n, n + 1, "ja") for n in range(5))))
    for cues in (rolling, [*rolling, *others[:3]]):  # most of those that have two lines
        with pytest.raises(SourceError, match=r"anna.*repeat"):
            read(tmp_path, f".{form}", subtitles(form, *cues))


TWO = srt((0, 1, "ja"), (2, 3, "to"))
LONG = textgrid({"ord": [(0, 1, "en"), (2, 3, "to")]})["long"]


@pytest.mark.parametrize(
    ("suffix", "content", "reason"),
    [
        (".TextGrid", textgrid({"ord": [(0, 1, "sæl")]})["short"].encode("latin-1"), "UTF-8"),
        (".TextGrid", GRID.replace("\n0\n", "\n2\n", 1), "begins at 2 s"),
        (".TextGrid", "no grid", "no complete"),
        (".TextGrid", '"ooTextFile" "Pitch"', "holds 'ooTextFile'"),
        (".TextGrid", GRID[:-10], "no complete"),
        (".TextGrid", FORMATS["textgrid"](transcript())[:120], "no complete"),
        (".TextGrid", LONG.replace("xmin = 1\n", "").replace("\n", "\r\n"), r"line 17 has \"en\""),
        (".TextGrid", LONG.replace('text = "en"\n', ""), "line 19 has 2 "),
        (".TextGrid", LONG.replace("xmin = 2", 'xmin = "2"'), r"line 20 has \"2\""),
        (".TextGrid", b"ooBinaryFile\x08TextGrid", "Save as text file"),
        (".eaf", elan()[:700], "cannot be read"),
        (".srt", "ja tak", "no times"),
        (".srt", "", "no times"),
        (".vtt", "WEBVTT\n\nja tak\n", "no times"),
        (".srt", TWO.replace("02,000", "02"), "line 6 has no"),
        (".srt", TWO.replace("00:00:02", "OO:00:02"), "line 6 has no"),
        (".srt", TWO.replace("ja", "00:00:00,5 --> 00:00:00,9"), "line 3 has times in place"),
        (".srt", "1\n00:00:00,5 -> 00:00:01\nja\n", "line 2 has no"),
        (".vtt", VTT.replace("00:03.000", "0003.000"), "line 10 has no"),
        (".srt", TWO.replace("00,000", "00:12"), "line 2 has no"),  # frames
        (".srt", TWO.replace("00:00,000", "00:00;12").replace("-->", "->"), "line 2 has no"),
        (
            ".vtt",
            VTT.replace("\n", "\nX-TIMESTAMP-MAP=MPEGTS:9,LOCAL:00:00:00.000\n", 1),
            "line 2 ",
        ),
        (".vtt", VTT.replace("\n", "\nX-TIMESTAMP-MAP=LOCAL:00:01.000,MPEGTS:0\n", 1), "line 2 "),
        (".json", "[]", "segments"),
        (".json", '{"segments": {}}', "segments"),
        (".txt", "0 32000 hun cykler\n", "TIMIT"),
        (".txt", "0.7\t2.3\thun cykler\n", "Audacity.*path,start,end,text"),
        (".txt", "nej\ntå".encode("latin-1"), "UTF-8.*'tå'.*iconv -f CP1252"),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong(
    tmp_path: Path, suffix: str, content: str | bytes, reason: str
) -> None:
    with pytest.raises(SourceError, match=rf"anna\{suffix}: .*({reason})"):
        read(tmp_path, suffix, content)
