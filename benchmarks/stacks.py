"""The same training on two stacks: losses, speed, memory, and each other's checkpoints.

    python benchmarks/stacks.py .venv/bin/python .venv-next/bin/python [--demo demo] [--steps 60]

Trains the demo's model from scratch on the demo's dataset, with the interpreter of each stack in
turn, on one thread. Then each stack continues and evaluates the other's run, which must give what
the other gives when it does so itself. Needs what `danish-asr demo` leaves.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
VERSIONS = (
    "import fairseq2 as f, torch as t, numpy as n; print(*(m.__version__ for m in (f, t, n)))"
)


def main() -> None:
    """Train, continue and evaluate; print the tables."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs=2, help="the interpreters of two environments")
    parser.add_argument("--demo", type=Path, default=Path("demo"))
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    more = args.steps // 3
    with tempfile.TemporaryDirectory() as folder:
        runs, peaks = [Path(folder, name) for name in "ab"], []
        for python, run in zip(args.pythons, runs, strict=True):
            peaks.append(recipe(python, "train", run, args.demo, args.steps))
        compare(args.pythons, runs, peaks)
        for own, run in zip(args.pythons, runs, strict=True):
            results: list[tuple[list[float], str]] = []
            for python in args.pythons:
                copy = run.with_name(f"{run.name}-{len(results)}")
                shutil.copytree(run, copy)
                recipe(python, "train", copy, args.demo, args.steps + more)
                recipe(python, "evaluate", copy, args.demo, args.steps + more)
                scores = copy / "eval" / "best" / "test" / "predictions.jsonl"
                results.append((losses(copy)[args.steps :], scores.read_text("utf-8")))
            (first, texts), (second, others) = results
            apart = max(abs(x - y) for x, y in zip(first, second, strict=True))
            same = sum(x == y for x, y in zip(texts.splitlines(), others.splitlines(), strict=True))
            print(
                f"the run of {own}, continued by {more} steps on both stacks: losses differ by at "
                f"most {apart:.1e}, {same} of {len(texts.splitlines())} predictions are equal"
            )


def recipe(python: str, command: str, run: Path, demo: Path, steps: int) -> float:
    """Run a recipe to its end; returns the peak memory of the process in GiB."""
    values = (
        f"common.assets.extra_paths=[{demo.resolve() / 'dataset' / 'cards'}]",
        "dataset.name=danish_asr_demo",
        *("common.torch.num_threads=1", f"regime.num_steps={steps}"),
        *("regime.publish_metrics_every_n_steps=1", "regime.validate_every_n_steps=20"),
        "regime.checkpoint_every_n_steps=20",
    )
    words = [python, "-m", "danish_asr", command, str(run)]
    words += ["--config", "configs/demo.yaml", *values]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    process = subprocess.Popen(  # noqa: S603
        words,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "FAIRSEQ2_DEVICE": "cpu", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status  # as it has been waited for
    if status:
        sys.exit(f"{' '.join(command)} failed:\n{output}")
    return usage.ru_maxrss / 2**20


def metrics(run: Path) -> list[dict[str, Any]]:
    """The metrics of each step."""
    return list(map(json.loads, (run / "metrics" / "train.jsonl").read_text("utf-8").splitlines()))


def losses(run: Path) -> list[float]:
    """The loss of each step, in nats per character."""
    return [row["Loss (nats per character)"] for row in metrics(run)]


def compare(pythons: list[str], runs: list[Path], peaks: list[float]) -> None:
    """Print losses, seconds and memory of two runs side by side."""
    first, second = map(losses, runs)
    apart = [abs(x - y) for x, y in zip(first, second, strict=True)]
    for python, run, peak in zip(pythons, runs, peaks, strict=True):
        answer = subprocess.check_output([python, "-c", VERSIONS], text=True)  # noqa: S603
        seconds = statistics.median(row["Compute Time"] + row["Data Time"] for row in metrics(run))
        versions = "fairseq2 {}, torch {}, numpy {}".format(*answer.split())
        print(f"{versions}: {seconds:.3f} s/step (median), {peak:.2f} GiB at most  ({python})")
    print(f"{'step':>6} {'loss':>16} {'loss':>16} {'apart':>9}")
    for step, row in enumerate(zip(first, second, apart, strict=True), start=1):
        if step % max(1, len(apart) // 6) == 0 or step == 1:
            print(f"{step:>6} {row[0]:>16.12f} {row[1]:>16.12f} {row[2]:>9.1e}")
    print(f"largest difference in {len(apart)} steps: {max(apart):.1e}")


if __name__ == "__main__":
    main()
