from __future__ import annotations

import multiprocessing
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from danish_asr.conversion import ConvertOptions
from danish_asr.conversion.convert import convert, finish
from danish_asr.conversion.plan import ConversionPlan, claim, plan_conversion
from danish_asr.errors import DatasetError
from danish_asr.sources import open_source
from tests.builders import build_source, tree

OPTIONS = ConvertOptions(shard_rows=4)
TASK = """
import sys
from pathlib import Path
from danish_asr.conversion import command
from danish_asr.cli import main
from tests.unit.conversion.test_claim import look_slowly
look_slowly()
Path(sys.argv.pop()).touch()
while not Path(sys.argv[-1]).exists():
    pass
sys.argv.pop()
main()
"""


def look_slowly() -> None:
    """Let time pass between finding that a file is not there and what is done about it."""
    is_file = Path.is_file

    def look(path: Path) -> bool:
        if not (there := is_file(path)):
            time.sleep(random.random() / 2)
        return there

    Path.is_file = look  # type: ignore[method-assign, assignment]


def test_array_tasks_may_begin_at_the_same_moment(tmp_path: Path) -> None:
    source, out, go = build_source(tmp_path / "in", train=20), tmp_path / "ds", tmp_path / "go"
    arguments = ["convert", str(source), "--out", str(out), "--shard-rows", "4", "--workers", "1"]
    ready = [tmp_path / f"ready-{index}" for index in range(1, 7)]
    tasks = [
        subprocess.Popen(
            [sys.executable, "-c", TASK, *arguments, "--shard", f"{index}/6", str(go), str(mark)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for index, mark in enumerate(ready, 1)
    ]
    while not all(mark.exists() for mark in ready):
        assert all(task.poll() is None for task in tasks)
    go.touch()
    results = [task.communicate(timeout=120)[1] for task in tasks]
    assert [task.returncode for task in tasks] == [0] * 6, results
    finish(open_source(str(source)), out, name="tiny", options=OPTIONS)
    convert(open_source(str(source)), tmp_path / "whole", name="tiny", options=OPTIONS)
    assert tree(out) == tree(tmp_path / "whole")


def claim_one(out: Path, key: str, results: multiprocessing.Queue[str]) -> None:
    look_slowly()
    while not out.with_name("go").exists():
        pass
    try:
        claim(out, ConversionPlan(key=key, tasks=()))
    except DatasetError as error:
        results.put(str(error))
    else:
        results.put("claimed")


def test_of_other_conversions_that_begin_at_the_same_moment_all_but_one_are_refused(
    tmp_path: Path,
) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    arguments = [(tmp_path / "ds", f"key {number}", results) for number in range(6)]
    racers = [context.Process(target=claim_one, args=own) for own in arguments]
    for racer in racers:
        racer.start()
    (tmp_path / "go").touch()
    found = [results.get(timeout=60) for _ in racers]
    for racer in racers:
        racer.join()
    assert found.count("claimed") == 1
    assert sum("unfinished conversion" in result for result in found) == 5


@pytest.mark.parametrize("content", ["", "{", "\xff\x00"])
def test_a_damaged_plan_is_refused(tmp_path: Path, content: str) -> None:
    source = open_source(str(build_source(tmp_path / "in")))
    plan = plan_conversion(source, OPTIONS)
    claim(tmp_path / "ds", plan)
    path = tmp_path / "ds" / ".convert" / "plan.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(DatasetError, match=r"plan\.json differs.*rm -r '.*ds'"):
        claim(tmp_path / "ds", plan)
