"""Turns of RTTM files, given to the words of a transcript."""

from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest

from danish_asr.base.errors import DanishAsrError
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.recordings import Recording
from danish_asr.inference.speakers import Turn, Turns, read_rttm, read_speakers


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
    spoken = {at: turns.speaker_of(Word("ja", at - 0.1, at + 0.1)) for at in middles}
    assert spoken == middles
    apart = Turns([Turn(0, 1, "anna"), Turn(3, 4, "bo")])
    assert [apart.speaker_of(word) for word in words(1.7, 1.9)] == ["anna", "bo"]


def test_a_segment_is_divided_where_its_speaker_changes() -> None:
    turns = Turns([Turn(0, 2, "anna"), Turn(2, 3, "bo"), Turn(3, 9, "anna")])
    transcript = Transcript(9.0, [Segment(0, 4.4, words(0, 1, 2.1, 3, 4))])
    parts = turns.divide(transcript).segments
    assert [(p.speaker, p.text) for p in parts] == [
        ("anna", "w0 w1"), ("bo", "w2.1"), ("anna", "w3 w4")
    ]  # fmt: skip
    assert [(p.start, p.end) for p in parts] == [(0, 1.4), (2.1, 2.5), (3, 4.4)]
    assert Turns([]).divide(transcript) == transcript


def test_rttm_has_turns_of_several_recordings_whose_names_and_speakers_may_have_spaces(
    tmp_path: Path,
) -> None:
    path = tmp_path / "all.rttm"
    path.write_text(
        ";; comment\n\nSPKR-INFO a 1 <NA> <NA> <NA> unknown x <NA>\n"
        "SPEAKER a 1 0.5 2 <NA> <NA> speaker_1 <NA> <NA>\n"
        "SPEAKER møde 3 maj 1 1. 1 <NA> <NA> Mette Øst\n"
        "SPEAKER 1 2 3 1 0 1.5 <NA> <NA> speaker 2 0.93 <NA>\n"
        "SPEAKER a <NA> 0 0.25 <NA> <NA> <NA> x <NA> <NA>\n",
        encoding="utf-8",
    )
    assert read_rttm(path) == {
        "a": [(0.5, 2.5, "speaker_1"), (0, 0.25, "<NA> x")],
        "møde 3 maj": [(1, 2, "Mette Øst")],
        "1 2 3": [(0, 1.5, "speaker 2")],
    }


def recordings(*names: str) -> list[Recording]:
    return [Recording(Path(f"in/{name}.wav"), Path(name), Path(name)) for name in names]


def speakers(source: Path, *names: str) -> list[str]:
    """Who says a word at 0 s in each recording."""
    turns = read_speakers(source, recordings(*names)).values()
    return [own.speaker_of(words(0)[0]) for own in turns]


def test_a_recording_has_the_turns_of_its_name_or_of_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "turns"
    both = rttm(folder, "both.rttm", ("a", 0, 1, "x"), ("b", 0, 1, "y"))
    assert speakers(both, "b", "a") == ["y", "x"]
    rttm(folder, "c.rttm", ("waveform", 0, 1, "z"))
    assert speakers(folder, "a", "day1/c") == ["x", "z"]
    assert speakers(folder / "c.rttm", "c") == ["z"]
    assert len(read_speakers(rttm(folder, "nobody.rttm"), recordings("nobody"))) == 1


def test_recordings_of_equal_names_have_the_turns_of_their_folders(tmp_path: Path) -> None:
    for day in ("day1", "day2"):
        rttm(tmp_path / day, "001.rttm", ("001", 0, 1, f"speaker of {day}"))
    assert speakers(tmp_path, "day1/001", "day2/001") == ["speaker of day1", "speaker of day2"]
    one = rttm(tmp_path / "flat", "001.rttm", ("001", 0, 1, "x")).parent
    with pytest.raises(DanishAsrError, match=r"none of in/day1/001\.wav, in/day2/001\.wav"):
        read_speakers(one, recordings("day1/001", "day2/001"))


def test_of_several_files_that_tell_of_a_recording_that_of_its_name_counts(tmp_path: Path) -> None:
    rttm(tmp_path, "b.rttm", ("a", 0, 1, "draft"))
    with_draft = rttm(tmp_path, "c.rttm", ("a", 0, 1, "another draft")).parent
    with pytest.raises(DanishAsrError, match=r"none of in/a\.wav"):
        read_speakers(with_draft, recordings("a"))
    rttm(tmp_path, "a.rttm", ("a", 0, 1, "anna"))
    assert speakers(with_draft, "a") == ["anna"]


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_names_are_the_same_in_both_forms_of_unicode(
    tmp_path: Path, forms: tuple[Literal["NFC", "NFD"], Literal["NFC", "NFD"]]
) -> None:
    ours, theirs = (normalize(form, "Åse") for form in forms)
    rttm(tmp_path, f"{theirs}.rttm", (theirs, 0, 1, theirs))
    assert speakers(tmp_path, ours) == ["Åse"]


def test_all_recordings_without_turns_are_named_at_once(tmp_path: Path) -> None:
    rttm(tmp_path, "x.rttm", ("c", 0, 1, "x"), ("d", 0, 1, "x"))
    with pytest.raises(DanishAsrError, match=r"turns of c, d, none of in/a\.wav, in/b\.wav"):
        read_speakers(tmp_path, recordings("a", "b"))
    with pytest.raises(DanishAsrError, match=r"gone\.rttm"):
        read_speakers(tmp_path / "gone.rttm", recordings("a"))


@pytest.mark.parametrize(
    "line",
    [
        "1\t00:00:01,000 --> 00:00:02,000",
        "SPEAKER a 1 0.5",
        "SPEAKER a 1 -1 2 <NA> <NA> s <NA> <NA>",
        "SPEAKER a 1 0 inf <NA> <NA> s <NA> <NA>",
    ],
)
def test_what_is_no_rttm_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.rttm"
    path.write_text(f"SPEAKER a 1 0 1 <NA> <NA> s <NA> <NA>\n{line}\n", encoding="utf-8")
    with pytest.raises(DanishAsrError, match=r"a\.rttm: line 2"):
        read_rttm(path)
