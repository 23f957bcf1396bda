"""The ``danish-asr`` command as its users see it."""

from __future__ import annotations

import errno
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from danish_asr import cli
from danish_asr.base.errors import RunError
from danish_asr.cli import main
from danish_asr.cli.app import app, say_next
from tests.score_rows import four_rows, write_rows


def _commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    yield path, group
    for name, below in getattr(group, "commands", {}).items():
        yield from _commands(below, f"{path} {name}".strip())


COMMANDS = dict(_commands(get_command(app)))


@pytest.mark.parametrize("path", [*COMMANDS])
def test_help_has_examples_that_parse(path: str) -> None:
    output = CliRunner().invoke(app, [*path.split(), "-h"]).output
    examples = re.findall(r"\$ danish-asr (.*?) *\n", output)
    assert examples or hasattr(COMMANDS[path], "commands")
    for example in examples:
        name = path or example
        assert example.startswith(name)
        COMMANDS[name].make_context(name, shlex.split(example.removeprefix(name)))


def test_every_group_shows_its_help_and_every_option_says_what_it_is_for() -> None:
    for group in ("", "lm"):
        assert "--help" in CliRunner().invoke(app, group.split()).output
        assert COMMANDS[group].help
    silent = [
        f"{path} {parameter.name}"
        for path, command in COMMANDS.items()
        for parameter in command.params
        if not (parameter.help or "completion" in parameter.name)
    ]
    assert not silent


@pytest.mark.parametrize("word", ["train", "evaluate", "sweep", "score"])
def test_a_stop_signal_ends_the_imports_of_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    prepared: list[bool] = []
    monkeypatch.setattr("danish_asr.base.stops.exit_at_stops", lambda: prepared.append(True))
    monkeypatch.setattr(sys, "argv", ["danish-asr", word])
    runpy.run_path(str(cli.__file__))
    assert bool(prepared) is (word != "score")


HELP = """
import runpy, sys
sys.argv[1:] = ["-h"]
try:
    runpy.run_module("{}", run_name="__main__")
except SystemExit:
    pass
sys.exit(", ".join({{"torch", "pyarrow", "matplotlib", "pandas"}} & sys.modules.keys()) or 0)
"""


@pytest.mark.parametrize("module", ["danish_asr", "workflows.recipes.wav2vec2.asr.eval.recipe"])
def test_help_loads_nothing_heavy(module: str) -> None:
    command = [sys.executable, "-c", HELP.format(module)]
    subprocess.run(command, check=True, capture_output=True)


def test_the_version_is_printed_with_those_below() -> None:
    output = CliRunner().invoke(app, ["--version"]).output
    assert re.search(r"^danish-asr [\d.]+ \(fairseq2 \S+, torch \S+\)$", output)


def test_the_next_command_is_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    say_next("verify", "my data", why="find faults")
    assert capsys.readouterr().err.startswith("Next: danish-asr verify 'my data' ")
    say_next("train", why="it has two GPUs", processes=2)
    assert "--nproc-per-node 2 -m danish_asr train " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (RunError("no run"), 1, "danish-asr: no run"),
        (PermissionError(errno.EACCES, "Permission denied", "x.csv"), 1, "x.csv: Permission"),
        (OSError(errno.ENOSPC, "No space left"), 1, "the output: No space left"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (SystemExit(130), 130, "interrupted"),
        (SystemExit(2), 2, ""),
    ],
)
def test_an_error_is_a_message_and_a_status(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
    message: str,
) -> None:
    def command() -> None:
        raise error

    discarded: list[bool] = []
    monkeypatch.setattr("danish_asr.cli.discard_output", lambda: discarded.append(True))
    with pytest.raises(SystemExit) as stop:
        main(command)
    said = capsys.readouterr().err
    assert (stop.value.code, message in said, bool(said)) == (status, True, bool(message))
    assert bool(discarded) is ("the output" in message)


@pytest.mark.parametrize("words", [["transcribe", "m", ""], ["transcribe", "m", "--out="]])
def test_a_variable_of_the_shell_without_a_value_is_not_the_present_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["danish-asr", *words])
    with pytest.raises(SystemExit, match="1"):
        main(lambda: pytest.fail("the command ran"))
    assert "transcribe m" in capsys.readouterr().err


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), ValueError("a bug")])
def test_a_fault_of_a_disk_or_of_the_program_shows_where_it_was(error: Exception) -> None:
    def command() -> None:
        raise error

    with pytest.raises(type(error)):
        main(command)


@pytest.mark.parametrize(
    ("sink", "status", "message"),
    # Whether a pipe is closed before the last line is a matter of time.
    [("> /dev/full", 1, "danish-asr: the output: No space left on device"), ("| head -1", 0, "")],
)
def test_what_cannot_be_printed_is_written(
    tmp_path: Path, sink: str, status: int, message: str
) -> None:
    write_rows(tmp_path / "a.jsonl", four_rows())
    command = f"{shlex.quote(sys.executable)} -m danish_asr score a.jsonl --out s.json {sink}"
    script = f"set -o pipefail; {command}"
    ended = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == status
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (tmp_path / "s.json").is_file()
