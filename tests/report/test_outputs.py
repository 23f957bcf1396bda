"""Files are declared before any work, and written together."""

from pathlib import Path

import pytest

from danish_asr.base.errors import ConfigError
from danish_asr.report.outputs import Content, declared, outputs_by_end, write_all


def test_outputs_have_one_known_end_each_and_are_no_directories(tmp_path: Path) -> None:
    ends = (".trn.json", ".json", ".csv")
    known = dict(zip(ends, (tmp_path / f"own{end}" for end in ends), strict=True))
    assert outputs_by_end(known.values(), ends) == known
    (folder := tmp_path / "folder.csv").mkdir()
    with pytest.raises(ConfigError) as refused:
        outputs_by_end(["a.json", "b.json", "x.txt", folder], ends)
    twice, unknown, no_file = refused.value.faults
    assert all(name in twice for name in ("b.json", "a.json"))
    assert all(name in unknown for name in ("x.txt", *ends))
    assert str(folder) in no_file


def _text(result: str) -> Content:
    return Content.of_text(f"æ{result}")


def test_what_would_be_written_twice_or_is_read_is_refused(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    assert declared([(a, _text), (b, _text)], [c]) == {a: _text, b: _text}
    with pytest.raises(ConfigError, match=str(b)) as refused:
        declared([(a, _text), (b, _text), (b, _text)], [c])
    assert len(refused.value.faults) == 1
    with pytest.raises(ConfigError, match=rf"{a} .*--csv"):
        declared([(a, _text)], [a], option="--csv")


def test_nothing_is_written_if_one_content_fails_and_all_notes_are_said(tmp_path: Path) -> None:
    def noted(result: str) -> Content:
        return Content(result.encode(), ["one", "two"])

    def fails(_: str) -> Content:
        raise ZeroDivisionError

    a, b = tmp_path / "a", tmp_path / "b"
    with pytest.raises(ZeroDivisionError):
        write_all({a: _text, b: fails}, "x")
    assert not [*tmp_path.iterdir()]
    assert write_all({a: _text, b: noted}, "x") == ["one", "two"]
    assert (a.read_text("utf-8"), b.read_text("utf-8")) == ("æx", "x")
