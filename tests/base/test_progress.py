"""Progress in a log, and in a terminal."""

import ast
import io

import pytest
from rich.console import Console

from danish_asr.base import progress
from danish_asr.base.progress import Progress, plain_console, track, watch
from tests.running import ROOT


def test_a_log_gets_plain_lines_whose_rates_leave_out_earlier_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_INTERVAL", 0)
    times = iter([90.0, *[100.0] * 100])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    assert list(watch("converted", ["a" * 40, "b" * 50], len, 100, done=5))[1][0] == "b"
    first, second, last = capsys.readouterr().err.strip().splitlines()
    assert first == "converted 45/100 rows  4 rows/s  45 %"
    assert second == "converted 95/100 rows  9 rows/s  95 %"
    assert last == "converted 95/100 rows  9 rows/s"
    assert list(watch("converted", [""][:0], len, 100, done=100)) == []
    assert capsys.readouterr().err.strip() == "converted 100/100 rows"


@pytest.mark.parametrize(
    ("interval", "total", "lines"),
    [(0, 4, ["a  25 %", "b  50 %", "b  20 %"]), (0, None, ["a", "b", "b  20 %"]), (60, 4, [])],
)
def test_a_line_has_the_share_if_the_total_is_known_and_comes_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch, interval: float, total: float | None, lines: list[str]
) -> None:
    monkeypatch.setattr(progress, "_INTERVAL", interval)
    console = Console(file=(printed := io.StringIO()))
    with Progress("read", total, console=console) as shown:
        shown.update(1, text="a")
        shown.advance("b")
        shown.update(total=10)
    assert printed.getvalue().splitlines() == lines


def test_a_terminal_gets_a_bar_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_INTERVAL", 0)
    console = Console(file=(printed := io.StringIO()), force_terminal=True, width=60)
    with Progress("read", 4, console=console) as shown:
        shown.update(2)
    assert "read" in printed.getvalue()
    assert "50 %" not in printed.getvalue(), "a plain line"
    assert printed.getvalue().endswith("\x1b[2K")
    assert list(track("abc", "read", 3)) == [*"abc"]


@pytest.mark.parametrize("stderr", [True, False])
def test_a_plain_console_prints_any_name_as_it_is(
    stderr: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = f"a:x:b [b]bold[/b] {'long ' * 60}1"
    plain_console(stderr=stderr).print(line)
    assert capsys.readouterr()[stderr] == f"{line}\n"


def test_no_console_makes_pictures_of_words_between_colons() -> None:
    """Rich does so in names and paths, unless each console is told otherwise."""
    made = []
    for file in (ROOT / "src").rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "Console":
                settings = {own.arg: ast.unparse(own.value) for own in call.keywords}
                made.append((file.name, settings.get("emoji")))
    assert len(made) >= 3
    assert {emoji for _, emoji in made} == {"False"}, made
