import csv
import io
import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from danish_asr.base.errors import DanishAsrError
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.formats import FORMATS, make_cues, parse_formats

TEXT = "på jorden bor der mange mennesker, som taler forskelligt fra den ene egn til den anden"


def spoken(text: str, start: float = 0.0, *, pace: float = 0.3, rest: float = 0.1) -> list[Word]:
    times = itertools.count()
    return [
        Word(word, at, at + pace, 0.9)
        for word in text.split()
        for at in [start + next(times) * (pace + rest)]
    ]


def transcript(*segments: tuple[int | None, Sequence[Word]], duration: float = 60.0) -> Transcript:
    parts = [Segment(words[0].start, words[-1].end, words, channel) for channel, words in segments]
    return Transcript(duration, parts, "møde.wav", {"model": "demo"})


def babble(seed: int) -> Transcript:
    """Ten minutes of two speakers with words of 1 to 50 letters and pauses of up to 3 s."""
    draw = random.Random(seed)
    segments: list[tuple[int | None, list[Word]]] = []
    for channel in (0, 1):
        at = draw.random()
        while at < 600:
            words = []
            for _ in range(draw.randrange(1, 60)):
                length = min(50, 1 + int(draw.expovariate(0.2)))
                end = at + 0.02 + length * 0.06 * draw.random()
                words.append(Word("æ" * length, at, end))
                at = end + draw.choice((0, 0, 0.02, 0.3, 3.0)) * draw.random()
            segments.append((channel, words))
            at += draw.random()
    return transcript(*sorted(segments, key=lambda item: item[1][0].start), duration=700)


EMPTY = Transcript(3.0, [])


@pytest.mark.parametrize("seed", range(2))
def test_cues_are_short_and_those_of_a_channel_hold_all_words_in_order(seed: int) -> None:
    spoken = babble(seed)
    cues = make_cues(spoken)
    assert cues == sorted(cues, key=lambda cue: cue.start)
    for channel in (0, 1):
        own = [cue for cue in cues if cue.speaker == f"Speaker {channel + 1}"]
        assert all(a.start < a.end <= b.start for a, b in itertools.pairwise(own))
        text = " ".join(line for cue in own for line in cue.lines)
        assert text == " ".join(s.text for s in spoken.segments if s.channel == channel)
    for cue in cues:
        one_word = cue.lines[0].count(" ") == 0 and len(cue.lines) == 1
        assert len(cue.lines) <= 2
        assert one_word or max(map(len, cue.lines)) <= 42
        assert one_word or cue.end - cue.start <= 7


@pytest.mark.parametrize(
    ("first", "second", "pace", "cues"),
    [
        (20, 21, 3.4, [1]),
        (20, 22, 3.4, [2]),  # 43 characters do not fit in a line
        (42, 42, 3.4, [2]),
        (42, 43, 3.4, [1, 1]),
        (20, 21, 3.5, [1, 1]),  # 7.1 seconds
    ],
)
def test_a_cue_has_two_lines_of_42_characters_and_7_seconds(
    first: int, second: int, pace: float, cues: list[int]
) -> None:
    words = spoken(f"{'a' * first} {'b' * second}", 100.0, pace=pace, rest=0.1)
    assert [len(cue.lines) for cue in make_cues(transcript((None, words)))] == cues


def test_two_lines_are_about_as_long() -> None:
    (cue,) = make_cues(transcript((None, spoken(TEXT[:70], pace=0.1))))
    assert cue.lines == (TEXT[:34], TEXT[35:70])


@pytest.mark.parametrize(
    ("start", "times"),
    [
        (0.55, [(0, 1)]),
        (0.95, [(0, 0.95), (0.95, 1.95)]),  # a pause; the first one stays until the second
        (2.0, [(0, 1), (2, 3)]),  # or for a second
        (0.31, [(0, 1)]),
    ],
)
def test_a_cue_ends_at_a_pause_and_stays_for_a_second_unless_the_next_one_comes(
    start: float, times: list[tuple[float, float]]
) -> None:
    words = [*spoken("ja"), *spoken("nej", start)]
    assert [(cue.start, cue.end) for cue in make_cues(transcript((None, words)))] == times


def test_srt_numbers_its_cues_and_names_speakers() -> None:
    two = transcript((0, spoken("hej")), (1, spoken("goddag", 3725.5)))
    assert FORMATS["srt"](two) == (
        "1\n00:00:00,000 --> 00:00:01,000\nSpeaker 1: hej\n\n"
        "2\n01:02:05,500 --> 01:02:06,500\nSpeaker 2: goddag\n"
    )


