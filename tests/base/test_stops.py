"""Stop signals before there is a run, in a run, and in a command that has started one."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Timer

import pytest

from danish_asr.base.errors import EXIT_STOPPED
from danish_asr.base.stops import STOP_SIGNALS, exception_at_stops, run_passing_on
from tests.running import CONFIG, ROOT

WAITS = """
import pathlib, time
pathlib.Path(__file__).with_suffix(".on").touch()
for _ in range(6_000):  # a signal just before a long sleep would not end it
    time.sleep(0.01)
"""
"""A library whose import takes a minute."""


@pytest.mark.parametrize(
    ("command", "number", "status"),
    [
        ("danish_asr train", signal.SIGINT, -signal.SIGINT),
        ("workflows.recipes.wav2vec2.asr.eval.recipe", signal.SIGUSR1, EXIT_STOPPED),
        ("danish_asr.base.cluster", signal.SIGUSR1, EXIT_STOPPED),
    ],
)
def test_a_stop_signal_in_the_imports_ends_with_the_status_that_starts_a_job_again(
    tmp_path: Path, command: str, number: signal.Signals, status: int
) -> None:
    for library in ("torch", "typer", "ruamel"):
        (tmp_path / f"{library}.py").write_text(WAITS)
    process = subprocess.Popen(
        [sys.executable, "-m", *command.split(), "run", "--config-file", str(CONFIG)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not [*tmp_path.glob("*.on")]:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    _, printed = process.communicate(timeout=30)
    assert process.returncode == status
    assert ("SIGUSR1" if status > 0 else "interrupted") in printed


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_stop_signal_while_a_model_loads_releases_what_was_taken(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    released = []

    @exception_at_stops()
    def load() -> None:
        try:
            with suppress(KeyboardInterrupt, SystemExit):
                signal.raise_signal(number)
            raise ValueError("'cls' must be valid")  # as a library makes of it
        finally:
            released.append(number)

    before = [signal.getsignal(other) for other in STOP_SIGNALS]
    with pytest.raises((KeyboardInterrupt, SystemExit)) as stopped:
        load()
    assert released == [number]
    assert [signal.getsignal(other) for other in STOP_SIGNALS] == before
    if number != signal.SIGINT:
        assert stopped.value.args == (EXIT_STOPPED,)
        assert number.name in capfd.readouterr().err


def test_an_error_without_a_signal_is_raised_as_it_is() -> None:
    error = ValueError("no signal")
    with pytest.raises(ValueError, match="no signal") as raised, exception_at_stops():
        raise error
    assert raised.value is error


HELD = """
import sys, threading, time
from danish_asr.base.stops import ends_in_time, exit_if_held
def wait_for_a_server():
    threading.Thread(target=time.sleep, args=[600]).start()
    time.sleep(600)
assert ends_in_time(lambda: None, 60)
assert not ends_in_time(wait_for_a_server, 0.5)
print("saved")
exit_if_held(75)
"""


def test_what_waits_for_its_server_does_not_hold_the_process() -> None:
    process = subprocess.run(
        [sys.executable, "-c", HELD], cwd=ROOT, stdout=subprocess.PIPE, timeout=120, check=False
    )
    assert process.returncode == EXIT_STOPPED
    assert process.stdout == b"saved\n"


SAVES = """#!/bin/sh
trap 'sleep 0.3; echo saved >{folder}/saved; exit 75' HUP INT TERM USR1 USR2
touch {folder}/began
while :; do sleep 0.05; done
"""
"""A program that takes a while to save."""


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_command_that_starts_a_process_passes_stop_signals_on_and_waits(
    tmp_path: Path, number: signal.Signals
) -> None:
    saves = tmp_path / "saves"
    saves.write_text(SAVES.format(folder=tmp_path))
    saves.chmod(0o755)

    def stop() -> None:
        while not (tmp_path / "began").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    Timer(0, stop).start()
    assert run_passing_on([str(saves)]) == (EXIT_STOPPED, number)
    assert (tmp_path / "saved").is_file()
    with (tmp_path / "printed").open("wb") as output:
        assert run_passing_on(["echo", "ja"], output) == (0, None)
    assert (tmp_path / "printed").read_text() == "ja\n"


TERMINAL = """
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
os.read(terminal, 1)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

WORK = """
import sys, time
from danish_asr.base.stops import at_stops
stops = []
with at_stops(stops.append):
    print("ready", flush=True)
    while not stops:
        time.sleep(0.01)
    print("saved", flush=True)
sys.exit(75)
"""


def test_work_ends_as_at_any_stop_when_its_terminal_is_closed() -> None:
    command = [sys.executable, "-c", TERMINAL, WORK]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
    )
    assert ended.stdout.split() == ["75"]
