import io
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray
from rich.console import Console

from danish_asr.base.errors import AlignmentError
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.find_text import Piece, align, report_doubts
from danish_asr.inference.loose_text import Line
from danish_asr.inference.model import Heard, Model
from tests.decoding_inputs import SURE, log_probs_of

SENTENCES = ("Bo køber 25 røde æbler, ja.", "– «Èn» dag – i Ribe!")


def hears(
    monkeypatch: pytest.MonkeyPatch, model: Model, windows: Sequence[tuple[float, str, str]]
) -> None:
    """Let a model hear windows: their starts, the symbol of each frame, and its text."""
    heard = [
        Heard(at, False, log_probs_of(path, model.tokenizer), [Word(text, at, at)])  # noqa: FBT003
        for at, path, text in windows
    ]
    monkeypatch.setattr(model, "hear", lambda _, **__: iter(heard))


@pytest.fixture
def audio(speech: NDArray[np.float32], tmp_path: Path) -> Path:
    soundfile.write(tmp_path / "speech.wav", speech, 16_000)
    return tmp_path / "speech.wav"


def test_the_words_of_a_text_are_kept_as_written_and_timed_in_order(
    model: Model, audio: Path
) -> None:
    transcript = align(model, audio, [Line(text) for text in (*SENTENCES, "* * *")])
    # A dash is not spoken, and the last line has no word at all.
    assert [word.text for word in transcript.words] == [
        *("Bo", "køber", "25", "røde", "æbler,", "ja."),
        *("– «Èn»", "dag –", "i", "Ribe!"),
    ]
    assert [segment.text for segment in transcript.segments] == list(SENTENCES)
    times = [time for word in transcript.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert times[0] > 0.6
    assert times[-1] < transcript.duration - 0.6
    assert all(0 <= (word.confidence or 0) <= 1 for word in transcript.words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("...", "0 of the 0 words"),
        ("Нет, это не датский текст", r"0 of the 5 words .*Нет"),
        ("rødgrød med fløde " * 1000, r"needs at least .* s of audio"),
    ],
)
def test_a_text_that_cannot_be_aligned_is_refused(
    model: Model, audio: Path, text: str, message: str
) -> None:
    with pytest.raises(AlignmentError, match=message):
        align(model, audio, [Line(text)])


def test_audio_without_speech_is_refused(model: Model, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(16_000), 16_000)
    with pytest.raises(AlignmentError, match="no speech found in 1"):
        align(model, tmp_path / "a.wav", [Line("hej")])


def test_a_window_that_is_badly_heard_divides_no_text(
    model: Model, audio: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model hears "j" where "ja nej" is said, and then "ej hej" where "hej" is said."""
    said = [(0.0, "_j_a_ _n_e_j_", "j"), (3.0, "_h_e_j_", "ej hej")]
    hears(monkeypatch, model, said)
    transcript = align(model, audio, [Line("ja"), Line("nej", "bo"), Line("hej")])
    assert [round(word.start, 2) for word in transcript.words] == [0.0, 0.11, 2.98]
    assert [round(word.end, 2) for word in transcript.words] == [0.11, 0.28, 3.14]
    assert [own.speaker for own in transcript.segments] == [None, "bo", None]
    assert transcript.words[0].confidence == pytest.approx(SURE**3)  # two letters and the space
    assert transcript.about == {"model": model.name, "aligned": True}


def test_parts_of_the_text_in_another_order_are_timed_each_for_itself(
    model: Model, audio: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text has what is said in the windows 2, 3, 0 and 1; nobody says its first line."""
    said = ["vi spiller musik", "fra fyn og lolland", "i dag tales der om", "vejret her ude"]
    paths = ["______" + "".join(f"{letter}_" for letter in text) for text in said]
    hears(monkeypatch, model, [(3.0 * n, paths[n], said[n]) for n in range(4)])
    lines = [Line("nå"), *(Line(said[number]) for number in (2, 3, 0, 1))]
    segments = align(model, audio, lines).segments
    assert [segment.text for segment in segments] == [*said[:2], "nå", *said[2:]]
    starts = [segment.start for segment in segments if segment.text != "nå"]
    assert starts == pytest.approx([0.1, 3.1, 6.1, 9.1], abs=0.05)


@pytest.mark.parametrize(
    ("doubtful", "words", "is_refused"),
    [(11, 20, True), (10, 20, False), (19, 19, False), (0, 20, False)],
)
def test_a_text_of_which_most_is_hardly_heard_is_refused(
    doubtful: int, words: int, *, is_refused: bool
) -> None:
    said = [Word("ja", n, n + 1, 0.09 if n < doubtful else 0.1) for n in range(words)]
    printed = Console(file=io.StringIO(), width=200)
    with pytest.raises(AlignmentError) if is_refused else nullcontext() as refusal:
        report_doubts(Transcript(60.0, [Segment.of(said)]), printed)
    shown = str(refusal.value) if refusal else printed.file.getvalue()  # type: ignore[attr-defined]
    assert shown.startswith(f"{doubtful} of {words} words" if doubtful else "")
    assert bool(shown) is bool(doubtful)


@pytest.mark.parametrize(
    ("longest", "parts"),
    [
        (3.0, [(10.0, "a b c", 13.0)]),
        (2.9, [(10.0, "a", 10.7), (10.7, "b c", 13.0)]),
        (0.5, [(10.0, "a", 10.7), (10.7, "b", 12.0), (12.0, "c", 13.0)]),
    ],
)
def test_speech_is_cut_in_the_middle_of_pauses(
    longest: float, parts: list[tuple[float, str, float]]
) -> None:
    words = [Word("a", 10, 10.5), Word("b", 10.9, 11.5), Word("c", 12.5, 13)]
    pieces = [*Piece(10.0, words, torch.zeros(150, 4)).divide(longest)]
    texts = [" ".join(word.text for word in one.words) for one in pieces]
    places = [(one.start, one.end) for one in pieces]
    assert texts == [text for _, text, _ in parts]
    assert np.allclose(places, [(start, end) for start, _, end in parts])