def test_vtt_escapes_text_and_names_voices() -> None:
    odd = transcript((0, spoken("<b> R&D --> slut")))
    assert FORMATS["vtt"](odd) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\n<v Speaker 1>&lt;b&gt; R&amp;D --&gt; slut\n"
    )


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_the_speakers_of_a_diarizer(name: str) -> None:
    first, second = (Segment(at, at + 0.5, spoken("ja", at)) for at in (1.0, 3.0))
    two = Transcript(9.0, [replace(second, speaker="bo"), replace(first, speaker="anna")])
    written = FORMATS[name](two)
    expected = {
        "txt": ["bo: ja", "anna: ja"],
        "srt": ["bo: ja", "anna: ja"],
        "vtt": ["<v bo>ja", "<v anna>ja"],
        "json": ['"speaker": "bo"', '"speaker": "anna"'],
        "csv": ["ja,0.9000,bo", "ja,0.9000,anna"],
        "textgrid": ['"anna segments"', '"anna words"', '"bo segments"', '"bo words"'],
    }
    assert name in expected, "give the lines of this format"
    assert all(line in written for line in expected[name])


def test_json_is_what_the_transcript_contains_without_the_noise_of_floats() -> None:
    words = [Word("hej", 0.1 + 0.2, 0.5, 0.12345678)]
    document = json.loads(FORMATS["json"](transcript((1, words))))
    assert document["segments"][0]["words"][0] == {
        "text": "hej", "start": 0.3, "end": 0.5, "confidence": 0.123457
    }  # fmt: skip
    assert (document["file"], document["about"]) == ("møde.wav", {"model": "demo"})
    assert document["segments"][0]["channel"] == 1


def test_csv_has_a_row_per_word() -> None:
    words = [Word('"så', 0, 0.5, 0.25), Word("ja,", 0.5, 1.0)]
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](transcript((0, words))))))
    assert [row["word"] for row in rows] == ['"så', "ja,"]
    assert list(rows[0].values())[:5] == ["møde.wav", "0", "0", "0.000", "0.500"]
    assert [row["confidence"] for row in rows] == ["0.2500", ""]


@pytest.mark.parametrize(
    ("spoken", "duration", "segments", "words"),
    [
        ([], 3, '0 3 1 0.0 3 ""', '0 3 1 0.0 3 ""'),
        ([], 0, '0 0.001 1 0.0 0.001 ""', '0 0.001 1 0.0 0.001 ""'),
        (
            [Word("a", 0.2, 0.5), Word('"b"', 0.4, 0.6), Word("c", 0.45, 0.6), Word("d", 0.7, 9)],
            60,
            '0 60 3 0.0 0.2 "" 0.2 9 "a ""b"" c d" 9 60 ""',
            '0 60 6 0.0 0.2 "" 0.2 0.5 "a" 0.5 0.6 """b""" 0.6 0.7 "" 0.7 9 "d" 9 60 ""',
        ),
        (
            [Word("a", 0.1004, 0.9996)],
            3,
            '0 3 3 0.0 0.1 "" 0.1 1.0 "a" 1.0 3 ""',
            '0 3 3 0.0 0.1 "" 0.1 1.0 "a" 1.0 3 ""',
        ),
        ([Word("a", 0, 9.5)], 9, '0 9.5 1 0 9.5 "a"', '0 9.5 1 0 9.5 "a"'),  # longer than the audio
    ],
    ids=["silence", "nothing", "overlap and quotation marks", "milliseconds", "to the end"],
)
def test_the_tiers_of_a_textgrid_cover_all_time(
    spoken: list[Word], duration: float, segments: str, words: str
) -> None:
    """In Praat's short format, in which values may also be on one line."""
    channels: list[tuple[int | None, Sequence[Word]]] = [(None, spoken)] if spoken else []
    end = segments.split()[1]
    expected = (
        f'File type = "ooTextFile" Object class = "TextGrid" 0 {end} <exists> 2 '
        f'"IntervalTier" "segments" {segments} "IntervalTier" "words" {words}'
    )
    written = FORMATS["textgrid"](transcript(*channels, duration=duration))
    assert written.split() == expected.split()


@pytest.mark.parametrize(
    ("name", "expected"), [("txt", ""), ("srt", ""), ("vtt", "WEBVTT\n"), ("csv", None)]
)
def test_silence_gives_an_empty_document(name: str, expected: str | None) -> None:
    written = FORMATS[name](EMPTY)
    assert written == expected or len(written.splitlines()) == 1


def test_formats_are_listed_with_commas_in_any_case() -> None:
    assert parse_formats("SRT, txt,srt") == ["srt", "txt"]
    for names in ("str", "txt,pdf", ""):
        with pytest.raises(DanishAsrError, match=r"unknown format .*available: txt, srt, vtt"):
            parse_formats(names)
