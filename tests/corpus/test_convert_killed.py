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
        time.sleep(0.01)


def test_a_conversion_that_is_killed_and_stopped_continues_and_ends_with_the_same_bytes(
    tmp_path: Path,
) -> None:
    """Ctrl-C and a job's SIGTERM come to all its processes, SIGKILL to the parent alone.

    Its workers end then, and do not get in the way of the next run.
    """
    # Of both subsets: 18 shards of train, and one each of dev and test.
    source = build_source(tmp_path / "in", train=90, dev=4, test=4, row_group_size=5)
    moments, out = random.Random(2), tmp_path / "ds"
    for number, status in (
        (signal.SIGKILL, -signal.SIGKILL),
        (signal.SIGINT, 130),
        (signal.SIGTERM, 75),
    ):
        before = finished_tasks(out)
        process = started(source, out)
        wait_for_tasks(process, out, before + moments.randint(1, 3))
        time.sleep(moments.uniform(0, 0.05))
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) >= 2
        if number == signal.SIGKILL:
            process.kill()
        else:
            os.killpg(process.pid, number)
        _, output = process.communicate(timeout=120)
        assert process.returncode == status
        assert b"Traceback" not in output
        assert (out / ".lock").exists() is (number == signal.SIGKILL)
        assert finished_tasks(out) > before
        assert not (out / "manifest.json").exists()
        deadline = time.monotonic() + 120
        while any(Path(f"/proc/{child}/exe").exists() for child in children):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    for folder in (out, tmp_path / "undisturbed"):
        convert(source, folder, options(shard_rows=5))
    assert tree(out) == tree(tmp_path / "undisturbed")
