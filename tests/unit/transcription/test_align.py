from __future__ import annotations

import re
import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from danish_asr.base.errors import AlignmentError, DanishAsrError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.cli.app import app
from danish_asr.corpus.sources.voices import draw_speaker
from danish_asr.inference.align import align, align_file, read_text
from danish_asr.inference.model import Model
from tests.speech import speak

SENTENCES = ("Bo køber 25 røde æbler, ja.", "«Èn» dag – i Ribe!")


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sentences, with 2 s of silence before, between and after them."""
    speaker = draw_speaker(Random(1), "speaker", "Østjysk", None)
    silence = np.zeros(2 * SAMPLE_RATE, np.float32)
    parts = [silence]
    for spoken in speak(*((sentence, speaker) for sentence in SENTENCES)):
        parts += [spoken, silence]
    path = tmp_path_factory.mktemp("speech") / "speech.wav"
    soundfile.write(path, np.concatenate(parts), SAMPLE_RATE)
    return path


def test_the_words_of_a_text_are_kept_as_written_and_timed_in_order(
    model: Model, speech: Path
) -> None:
    lines = [*SENTENCES, "* * *"]
    transcript = align(model, speech, lines)
    # A dash is not spoken, and the last line has no word at all.
    assert [word.text for word in transcript.words] == [
        *("Bo", "køber", "25", "røde", "æbler,", "ja."),
        *("«Èn»", "dag –", "i", "Ribe!"),
    ]
    assert [segment.text for segment in transcript.segments] == list(SENTENCES)
    times = [time for word in transcript.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert times[0] > 1.5
    assert times[-1] < transcript.duration - 1.5
    assert all(0 <= (word.confidence or 0) <= 1 for word in transcript.words)


def test_the_command_writes_files_beside_the_audio_and_replaces_none(
    model_directory: Path, speech: Path, tmp_path: Path
) -> None:
    audio = tmp_path / "speech.wav"
    shutil.copy(speech, audio)
    command = ["align", str(audio), SENTENCES[0], "--model", str(model_directory)]
    assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
    subtitles = (tmp_path / "speech.srt").read_text("utf-8")
    assert re.search(r"\nBo køber\b.*\b25 røde æbler, ja\.\n", subtitles, re.DOTALL)
    assert '"25"' in (tmp_path / "speech.TextGrid").read_text("utf-8")
    with pytest.raises(AlignmentError, match=r"speech\.srt.*--overwrite"):
        CliRunner().invoke(app, command, catch_exceptions=False)


def test_a_text_that_is_hardly_heard_is_written_and_does_not_succeed(
    model_directory: Path, speech: Path, tmp_path: Path
) -> None:
    text = "a b c d e f g h i j k l m n o p q r s t"  # the model has random weights
    command = ["align", str(speech), text, "--model", str(model_directory), "--out", str(tmp_path)]
    with pytest.raises(AlignmentError, match=r"of 20 words have a confidence below 0\.1"):
        CliRunner().invoke(app, command, catch_exceptions=False)
    assert (tmp_path / f"{speech.stem}.srt").read_text("utf-8").count("-->") >= 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "text is empty"),
        ("...", "has no word"),
        ("Нет, это не датский текст", r"5 of the text's 5 words .*Нет"),
        ("rødgrød med fløde " * 1000, r"needs at least .* s of audio"),
    ],
)
def test_a_text_that_cannot_be_aligned_is_refused(
    model: Model, speech: Path, text: str, message: str
) -> None:
    with pytest.raises(AlignmentError, match=message):
        align(model, speech, read_text(text))


def test_audio_without_speech_is_refused(model: Model, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(16_000), 16_000)
    with pytest.raises(AlignmentError, match="no speech found in 1"):
        align(model, tmp_path / "a.wav", ["hej"])


def test_missing_files_are_named(model_directory: Path, speech: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for model, audio, text in (
        (str(model_directory), speech, f"{missing}.txt"),
        (str(model_directory), missing, "hej"),
        (str(missing), speech, "hej"),
    ):
        with pytest.raises(DanishAsrError, match="missing"):
            align_file(model, audio, text, out=tmp_path)


def test_a_text_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes("rødgrød".encode("latin-1"))
    with pytest.raises(AlignmentError, match=r"text\.txt: .*0xf8 in position 1"):
        read_text(str(path))
