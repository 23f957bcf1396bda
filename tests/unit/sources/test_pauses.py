"""Utterances of timed text that are too long, divided at the pauses between their words."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from danish_asr.base.errors import DatasetError, SourceError
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from danish_asr.corpus.sources import SourceOptions, open_source
from danish_asr.corpus.sources.base import Source, Utterance
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.formats import FORMATS, SUFFIXES
from tests.builders import tone

DIVIDED = SourceOptions(corpus="own", split="train", divide=5.0)

# A word each half a second; after each fourth one a pause of 1 s, and one of 2 s after the 12th.
STARTS = [0.5 * n + (n // 4) + (n // 12) for n in range(24)]
WORDS = [Word(f"ord{n}," if n % 3 else "ja", start, start + 0.4) for n, start in enumerate(STARTS)]
SPOKEN = Transcript(
    20.0,
    [Segment(0.0, 18.5, WORDS), Segment(19.0, 20.0, [Word("slut", 19.0, 20.0)])],
    "anna.wav",
)


def read_all(source: Source) -> list[Utterance]:
    return [row for file in source.files for row in source.read(file, 0, file.rows)]


def write(folder: Path, kind: str, text: str) -> Path:
    (folder / "anna.wav").write_bytes(tone(20.0, rate=16_000))
    (folder / f"anna{SUFFIXES[kind]}").write_text(text, encoding="utf-8")
    return folder


def whisper(_: Transcript) -> str:
    segments = [
        {
            "start": segment.start,
            "end": segment.end,
            "text": " " + segment.text,
            "words": [
                {"word": f" {w.text}", "start": w.start, "end": w.end} for w in segment.words
            ],
        }
        for segment in SPOKEN.segments
    ]
    return json.dumps({"text": "", "segments": segments})


@pytest.mark.parametrize(
    ("kind", "form"),
    [("json", FORMATS["json"]), ("textgrid", FORMATS["textgrid"]), ("json", whisper)],
    ids=["our own JSON", "our own TextGrid", "Whisper's JSON"],
)
def test_a_long_text_is_divided_in_the_middle_of_pauses(
    tmp_path: Path, kind: str, form: object
) -> None:
    assert callable(form)
    rows = read_all(open_source(str(write(tmp_path, kind, form(SPOKEN))), DIVIDED))
    *parts, last = rows
    assert " ".join(row.text or "" for row in parts) == SPOKEN.segments[0].text
    assert last.text == "slut"
    assert not any(row.refused for row in rows)
    assert 4 <= len(parts) <= 6
    ends = [row.start + (row.seconds or 0.0) for row in parts]
    assert all((row.seconds or 9.0) <= 5.0 for row in parts)
    assert [row.start for row in parts[1:]] == pytest.approx(ends[:-1])
    middles = [(a.end + b.start) / 2 for a, b in pairwise(WORDS) if b.start - a.end > 0.2]
    assert {round(row.start, 3) for row in parts[1:]} <= {round(middle, 3) for middle in middles}
    said = {round(word.start, 3): word.text for word in WORDS}
    for row, end in zip(parts, ends, strict=True):
        inside = [text for start, text in said.items() if row.start <= start < end]
        assert row.text == " ".join(inside)


def test_a_corrected_text_is_kept_and_divided_where_the_words_are_still_those_of_the_times(
    tmp_path: Path,
) -> None:
    written = FORMATS["textgrid"](SPOKEN)
    whole = SPOKEN.segments[0].text
    corrected = whole.replace("ord11,", "noget helt andet").replace("ord5,", "")
    text = written.replace(f'"{whole}"', f'"{corrected}"')
    rows = read_all(open_source(str(write(tmp_path, "textgrid", text)), DIVIDED))
    assert " ".join(row.text or "" for row in rows[:-1]).split() == corrected.split()
    longest_pause = WORDS[12].start  # beside it is a word that was corrected
    assert not any(abs(row.start - longest_pause) < 1.5 for row in rows)


@pytest.mark.parametrize("kind", ["srt", "vtt", "json"])
def test_without_times_of_words_the_ledger_names_the_command_that_writes_them(
    tmp_path: Path, kind: str
) -> None:
    text = "1\n00:00:00,000 --> 00:00:18,000\nja tak\n\n2\n00:00:18,500 --> 00:00:20,000\nnej\n"
    if kind == "vtt":
        text = "WEBVTT\n\n" + text.replace(",", ".")
    if kind == "json":
        segments = [
            {"start": 0, "end": 18, "text": "ja tak"},
            {"start": 18.5, "end": 20, "text": "nej"},
        ]
        text = json.dumps({"segments": segments})
    source = open_source(str(write(tmp_path, kind, text)), DIVIDED)
    assert [row.refused for row in read_all(source)][1] is None
    with pytest.raises(DatasetError, match="danish-asr align"):
        convert(source, tmp_path / "out", name="x")
    inventory = convert(source, tmp_path / "out", name="x", options=ConvertOptions(max_drop=0.5))
    assert inventory.rows == 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda word: {"start": word.start * 1000, "end": word.end * 1000},
        lambda word: {"start": word.start + 9, "end": word.end + 9},
        lambda word: {"start": 20 - word.start, "end": 20.4 - word.start},
        lambda word: {"start": word.start, "end": word.start - 0.3},
        lambda _: {"start": "NaN", "end": None},
    ],
    ids=["milliseconds", "of another place", "backwards", "ends first", "no numbers"],
)
def test_words_whose_times_are_not_those_of_their_text_cut_nothing(
    tmp_path: Path, wrong: Callable[[Word], dict[str, object]]
) -> None:
    words = [{"word": word.text} | wrong(word) for word in WORDS]
    segment = {"start": 0.0, "end": 18.5, "text": SPOKEN.segments[0].text, "words": words}
    text = json.dumps({"segments": [segment]})
    (row,) = read_all(open_source(str(write(tmp_path, "json", text)), DIVIDED))
    assert "danish-asr align" in str(row.refused)


def test_signs_between_words_are_no_words(tmp_path: Path) -> None:
    written = FORMATS["textgrid"](SPOKEN)
    whole = SPOKEN.segments[0].text
    text = written.replace(f'"{whole}"', f'"{whole.replace(" ", " – ")}"')
    rows = read_all(open_source(str(write(tmp_path, "textgrid", text)), DIVIDED))
    assert not any(row.refused for row in rows)
    assert all((row.seconds or 9.0) <= 5.0 for row in rows)


def test_a_file_of_single_words_is_noted(tmp_path: Path) -> None:
    words = [Segment(n * 0.5, n * 0.5 + 0.4, [Word(f"ord{n}", 0, 0)]) for n in range(20)]
    text = FORMATS["srt"](Transcript(20.0, words, "anna.wav"))
    source = open_source(
        str(write(tmp_path, "srt", text)), SourceOptions(corpus="x", split="train")
    )
    assert any("single word" in note for note in source.notes)


def test_times_in_quotes_are_times(tmp_path: Path) -> None:
    text = whisper(SPOKEN).replace('"end": 0.4}', '"end": "0.4"}')
    assert '"0.4"' in text
    rows = read_all(open_source(str(write(tmp_path, "json", text)), DIVIDED))
    assert not any(row.refused for row in rows)


def test_words_without_a_pause_are_not_cut(tmp_path: Path) -> None:
    words = [Word(f"ord{n}", n * 0.5, n * 0.5 + 0.5) for n in range(20)]
    text = FORMATS["json"](Transcript(20.0, [Segment(0.0, 10.0, words)], "anna.wav"))
    (row,) = read_all(open_source(str(write(tmp_path, "json", text)), DIVIDED))
    assert "no pause" in str(row.refused)


def test_segments_of_a_word_each_are_no_utterances(tmp_path: Path) -> None:
    chunks = [{"text": f" ord{n}", "timestamp": [n / 2, n / 2 + 0.4]} for n in range(30)]
    write(tmp_path, "json", json.dumps({"text": "ord", "chunks": chunks}))
    with pytest.raises(SourceError, match="return_timestamps=True"):
        open_source(str(tmp_path), SourceOptions(corpus="own", split="train"))


def test_division_is_refused_where_there_are_no_times_of_words(tmp_path: Path) -> None:
    (tmp_path / "0.wav").write_bytes(tone(1.0, rate=16_000))
    (tmp_path / "0.txt").write_text("ja")
    with pytest.raises(SourceError, match="--divide"):
        open_source(str(tmp_path), DIVIDED)
