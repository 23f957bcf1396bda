import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from danish_asr.base.errors import DanishAsrError, RunError
from danish_asr.base.progress import Progress
from danish_asr.inference.recordings import Recording, find_recordings, work_through


def tree(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"audio")
    return root


def targets(paths: list[Path], out: Path | None = None) -> list[str]:
    return [recording.target.as_posix() for recording in find_recordings(paths, out)]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_folder_is_searched_below_in_order_without_hidden_and_other_files() -> None:
    tree(Path("in"), "b.WAV", "a/x.y.mp3", ".git/c.wav", ".d.wav", "a/x.txt", "e.doc")
    recordings = find_recordings([Path("in")])
    assert [own.path.as_posix() for own in recordings] == ["in/b.WAV", "in/a/x.y.mp3"]


def test_transcripts_are_beside_the_audio_or_in_a_tree_like_the_folders() -> None:
    tree(Path("in"), "a/x.y.mp3", "b.wav")
    assert targets([Path("in")]) == ["in/b", "in/a/x.y"]
    assert targets([Path("in")], Path("out")) == ["out/b", "out/a/x.y"]
    assert targets([Path("in/a/x.y.mp3")], Path("out")) == ["out/x.y"]


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["x", "y"], r"x/a\.wav and y/a\.wav"),
        (["z"], r"z/b\.mp3 and z/b\.wav"),
        (["none"], "none: no such file"),
        (["text"], "text: no audio file"),
    ],
)
def test_two_recordings_with_one_transcript_and_paths_without_any_are_refused(
    paths: list[str], message: str
) -> None:
    tree(Path(), "x/a.wav", "y/a.wav", "z/b.mp3", "z/b.wav", "text/notes.txt")
    with pytest.raises(DanishAsrError, match=message):
        targets([Path(path) for path in paths], Path("out"))


@pytest.mark.parametrize("once", [True, False])
def test_a_link_is_that_recording_or_has_its_own_transcript_and_a_broken_one_ends_no_folder(
    *, once: bool
) -> None:
    tree(Path("in"), "real.wav", "elsewhere.wav")
    for link, target in (("z", "real"), ("loop", "loop"), ("gone", "nowhere")):
        Path("in", f"{link}.wav").symlink_to(f"{target}.wav")
    Path("again").symlink_to("in")
    names = ["in/elsewhere", "in/gone", "in/loop", "in/real", *(() if once else ("in/z",))]
    for paths in (["in"], ["in", "in/real.wav"], ["in", "again"]):
        found = find_recordings([*map(Path, paths)], once=once)
        assert [own.target.as_posix() for own in found] == names


def test_what_fails_at_a_recording_is_named_once_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree(Path("in"), "a.wav", "b.wav", "c.wav", "d.wav")
    faults = {"b": DanishAsrError("in/b.wav: broken"), "c": ValueError("odd")}
    done, shown = list[str](), list[float]()

    def work(recording: Recording, show: Callable[[float, float | None], None]) -> None:
        for total in (None, 4.0, 0.5):
            show(1.0, total)
        if fault := faults.get(recording.name.name):
            raise fault
        done.append(recording.name.name)

    monkeypatch.setattr(Progress, "update", lambda _, number, **__: shown.append(number))
    first, second = work_through(find_recordings([Path("in")]), work, Console(stderr=True))
    assert done == ["a", "d"]
    assert first == "in/b.wav: broken"
    assert second.startswith("in/c.wav: ")
    assert "ValueError: odd" in second
    # Of each recording: its start, an unknown share, a quarter, and all of it.
    assert shown == [n + share for n in range(4) for share in (0, 0, 0.25, 1)]


def test_a_fault_of_the_model_ends_the_work() -> None:
    tree(Path("in"), "a.wav", "b.wav")
    tried = []

    def work(recording: Recording, _: object) -> None:
        tried.append(recording)
        raise RunError("no memory")

    with pytest.raises(RunError):
        work_through(find_recordings([Path("in")]), work, Console(file=io.StringIO()))
    assert len(tried) == 1
