from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from typer.testing import CliRunner

from danish_asr.base.errors import EXIT_STOPPED, DanishAsrError, SourceError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.cli.app import app
from danish_asr.corpus.shards import read_inventory
from danish_asr.corpus.sources.voices import draw_speaker
from danish_asr.decoding.transcript import Transcript, Word
from danish_asr.inference.formats import FORMATS
from danish_asr.inference.harvest.command import Settings, harvest
from danish_asr.inference.harvest.limits import Limits
from danish_asr.inference.harvest.loose_text import Line, find_text, read_text
from danish_asr.inference.harvest.matching import match
from danish_asr.inference.harvest.pieces import Candidate, Piece, divide
from danish_asr.inference.harvest.selection import select
from danish_asr.inference.model import Model
from tests.builders import tree
from tests.speech import speak

SAID = "i dag skal vi tale om vejret og bagefter spiller vi noget musik fra fyn"
TEXT = SAID.split()

EVERYTHING = Limits(max_cer=1, max_disagreement=1, min_confidence=0, min_seconds=0.1)


@pytest.mark.parametrize(
    ("hypotheses", "expected"),
    [
        (["i dag skal vi tale om vejret", "og bagefter spiller vi"], [(0, 7), (7, 11)]),
        (["idag skl vi tale m vejrt", "bagefer spilr vi noget"], [(0, 7), (8, 12)]),
        # What the text lacks has no words of it, and takes none of the next piece.
        (["skal vi tale om vejret", "zzzz xxxx", "noget musik fra fyn"], [(2, 7), (11, 15)]),
        # What is not spoken belongs to no piece.
        (["i dag skal vi", "noget musik fra fyn"], [(0, 4), (11, 15)]),
    ],
)
def test_a_piece_of_speech_finds_its_words_in_a_text_that_lacks_and_adds_some(
    hypotheses: list[str], expected: list[tuple[int, int]]
) -> None:
    stretches = [own for own in match(hypotheses, TEXT) if own and own.cer < 0.5]
    assert [own[:2] for own in stretches] == expected


def test_long_speech_is_cut_at_its_longest_pauses_and_keeps_all_words() -> None:
    times = [0.0, 1.0, 2.0, 3.5, 4.5, 5.5, 7.0, 8.0]
    words = [Word(str(number), time, time + 0.9) for number, time in enumerate(times)]
    assert [len(part) for part in divide(words, 4.0)] == [3, 3, 2]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["anna.srt"], "anna.srt"),
        (["anna.da.vtt", "annabel.srt"], "anna.da.vtt"),
        (["Anna.srt", "anna.json"], None),  # of another recording; not a transcript
    ],
)
def test_the_text_of_a_recording_has_its_name(
    tmp_path: Path, names: list[str], expected: str | None
) -> None:
    for name in names:
        (tmp_path / name).write_text("{}", encoding="utf-8")
    assert find_text(tmp_path / "anna.wav") == (expected and tmp_path / expected)
    (tmp_path / "anna.txt").touch()
    (tmp_path / "anna.wav.txt").touch()
    with pytest.raises(SourceError, match=r"anna\.txt.*keep one"):
        find_text(tmp_path / "anna.wav")


def test_subtitles_give_lines_in_the_order_of_their_times_without_sounds(tmp_path: Path) -> None:
    (tmp_path / "anna.srt").write_text(
        "1\n00:00:05,000 --> 00:00:06,000\nAnna: - Farvel\n\n"
        "2\n00:00:01,000 --> 00:00:02,000\nBo: Hej\n\n"
        "3\n00:00:03,000 --> 00:00:04,000\nBo: ♪ la la\n",
        encoding="utf-8",
    )
    assert read_text(tmp_path / "anna.srt") == [Line("Hej", "Bo"), Line("Farvel", "Anna")]


def candidate(start: float, first: int, last: int, **values: Any) -> Candidate:
    text = " ".join(TEXT[first:last])
    given = {"cer": 0.0, "confidence": 1.0, **values}
    return Candidate(text=text, start=start, end=start + 2, first=first, last=last, **given)


@pytest.mark.parametrize(
    ("matched", "utterances"),
    [
        ([candidate(0, 0, 7), candidate(2.5, 7, 15)], 1),
        ([candidate(0, 0, 7), candidate(3.5, 7, 15)], 2),  # a long pause
        ([candidate(0, 0, 6), candidate(2.5, 7, 15)], 2),  # a word between them is not spoken
        ([candidate(0, 0, 7), candidate(2.5, 7, 15, speaker="bo")], 2),
        ([candidate(0, 0, 7), candidate(2.5, 7, 15, cer=0.9)], 1),
    ],
)
def test_neighbours_are_one_utterance_and_each_word_of_the_text_is_kept_or_listed(
    matched: list[Candidate], utterances: int
) -> None:
    pieces = [Piece(start=m.start, end=m.end, hypothesis="x", matched=m) for m in matched]
    selected = select(pieces, TEXT, Limits())
    assert len(selected.utterances["text"]) == utterances
    unused = [row for row in selected.left_out if row["reason"] == "in the text only"]
    texts = [own.text for own in selected.utterances["text"]] + [row["text"] for row in unused]
    assert sorted(" ".join(texts).split()) == sorted(TEXT)


