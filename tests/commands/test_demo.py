"""The whole pipeline, from synthetic speech to a page, in the processes that a user starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from danish_asr.base.errors import ConfigError
from danish_asr.corpus.verify import verify
from danish_asr.demo import run_demo
from danish_asr.recipe.run.run import Run
from danish_asr.scoring.predictions import read_predictions
from tests.documented import check, commands

ROOT = Path(__file__).parents[2]

SMALL = """
if __name__ == "__main__":  # not in each process that the demo starts
    import signal
    import sys
    from pathlib import Path
    from danish_asr import cli, demo
    # Children of tests that run in the background would ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    small = {"train": 20, "dev": 10, "test": 10}
    cli.main(lambda: demo.run_demo(Path(sys.argv[1]), sizes=small, overrides=sys.argv[2:]))
"""
"""The demo as `danish-asr demo` runs it, with a smaller corpus."""

STEPS = ["regime.validate_every_n_steps=6", "regime.checkpoint_every_n_steps=6"]

STEPS += ["regime.publish_metrics_every_n_steps=1", "common.torch.num_threads=1"]

STEPS += ["regime.num_steps=12", "dataset.asr_task_config.max_num_elements=160000"]


@pytest.mark.parametrize("value", ["somewhere", "regime.num_step=3"])
def test_an_override_that_cannot_be_used_is_refused_before_anything_is_made(
    value: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=value.partition("=")[0]):
        run_demo(tmp_path / "demo", overrides=[value])
    assert not [*tmp_path.iterdir()]


def start(folder: Path) -> subprocess.Popen[str]:
    script = folder.with_suffix(".py")
    script.write_text(SMALL)
    return subprocess.Popen(
        [sys.executable, str(script), str(folder), *STEPS],
        cwd=ROOT,
        env={**os.environ, "FAIRSEQ2_DEVICE": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # The output is read at the end.
        pipesize=1 << 20,
        start_new_session=True,
    )


def interrupt_training(folder: Path) -> None:
    process = start(folder)
    deadline = time.monotonic() + 600
    steps = folder / "run" / "metrics" / "train.jsonl"
    while not steps.is_file() or not steps.read_text():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
    # The output ends when the last process has ended.
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 130, output
    assert "Traceback" not in output


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo that Ctrl-C stopped in its training, and that the same command finished."""
    folder = tmp_path_factory.mktemp("demo") / "a, b"
    interrupt_training(folder)
    assert 0 < Run(folder / "run").steps[-1] < 12
    process = start(folder)
    output, _ = process.communicate(timeout=900)
    assert process.returncode == 0, output
    _, _, steps = output.partition(f"Everything is in {folder}/")
    three = [words for _, words in commands([line.strip() for line in steps.splitlines()])]
    assert [words[1] for words in three[-3:]] == ["report", "serve", "train"]
    for words in three:
        check(words)
    return folder


def test_every_test_row_is_scored_once_after_an_interruption(demo: Path) -> None:
    assert Run(demo / "run").steps[-1] == 12
    results = demo / "run" / "eval" / "best" / "test"
    predictions = read_predictions(results / "predictions.jsonl")
    manifest = json.loads((demo / "dataset" / "manifest.json").read_text())
    rows = sum(s["rows"] for s in manifest["shards"] if "/split=test/" in s["path"])
    assert predictions["id"].nunique() == len(predictions) == rows
    scores = json.loads((results / "scores.json").read_text())
    assert scores["rows"]["scored"] == scores["rows"]["in_split"] == rows
    assert {*predictions["dialect"]} > {"Bornholmsk"}
    assert "<html" in (results / "report.html").read_text()


def test_the_dataset_has_no_faults(demo: Path) -> None:
    # Among them: speakers or sentences that several splits share.
    assert verify(demo / "dataset").faults == []
