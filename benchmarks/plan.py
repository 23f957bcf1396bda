"""Planned and measured memory of training steps on a CPU.

    python benchmarks/plan.py

Each row is a process of its own that trains two steps of two batches of noise with PyTorch's AdamW
and compares the growth of its peak resident memory with `danish_asr.planning.memory.step_memory`,
which counts on a CPU what a CPU's operators keep. What is in use before, Python and its libraries,
is not counted, and neither are buffers within oneDNN's kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import danish_asr

# isort: split
import torch
from fairseq2.device import CPU
from fairseq2.gang import create_fake_gangs
from fairseq2.nn import BatchLayout
from rich.console import Console
from rich.table import Table

from danish_asr.planning.activations import Batch
from danish_asr.planning.memory import Model, mixed_precision, step_memory
from danish_asr.recipe.config.load import load
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.models.cards import Assets

__all__ = ["danish_asr"]


class Case(NamedTuple):
    """An architecture, the batch, and what shapes the memory."""

    arch: str
    rows: int
    seconds: int
    checkpointing: str = "off"
    mixed: str = "off"
    frozen: int = 0


CASES = [
    Case("tiny", 16, 10),
    Case("tiny", 16, 10, checkpointing="layerwise"),
    Case("base_10h", 4, 8),
    Case("base_10h", 4, 8, checkpointing="layerwise"),
    Case("base_10h", 4, 8, frozen=8),
    Case("base_10h", 4, 8, mixed="auto"),
]


def main() -> None:
    """Measure each case in a process and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", type=int)
    args = parser.parse_args()
    if args.case is not None:
        print(json.dumps(measure(CASES[args.case])))
        return
    table = Table(title="MiB of two training steps on a CPU")
    columns = ("architecture", "batch", "checkpointing", "bfloat16", "frozen layers")
    for column in (*columns, "planned", "measured", "planned / measured"):
        table.add_column(column, justify="left" if column in columns else "right")
    for number, case in enumerate(CASES):
        planned, measured = run(number)
        shown = (f"{planned / 2**20:,.0f}", f"{measured / 2**20:,.0f}", f"{planned / measured:.2f}")
        batch = f"{case.rows} x {case.seconds} s"
        settings = (case.checkpointing, case.mixed, str(case.frozen))
        table.add_row(case.arch, batch, *settings, *shown)
    Console().print(table)


def run(case: int) -> tuple[int, int]:
    """Measure a case in a process of its own; returns planned and measured bytes."""
    command = [sys.executable, __file__, "--case", str(case)]
    # Without them, what was freed may stay with the process, by chance.
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    result = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    planned, measured = json.loads(result.stdout.splitlines()[-1])
    return planned, measured


def measure(case: Case) -> tuple[int, int]:
    """Return planned and measured bytes of a case."""
    trainer = {
        "activation_checkpointing": {"mode": case.checkpointing},
        "mixed_precision": {"mode": case.mixed},
        "freeze_encoder_layers": case.frozen,
    }
    tree = {"model": {"arch": case.arch}, "dataset": {"name": "none"}, "trainer": trainer}
    config = load(tree, where="the benchmark")
    family: Any = Assets(config.common.assets).model_family()
    described = replace(family.maybe_get_arch_config(case.arch), use_masking=False)
    model, batch = Model(family, described), Batch(case.rows, case.seconds * 16_000)
    planned = sum(step_memory(config, model, batch, on_gpu=False).values())
    train(
        Model(family, family.maybe_get_arch_config("tiny")), config, Batch(2, 8_000)
    )  # loads libraries
    before = in_use("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    train(model, config, batch)
    return planned, in_use("VmHWM") - before


def train(model: Model, config: AsrConfig, batch: Batch) -> None:
    """Train two steps of two batches of noise."""
    module: Any = model.family.create_new_model(
        model.config, create_fake_gangs(CPU), torch.float32, meta=False
    )
    for frozen, parameter in zip(
        model.build(config).parameters(), module.parameters(), strict=True
    ):
        parameter.requires_grad_(frozen.requires_grad)
    if config.trainer.activation_checkpointing.mode == "layerwise":
        model.family.apply_layerwise_ac(module, 1)
    module.encoder.layer_drop_p = 0.0
    optimizer = torch.optim.AdamW([p for p in module.parameters() if p.requires_grad])
    amp, seconds = mixed_precision(config), batch.samples / 16_000
    for _ in range(2):
        for _ in range(2):
            audio = torch.randn(batch)
            shorter = [batch.samples * 3 // 4] * (batch.rows - 1)
            targets = torch.randint(4, 20, (batch.rows, int(15 * seconds)))
            layout = BatchLayout.of(audio, [batch.samples, *shorter])
            with torch.autocast("cpu", amp, enabled=amp is not None):
                loss = module(audio, layout, targets, BatchLayout.of(targets))
            loss.backward()
            del loss, audio
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def in_use(name: str) -> int:
    """Return a field of ``/proc/self/status`` in bytes."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(next(line for line in text.splitlines() if line.startswith(name)).split()[1])


if __name__ == "__main__":
    main()
