"""Runs the recipes on a small dataset: in this process, or in processes of their own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from danish_asr.cli.upstream import run_as_upstream
from danish_asr.recipe.evaluate.recipe import Evaluation
from danish_asr.recipe.run.advice import LOSS
from tests.forks import in_processes

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs" / "demo.yaml"
TWO_BATCHES = "trainer.grad_accumulation.num_batches=2"
RECIPE = "workflows.recipes.wav2vec2.asr"


# The feature extractor takes most of a step: it has 16 channels instead of 64 to 128.
_CHANNELS = [[16, 10, 5], [16, 8, 4], [16, 8, 4], [16, 4, 2], [16, 4, 2]]


def sized(**sizes: float) -> str:
    """The sizes of a model that is small enough for a test."""
    own = {"num_encoder_layers": 1, "model_dim": 32, "feature_dim": 16} | sizes
    text = ", ".join(f"{name}: {value}" for name, value in own.items())
    text += f", feature_extractor_layer_descs: {_CHANNELS}"
    return f"model.config_overrides={{encoder_config: {{{text}}}}}"


def small(**sizes: float) -> str:
    """A model without dropout, which is drawn per process, so that runs can be compared."""
    return sized(dropout_p=0.0, **sizes)


def arguments(run: Path, dataset: Path, *overrides: str, config: Path = CONFIG) -> list[str]:
    """The command line for a model that is small enough for a test."""
    return [
        str(run),
        *("--config-file", str(config)),
        *("--config", f"common.assets.extra_paths=[{dataset}/cards]", "dataset.name=tiny"),
        sized(),
        *("common.torch.num_threads=1", "dataset.transforms=[]"),
        "dataset.asr_task_config.max_num_elements=160000",  # about a fourth of the training rows
        *("regime.num_steps=4", "regime.validate_every_n_steps=2"),
        *("regime.checkpoint_every_n_steps=2", "regime.publish_metrics_every_n_steps=1"),
        *overrides,
    ]


train_main = partial(run_as_upstream, "train")
eval_main = partial(run_as_upstream, "evaluate")


def train(run: Path, dataset: Path, *overrides: str, config: Path = CONFIG) -> int:
    """Train in this process; returns the exit status."""
    return status_of(train_main, arguments(run, dataset, *overrides, config=config))


def evaluate(run: Path, dataset: Path, *overrides: str, config: Path = CONFIG) -> int:
    """Evaluate in this process; returns the exit status."""
    return status_of(eval_main, arguments(run, dataset, *overrides, config=config))


def status_of(main: Callable[[list[str]], None], args: list[str]) -> int:
    """Call the main function of a program in this process; returns the exit status."""
    try:
        main(args)
    except SystemExit as exit_:
        return int(exit_.code or 0)
    return 0


def after_each_batch(monkeypatch: pytest.MonkeyPatch, do: Callable[[int], None]) -> None:
    """Call ``do`` with the number of batches that an evaluation has scored since its start."""
    scored: list[Any] = []
    score = Evaluation.score

    def then(self: Evaluation, *batch: Any) -> Any:
        yield from score(self, *batch)
        scored.append(batch)
        do(len(scored))

    monkeypatch.setattr(Evaluation, "score", then)


def start(
    module: str, args: Sequence[str], *, processes: int = 1, device: str | None = "cpu"
) -> subprocess.Popen[str]:
    """Start a recipe in processes of its own; without a device each takes a GPU."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    if processes == 1:
        launcher = []
    chosen = {} if device is None else {"FAIRSEQ2_DEVICE": device}
    return subprocess.Popen(
        [sys.executable, *launcher, "-m", module, *args],
        env={**os.environ, **chosen, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Nobody reads while a test waits for something else.
        pipesize=1 << 20,
    )


def finish(process: subprocess.Popen[str], status: int = 0) -> str:
    """Wait for the end of processes that must have this status; returns what they printed."""
    output, _ = process.communicate(timeout=600)
    assert process.returncode == status, output
    return output


def train_with_two(run: Path, dataset: Path, *overrides: str) -> str:
    """Train in two processes; returns what they printed."""
    return in_processes(2, train_main, arguments(run, dataset, *overrides))


def copy_until(step: int, finished: Path, run: Path) -> Path:
    """Copy a run as if it had been killed after the checkpoint of this step."""
    shutil.copytree(finished, run)
    for folder in (run / "checkpoints").glob("step_*"):
        if int(folder.name.removeprefix("step_")) > step:
            shutil.rmtree(folder)
    return run


def metrics(run: Path, kind: str) -> list[dict[str, Any]]:
    """The rows of a metrics file; none if there is no such file."""
    file = run / "metrics" / f"{kind}.jsonl"
    lines = file.read_text().splitlines() if file.is_file() else []
    return [json.loads(line) for line in lines]


def losses(run: Path) -> list[float]:
    """The training loss of each step."""
    return [row[LOSS] for row in metrics(run, "train")]


def weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    """The weights that a run saved at a step."""
    file = run / "checkpoints" / f"step_{step}" / "model" / "pp_00" / "tp_00" / "sdp_00.pt"
    state: dict[str, torch.Tensor] = torch.load(file, weights_only=True)
    return state


def same_weights(one: Path, other: Path, step: int = 4) -> bool:
    """Whether two runs saved the same weights at a step, bit for bit."""
    left, right = weights(one, step), weights(other, step)
    return left.keys() == right.keys() and all(
        torch.equal(left[name], right[name]) for name in left
    )


def changed(run: Path, one: int, other: int) -> set[str]:
    """The parameters that differ between two checkpoints."""
    first, last = weights(run, one), weights(run, other)
    return {name for name in first if not torch.equal(first[name], last[name])}


def saved_optimizer(run: Path, step: int) -> dict[str, Any]:
    """What the optimizer of a run's first process saved: ``state`` and ``param_groups``."""
    file = run / "checkpoints" / f"step_{step}" / "optimizer" / "pp_00" / "tp_00" / "sdp_00.pt"
    saved: dict[str, Any] = torch.load(file, weights_only=False)
    return saved
