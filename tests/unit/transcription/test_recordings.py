from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from danish_asr.base.errors import DanishAsrError
from danish_asr.inference.record import RECORD, Record, fingerprint, source_of
from danish_asr.inference.recordings import find_recordings
from danish_asr.inference.settings import Settings


def tree(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"audio")
    return root


def targets(paths: list[Path], out: Path | None = None) -> list[str]:
    return [recording.target.as_posix() for recording in find_recordings(paths, out).recordings]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_folder_is_searched_below_in_order_without_hidden_and_other_files() -> None:
    tree(Path("in"), "b.WAV", "a/x.y.mp3", ".git/c.wav", ".d.wav", "a/x.txt", "e.doc")
    found = find_recordings([Path("in")])
    assert [r.path.as_posix() for r in found.recordings] == ["in/b.WAV", "in/a/x.y.mp3"]
    assert found.others == 1


def test_transcripts_are_beside_the_audio_or_in_a_tree_like_the_folders() -> None:
    tree(Path("in"), "a/x.y.mp3", "b.wav")
    assert targets([Path("in")]) == ["in/b", "in/a/x.y"]
    assert targets([Path("in")], Path("out")) == ["out/b", "out/a/x.y"]
    assert targets([Path("in/a/x.y.mp3")], Path("out")) == ["out/x.y"]


def test_recordings_that_differ_only_in_their_suffix_keep_it() -> None:
    tree(Path("in"), "a.mp3", "a.wav", "b.wav")
    assert targets([Path("in")]) == ["in/a.mp3", "in/a.wav", "in/b"]


def test_a_file_that_is_named_twice_is_transcribed_once() -> None:
    tree(Path("in"), "a.wav")
    assert targets([Path("in"), Path("in/a.wav")]) == ["in/a"]


def test_two_recordings_with_one_transcript_are_refused() -> None:
    tree(Path(), "x/a.wav", "y/a.wav")
    with pytest.raises(DanishAsrError, match=r"x/a\.wav and y/a\.wav would both .*out/a\.wav"):
        targets([Path("x"), Path("y")], Path("out"))


@pytest.mark.parametrize(
    ("path", "message"), [("none", "none: no such file"), ("text", "text: no audio file among 1")]
)
def test_a_missing_path_and_a_folder_without_audio_are_refused(path: str, message: str) -> None:
    tree(Path("text"), "notes.txt")
    with pytest.raises(DanishAsrError, match=message):
        find_recordings([Path(path)])


def test_a_transcript_is_finished_while_audio_and_settings_are_the_same() -> None:
    tree(Path(), "a.wav")
    audio, output = Path("a.wav"), Path("out/a.txt")
    source = source_of(audio)
    Record({"model": "one"}).write(source, output, "hej\n")
    assert output.read_text() == "hej\n"
    assert Record({"model": "one"}).finished(source, output)
    assert not Record({"model": "two"}).finished(source, output)
    audio.write_bytes(b"other audio")
    assert not Record({"model": "one"}).finished(source_of(audio), output)
    output.unlink()
    assert not Record({"model": "one"}).finished(source, output)


def test_files_of_others_and_edited_transcripts_are_foreign() -> None:
    tree(Path(), "a.wav", "b.txt")
    record = Record({})
    record.write(source_of(Path("a.wav")), Path("a.txt"), "hej\n")
    assert not record.foreign(Path("a.txt"))
    assert record.foreign(Path("b.txt"))
    Path("a.txt").write_text("hej!\n")
    assert Record({}).foreign(Path("a.txt"))
    assert Record({}).finished(source_of(Path("a.wav")), Path("a.txt"))  # it is kept as edited


def test_an_unfinished_line_does_not_matter() -> None:
    tree(Path(), "a.wav")
    source = source_of(Path("a.wav"))
    Record({}).write(source, Path("a.txt"), "hej\n")
    with Path(RECORD).open("a") as stream:
        stream.write('\n{"output": "b.t')
    record = Record({})
    assert record.finished(source, Path("a.txt"))
    record.write(source, Path("b.txt"), "hej\n")
    assert Record({}).finished(source, Path("b.txt"))


def test_links_to_a_recording_are_left_out_and_its_own_name_stays() -> None:
    tree(Path("in"), "real.wav", "elsewhere.wav")
    for name, real in (("alias.wav", "real.wav"), ("z.wav", "real.wav")):
        Path("in", name).symlink_to(real)
    found = find_recordings([Path("in")])
    assert {recording.path.name for recording in found.recordings} == {"real.wav", "elsewhere.wav"}
    assert found.links == 2


def test_a_name_that_is_not_utf8_is_remembered() -> None:
    audio, output = (Path(os.fsdecode(b"latin\xe6" + end)) for end in (b".wav", b".txt"))
    tree(Path(), str(audio))
    Record({}).write(source_of(audio), output, "hej\n")
    assert Record({}).finished(source_of(audio), output)


def test_what_is_left_to_do_is_found_without_pytorch() -> None:
    tree(Path(), "run/checkpoints/step_2/model/sdp_00.pt", "in/a.wav", "in/b.wav")
    record = Record(fingerprint("run", Settings()))
    for name in ("a", "b"):
        record.write(source_of(Path(f"in/{name}.wav")), Path(f"in/{name}.txt"), "hej\n")
    script = """
import sys
from danish_asr.cli import main
sys.argv = ["danish-asr", "transcribe", "run", "in"]
try:
    main()
finally:
    assert "torch" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "already transcribed: in/a.wav, in/b.wav" in done.stderr
    Path("run/checkpoints/step_2/model/sdp_00.pt").write_bytes(b"others")
    other = Record(fingerprint("run", Settings()))
    assert not other.finished(source_of(Path("in/a.wav")), Path("in/a.txt"))