@pytest.mark.parametrize(
    ("matched", "labelled", "reason"),
    [
        (None, None, "no text"),
        (candidate(0, 0, 7, cer=0.9), None, "text and speech differ"),
        (None, candidate(0, 0, 7, cer=0.3), "the models differ"),
        (None, candidate(0, 0, 7, confidence=0.3), "the model is unsure"),
        (
            candidate(0, 0, 7, cer=0.9),
            candidate(0, 0, 7, cer=0.3),
            "text and speech differ, the models differ",
        ),
    ],
)
def test_what_is_left_out_has_its_reason_with_value_and_limit(
    matched: Candidate | None, labelled: Candidate | None, reason: str
) -> None:
    piece = Piece(start=0, end=2, hypothesis="x", matched=matched, labelled=labelled)
    (row,) = select([piece], [], Limits()).left_out
    assert row["reason"] == reason
    if matched:
        assert (row["cer"], row["max_cer"]) == (0.9, Limits().max_cer)
    if labelled:
        assert row["disagreement"] == labelled.cer
        assert row["min_confidence"] == Limits().min_confidence


@pytest.fixture(scope="module")
def radio(tmp_path_factory: pytest.TempPathFactory, model: Model) -> Path:
    """Recordings with what the model writes as subtitles: the first cue false, the second missing.

    The last recording has no text.
    """
    folder = tmp_path_factory.mktemp("radio")
    random = Random(1)
    speakers = [draw_speaker(random, "speaker", "Østjysk", None) for _ in range(20)]
    spoken = speak(*(("Bo køber femogtyve røde æbler på Fyn", speaker) for speaker in speakers))
    silence = np.zeros(SAMPLE_RATE, np.float32)
    for number in range(4):
        parts = [part for own in spoken[5 * number :][:5] for part in (own, silence)]
        path = folder / f"programme-{number}.wav"
        soundfile.write(path, np.concatenate(parts), SAMPLE_RATE)
        if number == 3:
            continue
        transcript = model.transcribe(path)
        first, _, *others = transcript.segments
        wrong = replace(first, words=[Word("helt forkerte undertekster", first.start, first.end)])
        shifted = [replace(own, start=own.start + 4, end=own.end + 4) for own in others]
        cues = Transcript(transcript.duration, [wrong, *shifted])
        path.with_suffix(".srt").write_text(FORMATS["srt"](cues), encoding="utf-8")
    return folder


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def partitions(out: Path) -> set[str]:
    """The partitions of the dataset of a harvest that have rows."""
    root = out / "dataset" / "version=0"
    files = root.glob("*/*/*/*.parquet")
    return {"/".join(file.relative_to(root).parts[:2]) for file in files}


def test_what_text_and_speech_agree_on_is_kept_with_the_audio_of_its_words(
    model: Model, model_directory: Path, radio: Path, tmp_path: Path
) -> None:
    command = f"harvest {radio} --model {model_directory} --name radio --out {tmp_path}"
    assert CliRunner().invoke(app, command.split(), catch_exceptions=False).exit_code == 0
    kept = rows(tmp_path / "utterances" / "text.jsonl")
    for number in range(3):
        path = f"programme-{number}.wav"
        transcript = model.transcribe(radio / path)
        own = [row for row in kept if row["audio_filepath"].endswith(path)]
        said = " ".join(segment.text for segment in transcript.segments[2:])
        assert " ".join(row["text"] for row in own) == said
        assert own[0]["start"] == pytest.approx(transcript.segments[2].start, abs=0.15)
        assert own[-1]["end"] == pytest.approx(transcript.segments[-1].end, abs=0.15)
    reasons = {row["reason"] for row in rows(tmp_path / "left-out.jsonl")}
    assert reasons == {"text and speech differ", "in the text only", "no text"}
    for table in ("left-out.jsonl", "utterances/text.jsonl"):
        file = tmp_path / table
        assert all((file.parent / row["audio_filepath"]).is_file() for row in rows(file))
    assert read_inventory(tmp_path / "dataset").rows == len(kept)
    assert partitions(tmp_path) == {"corpus=radio/split=train"}


