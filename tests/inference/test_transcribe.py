"""`danish-asr transcribe` as its users run it, on spoken audio and a model of random weights."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from torch import Tensor

from danish_asr.base.errors import ConfigError
from danish_asr.cli import main
from danish_asr.decoding.transcript import Segment, Word
from danish_asr.inference import transcribe as command
from danish_asr.inference.transcribe import Request
from tests.builders import tone

Run = Callable[..., tuple[int, str, str]]


class Fixed:
    """A decoder that finds the same words in all speech; the model has learned nothing."""

    def __init__(self, tokenizer: object) -> None:
        pass

    def __call__(self, log_probs: Sequence[Tensor]) -> list[str]:
        return ["en to"] * len(log_probs)


FIXED = ("--decoder", f"{__name__}:Fixed")
SAID = "en to\nen to\n"
"""The text of two sentences."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speech: NDArray[np.float32]) -> Path:
    """The current directory, with three recordings and a broken one in a folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.wav", "sub/b.flac", "c.ogg"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, speech, 16_000)
    (tmp_path / "in" / "broken.mp3").write_bytes(b"no audio")
    return tmp_path


@pytest.fixture
def transcribe(
    model_directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Return status, standard output and standard error of the command."""

    def run(*arguments: str) -> tuple[int, str, str]:
        argv = ["danish-asr", "transcribe", str(model_directory), *arguments]
        monkeypatch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return int(end.value.code or 0), printed.out, printed.err

    return run


def test_the_text_of_a_single_file_is_printed_and_nothing_is_written(
    transcribe: Run, here: Path
) -> None:
    assert transcribe("in/a.wav", *FIXED)[:2] == (0, SAID)
    assert len(list((here / "in").iterdir())) == 4


def test_a_segment_is_printed_before_the_next_one_is_found(
    here: Path, model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, printed = io.BytesIO(), list[bytes]()

    class Model:
        def stream(self, _: Path) -> Iterator[Segment]:
            for word in ("en", "to"):
                yield Segment.of([Word(word, 0, 1)])
                printed.append(out.getvalue())

    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="utf-8"))
    monkeypatch.setattr("danish_asr.inference.model.load_model", lambda _: Model())
    request = Request(model=str(model_directory), load={}, options={"channels": "mix"})
    assert command.transcribe([here / "in" / "a.wav"], request)
    assert printed == [b"en\n", b"en\nto\n"]


def test_the_transcript_of_standard_input_is_printed(
    transcribe: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pipe() -> None:
        content = io.BytesIO((here / "in" / "c.ogg").read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))

    pipe()
    assert transcribe("-", *FIXED)[:2] == (0, SAID)
    pipe()
    status, printed, _ = transcribe("-", "--format", "srt", *FIXED)
    assert (status, printed.splitlines()[2]) == (0, "en to")
    for wrong in (("-", "in/a.wav"), ("-", "--out", "out"), ("-", "--format", "srt,txt")):
        status, _, report = transcribe(*wrong, *FIXED)
        assert (status, report.startswith("danish-asr: -: ")) == (1, True)


def test_the_transcript_of_a_named_pipe_is_printed(transcribe: Run, here: Path) -> None:
    os.mkfifo("pipe")
    audio = (here / "in" / "a.wav").read_bytes()
    writer = Thread(target=Path("pipe").write_bytes, args=(audio,))
    writer.start()
    assert transcribe("pipe", *FIXED)[:2] == (0, SAID)
    writer.join()
    assert transcribe("pipe", "--out", "out")[0] == 1


