"""Conversions that end as conversions end in real life: killed and interrupted."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from danish_asr.corpus.convert import convert
from tests.builders import build_source, tree
from tests.corpora import options

pytestmark = pytest.mark.slow

# A shell that starts tests in the background has them ignore Ctrl-C, and so their children.
CONVERT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from danish_asr.cli import main
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.command import convert_command
options = ConvertOptions(name="own", shard_rows=5, workers=2)
main(lambda: convert_command(sys.argv[1], Path(sys.argv[2]), options))
"""


def started(source: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CONVERT, str(source), str(out)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)


def finished_tasks(out: Path) -> int:
    return len(list((out / ".convert").glob("task-*.json")))


def wait_for_tasks(process: subprocess.Popen[bytes], out: Path, count: int) -> None:
    while process.poll() is None and finished_tasks(out) < count:
        time.sleep(0.002)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of both subsets: 30 shards of train, and one each of dev and test."""
    folder = tmp_path_factory.mktemp("killed") / "in"
    return build_source(folder, train=150, dev=4, test=4, row_group_size=5)


@pytest.fixture(scope="module")
def undisturbed(source: Path) -> dict[str, str]:
    return completed(source, source.parent / "whole")


def completed(source: Path, out: Path) -> dict[str, str]:
    """Convert what is not converted yet; returns the whole dataset."""
    convert(source, out, options(shard_rows=5))
    return tree(out)


def test_a_conversion_killed_at_random_moments_ends_with_the_same_bytes(
    source: Path, undisturbed: dict[str, str], tmp_path: Path
) -> None:
    """Only the parent is killed; its workers end, and do not get in the way of the next run."""
    moments, out = random.Random(2), tmp_path / "ds"
    for _ in range(2):
        before = finished_tasks(out)
        process = started(source, out)
        wait_for_tasks(process, out, before + moments.randint(1, 3))
        time.sleep(moments.uniform(0, 0.05))
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it ended before it could be killed"
        assert len(children) >= 2
        assert not (out / "manifest.json").exists()
        deadline = time.monotonic() + 120
        while any(Path(f"/proc/{child}/exe").exists() for child in children):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert completed(source, out) == undisturbed


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
def test_a_stop_signal_to_all_processes_ends_them_and_the_next_run_continues(
    source: Path, undisturbed: dict[str, str], tmp_path: Path, number: int, status: int
) -> None:
    out = tmp_path / "ds"
    process = started(source, out)
    wait_for_tasks(process, out, 1)
    os.killpg(process.pid, number)
    _, output = process.communicate(timeout=120)
    assert process.returncode == status
    assert b"Traceback" not in output
    assert not (out / ".lock").exists()
    assert finished_tasks(out) >= 1
    assert completed(source, out) == undisturbed