@pytest.fixture(scope="module")
def other_model(model_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(model_directory, tmp_path_factory.mktemp("model") / "other")


def test_two_models_label_what_has_no_text_as_a_corpus_of_its_own(
    model_directory: Path, other_model: Path, radio: Path, tmp_path: Path
) -> None:
    limits = replace(EVERYTHING, max_cer=0.2)
    twice = Settings(models=[str(model_directory), str(other_model)], device="cpu", limits=limits)
    assert harvest([radio], tmp_path, "radio", twice)
    kept = {kind: rows(tmp_path / "utterances" / f"{kind}.jsonl") for kind in ("text", "pseudo")}
    assert all(row["cer"] == 0 for row in kept["pseudo"])
    assert any("programme-3" in row["audio_filepath"] for row in kept["pseudo"])
    marked = {"corpus=radio/split=train", "corpus=radio-pseudo/split=train"}
    assert partitions(tmp_path) == marked

    # Other limits need no model: the one that was taken may be gone.
    before = tree(tmp_path / "recordings")
    stricter = replace(twice, limits=replace(limits, min_confidence=1))
    assert harvest([radio], tmp_path, "radio", stricter)
    assert tree(tmp_path / "recordings") == before
    assert not (tmp_path / "utterances" / "pseudo.jsonl").exists()
    assert partitions(tmp_path) == {"corpus=radio/split=train"}


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process and its children compute with one thread: another number rounds differently."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


STOPPED_AFTER_A_RECORDING = """
import os, sys
from danish_asr.cli import main
from danish_asr.inference.harvest import command

publish = command.publish_text

def publish_and_stop(*arguments):
    publish(*arguments)
    os.kill(os.getpid(), number)

number, command.publish_text = int(sys.argv.pop(1)), publish_and_stop
main()
"""


@pytest.mark.usefixtures("one_thread")
def test_a_harvest_that_is_killed_and_stopped_ends_with_the_same_files(
    model_directory: Path, other_model: Path, radio: Path, tmp_path: Path
) -> None:
    settings = Settings(
        models=[str(model_directory), str(other_model)], device="cpu", limits=EVERYTHING
    )
    harvest([radio], tmp_path / "whole", "radio", settings)
    out, models = tmp_path / "out", f"--model {model_directory} --model {other_model}"
    limits = "--max-cer 1 --max-disagreement 1 --min-confidence 0 --min-seconds 0.1"
    arguments = f"harvest {radio} {models} --name radio --out {out} {limits} --device cpu"
    program = [sys.executable, "-c", STOPPED_AFTER_A_RECORDING]
    stops = ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, EXIT_STOPPED))
    for heard, (number, status) in enumerate(stops, 1):
        command = [*program, str(int(number)), *arguments.split()]
        assert subprocess.run(command, check=False).returncode == status
        assert len(list(out.glob("recordings/*.json"))) == heard
        assert not (out / "dataset").exists()
    harvest([radio], out, "radio", settings)
    for part in ("recordings", "utterances", "dataset/version=0"):
        assert tree(out / part) == tree(tmp_path / "whole" / part)
    left_out = [(folder / "left-out.jsonl").read_bytes() for folder in (out, tmp_path / "whole")]
    assert left_out[0] == left_out[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--model MODEL --max-cer 15", "--max-cer: from 0 to 1; found 15"),
        ("--model MODEL --model MODEL --model MODEL", "--model: once or twice; found 3"),
        ("--model MODEL --model MODEL/", "--model: the same model twice"),
        ("--model MODEL --min-seconds 30", "--min-seconds.*30 and 20"),
        ("--model gone/away", "gone/away: missing"),
        ("--model MODEL --lm lm", "--lm: needs a second --model"),
        ("--model MODEL --model name --lm MODEL", "suffix of .arpa"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    model_directory: Path, radio: Path, tmp_path: Path, options: str, message: str
) -> None:
    out = tmp_path / "out"
    given = options.replace("MODEL", str(model_directory))
    command = f"harvest {radio} --name radio --out {out} {given}"
    with pytest.raises(DanishAsrError, match=message):
        CliRunner().invoke(app, command.split(), catch_exceptions=False)
    assert not out.exists()


def test_a_folder_of_another_model_is_kept_and_each_faulty_recording_fails_alone(
    model_directory: Path,
    other_model: Path,
    radio: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "broken.wav").write_bytes(b"RIFF")
    shutil.copy(radio / "programme-0.wav", tmp_path / "russian.wav")
    (tmp_path / "russian.txt").write_text("Нет, это не датский текст", encoding="utf-8")
    settings = Settings(models=[str(model_directory)], device="cpu", limits=EVERYTHING)
    paths = [tmp_path, radio / "programme-0.wav"]
    assert not harvest(paths, tmp_path / "out", "radio", settings)
    faults = capfd.readouterr().err.partition("failed: 2")[2]
    assert "broken.wav" in faults
    assert "russian.wav: 5 of the text's 5 words" in faults
    assert rows(tmp_path / "out" / "utterances" / "text.jsonl")
    link = tmp_path / "link"
    link.symlink_to(model_directory)
    assert not harvest(paths, tmp_path / "out", "radio", replace(settings, models=[str(link)]))
    assert "heard before: 1" in capfd.readouterr().err
    other = replace(settings, models=[str(model_directory), str(other_model)])
    with pytest.raises(DanishAsrError, match="another --out"):
        harvest(paths, tmp_path / "out", "radio", other)
