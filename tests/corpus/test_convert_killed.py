"""Conversions that end as conversions end in real life: killed, on a full disk, interrupted."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from danish_asr.base.errors import DatasetError
from danish_asr.corpus import ConvertOptions
from danish_asr.corpus.convert import convert
from tests.builders import build_source, tree

SHARD_ROWS = 5


OPTIONS = ConvertOptions(name="tiny", shard_rows=SHARD_ROWS)


ROWS = 150


"""Per subset: 30 shards of train, and one each of dev and test."""


def command(source: Path, out: Path, workers: int) -> list[str]:
    # A shell that starts tests in the background has them ignore Ctrl-C, and so their children.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    imports = (
        "from pathlib import Path; from danish_asr.cli import main; "
        "from danish_asr.corpus import ConvertOptions; "
        "from danish_asr.corpus.command import convert_command"
    )
    options = f"ConvertOptions(name='tiny', shard_rows={SHARD_ROWS}, workers={workers})"
    call = f"main(lambda: convert_command({str(source)!r}, Path({str(out)!r}), {options}))"
    return [sys.executable, "-c", f"{listen}; {imports}; {call}"]


def finished_shards(out: Path) -> int:
    return len(list((out / ".convert").glob("task-*.json")))


def wait_for_shards(process: subprocess.Popen[bytes], out: Path, count: int) -> None:
    while process.poll() is None and finished_shards(out) < count:
        time.sleep(0.002)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed") / "in"
    return build_source(folder, train=ROWS, dev=4, test=4, row_group_size=SHARD_ROWS)


@pytest.fixture(scope="module")
def undisturbed(source: Path) -> dict[str, str]:
    return completed(source, source.parent / "whole")


def completed(source: Path, out: Path) -> dict[str, str]:
    """Convert what is not converted yet; returns the whole dataset."""
    convert(source, out, OPTIONS)
    return tree(out)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_conversion_killed_at_random_moments_ends_with_the_same_bytes(
    source: Path, undisturbed: dict[str, str], tmp_path: Path, workers: int
) -> None:
    """Only the parent is killed; its workers end, and do not get in the way of the next run."""
    moments = random.Random(workers)
    out = tmp_path / "ds"
    for _ in range(2):
        before = finished_shards(out)
        process = subprocess.Popen(command(source, out, workers), stderr=subprocess.PIPE)
        wait_for_shards(process, out, before + moments.randint(1, 3))
        time.sleep(moments.uniform(0, 0.05))
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it ended before it could be killed"
        assert len(children) >= workers or workers == 1
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
    process = subprocess.Popen(
        command(source, out, 2), stderr=subprocess.PIPE, start_new_session=True
    )
    wait_for_shards(process, out, 1)
    os.killpg(process.pid, number)
    _, output = process.communicate(timeout=120)
    assert process.returncode == status
    assert b"Traceback" not in output
    assert b"kept" in output
    assert not (out / ".lock").exists()
    assert finished_shards(out) >= 1
    assert completed(source, out) == undisturbed


def test_a_second_conversion_into_the_same_place_is_refused(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "ds"
    process = subprocess.Popen(command(source, out, 1), stderr=subprocess.PIPE)
    wait_for_shards(process, out, 1)
    process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(DatasetError, match=f"process {process.pid} on .* is writing in {out}"):
            completed(source, out)
    finally:
        process.send_signal(signal.SIGCONT)
    _, output = process.communicate(timeout=60)
    assert process.returncode == 0, output


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_is_reported_and_nothing_half_written_stays(
    source: Path, undisturbed: dict[str, str], tmp_path: Path, workers: int
) -> None:
    """A limit on the size of files is what a test can have of a full disk: writing fails."""
    out = tmp_path / "ds"

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

    process = subprocess.run(
        command(source, out, workers), preexec_fn=limit, capture_output=True, check=False
    )
    assert process.returncode == 1
    assert b"cannot be written (File too large)" in process.stderr
    assert b"Traceback" not in process.stderr
    assert not list(out.rglob("*.partial"))
    shards = {name: digest for name, digest in tree(out).items() if name.endswith(".parquet")}
    assert shards.items() <= undisturbed.items()
    assert completed(source, out) == undisturbed