def test_a_folder_that_cannot_be_written_is_known_before_the_model_is_loaded(
    transcribe: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[object] = []
    monkeypatch.setattr("danish_asr.inference.model.load_model", loaded.append)
    (here / "file").touch()
    status, _, report = transcribe("in", "--out", "file/out")
    assert (status, "file/out" in report, "--out" in report) == (1, True, True)
    assert not loaded


def test_speakers_of_an_rttm_file_are_in_every_transcript_and_checked_before(
    transcribe: Run, here: Path
) -> None:
    assert transcribe("in/a.wav", "--format", "json", "--out", "times", *FIXED)[0] == 0
    segments = json.loads(Path("times/a.json").read_text())["segments"]
    change = segments[0]["words"][1]["start"]
    turn = "SPEAKER a 1 {} {} <NA> <NA> {} <NA> <NA>\n"
    turns = turn.format(0, change, "anna") + turn.format(change, 9, "bo")
    (here / "a.rttm").write_text(turns, "utf-8")
    printed = transcribe("in/a.wav", "--speakers", "a.rttm", *FIXED)
    assert printed[:2] == (0, "anna: en\nbo: to\nbo: en to\n")
    command = ("in/a.wav", "--format", "json", "--out", "out", *FIXED)
    assert transcribe(*command, "--speakers", str(here))[0] == 0
    written = json.loads((here / "out" / "a.json").read_text("utf-8"))
    assert [segment["speaker"] for segment in written["segments"]] == ["anna", "bo", "bo"]
    assert written["about"]["speakers"] == str(here)
    status, _, report = transcribe("in", "--out", "new", "--speakers", "a.rttm", *FIXED)
    assert (status, "none of" in report, Path("new/a.txt").exists()) == (1, True, False)


def test_a_folder_is_transcribed_a_broken_file_reported_and_the_rest_skipped_next_time(
    transcribe: Run, here: Path
) -> None:
    command = ("in", "--out", "out", "--format", "txt,json", *FIXED)
    Path("in/gone.wav").symlink_to("nowhere.wav")
    status, printed, report = transcribe(*command)
    assert (status, printed) == (1, "")
    assert "transcribed 3 of 5 files" in report
    assert re.search(r"failed: 2\n\s+in/broken\.mp3: .*\n\s+in/gone\.wav: ", report)
    Path("in/gone.wav").unlink()
    written = sorted(str(path.relative_to("out")) for path in Path("out").rglob("[!.]*.*"))
    assert written == ["a.json", "a.txt", "c.json", "c.txt", "sub/b.json", "sub/b.txt"]
    assert Path("out/sub/b.txt").read_text() == SAID
    (here / "in" / "broken.mp3").unlink()
    Path("out/a.txt").unlink()
    Path("out/a.json").write_text("edited")
    status, _, report = transcribe(*command)
    assert status == 0
    assert "kept, because they exist: 5 transcripts" in report
    assert "transcribed 1 of 1 files" in report
    assert Path("out/a.txt").read_text() == SAID
    assert Path("out/a.json").read_text() == "edited"
    assert "transcribed 3 of 3 files" in transcribe(*command, "--overwrite")[2]
    assert Path("out/a.json").read_text() != "edited"
    status, _, report = transcribe(*command)
    assert (status, "transcribed" in report) == (0, False)


def test_recordings_without_speech_are_named(transcribe: Run, here: Path) -> None:
    soundfile.write(here / "in" / "silent.wav", np.zeros(16_000), 16_000)
    status, _, report = transcribe("in/a.wav", "in/silent.wav", "--out", "out", *FIXED)
    assert status == 0
    assert re.search(r"no speech was found: 1\n\s+in/silent\.wav\n", report)
    assert Path("out/silent.txt").read_text() == ""
    status, printed, report = transcribe("in/silent.wav", *FIXED)
    assert (status, printed, "no speech" in report) == (0, "", True)


def test_a_given_text_is_timed_beside_the_audio_and_fails_if_it_is_hardly_heard(
    transcribe: Run, here: Path
) -> None:
    Path("text.txt").write_text("a b c d e f g h i j k l m n o p q r s t")
    command = ("in/a.wav", "--text", "text.txt")  # the model has random weights
    status, _, report = transcribe(*command)
    assert (status, "of 20 words have" in report) == (1, True)
    assert "-->" in (here / "in" / "a.srt").read_text("utf-8")
    assert '"t"' in (here / "in" / "a.TextGrid").read_text("utf-8")
    status, _, report = transcribe(*command)
    assert (status, "--overwrite" in report, "of 20 words have" in report) == (1, True, True)


_RUN = """
import sys
from danish_asr.cli import main
for command in sys.argv[1:]:
    sys.argv = ["danish-asr", *command.split()]
    try:
        main()
    except SystemExit as end:
        print(end.code or 0)
    assert not {"torch", "fairseq2"} & sys.modules.keys()
"""


def test_a_wrong_path_and_finished_work_are_known_before_torch_is_imported(tmp_path: Path) -> None:
    for name in ("a.wav", "a.txt"):
        (tmp_path / name).write_text("hej")
    (tmp_path / "config.json").touch()  # a model
    commands = {
        "transcribe gone/model a.wav": "1",
        "transcribe . gone.wav": "1",
        "transcribe . a.wav --format txt": "0",
        "transcribe . gone.wav --text a.txt": "1",
    }
    run = [sys.executable, "-c", _RUN, *commands]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*commands.values()]
    messages = [line for line in done.stderr.splitlines() if re.search("gone|kept", line)]
    assert len(messages) == len(commands)


@pytest.mark.parametrize(
    ("read", "name"),
    [
        ("hotwords", "words.txt"),
        ("lm", "unigrams.txt"),
        ("lm", "lm.json"),
        ("speakers", "turns.txt"),
        ("model", "config.yaml"),
        ("text", "text.txt"),
        ("audio", "a.txt"),
    ],
)
def test_no_transcript_replaces_what_is_read(tmp_path: Path, read: str, name: str) -> None:
    """The transcript of words.wav is words.txt, which may be a list of hotwords."""
    file = tmp_path / name
    audio = file if read == "audio" else file.with_suffix(".wav")
    for written in (audio, file, tmp_path / "config.json"):
        written.write_bytes(tone())
    if read == "speakers":
        file.write_text("SPEAKER turns 1 0 9 <NA> <NA> anna <NA> <NA>\n")
    format_ = "json" if file.suffix == ".json" else "txt"
    transcript = audio.with_suffix(f".{format_}")
    if transcript != file:
        transcript.symlink_to(file)
    decoding = {"hotwords": {"hotwords": file}, "lm": {"lm": tmp_path}}.get(read, {})
    request = Request(
        model=str(tmp_path if read == "model" else "unknown-model"),
        load={"decoder_config": decoding},
        options={},
        formats=format_,
        overwrite=True,
        speakers=file if read == "speakers" else None,
        text=file if read == "text" else None,
    )
    with pytest.raises(ConfigError, match=f"would overwrite {file}, "):
        command.transcribe([audio], request)
