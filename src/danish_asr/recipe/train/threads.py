"""How many threads PyTorch computes with: the CPUs that are free, unless somebody has chosen.

Two threads on a CPU that another program uses wait for each other in every operation: steps then
took five times as long as with one thread.
"""

import json
import os
from pathlib import Path
from typing import Final

import torch

from danish_asr.base.cluster import CpuMeter, usable_cpus
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.run.run_directory import ENVIRONMENT
from danish_asr.recipe.train.console import log

THREADS: Final = "threads"
"""The key of their number in ``environment.json``."""

_METER: Final = CpuMeter()


def choose_threads(config: AsrConfig, run: Path | None = None) -> int | None:
    """Return the number of threads, and None if ``OMP_NUM_THREADS`` or the configuration says it.

    A ``run`` that continues keeps its number, by which sums are rounded, if it has so many CPUs.
    """
    if "OMP_NUM_THREADS" in os.environ or config.common.torch.num_threads is not None:
        return None
    usable = usable_cpus()
    file = run / ENVIRONMENT if run else None
    if file and file.is_file():
        before = json.loads(file.read_text(encoding="utf-8"))[-1].get(THREADS)
        if before and before <= usable:
            return int(before)
    free = _METER.free()
    return usable if free is None else max(1, min(usable, round(free)))


def use_threads(number: int | None) -> None:
    """Let PyTorch compute with so many threads, after fairseq2 has set its own number; log it."""
    if number is not None:
        torch.set_num_threads(number)
    chosen = "the CPUs that are free" if number is not None else "as configured"
    log.info(
        "CPU threads: {} ({}; {} CPUs are granted). OMP_NUM_THREADS sets another number.",
        *(torch.get_num_threads(), chosen, usable_cpus()),
    )
