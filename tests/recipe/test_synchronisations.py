"""A training step reads few values of a GPU, because each time it waits for all that was queued."""

from importlib.metadata import version
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.gpu_rows import Row, Settings, model_config

if not version("fairseq2").startswith("0.6"):
    pytest.skip("benchmarks/gpu_step.py is for fairseq2 0.6", allow_module_level=True)

from benchmarks.gpu_step import train_steps

ROW = Row("adamw")


class Count(TorchDispatchMode):
    """Counts where a tensor's value is read: ``item()``, ``float()`` and ``bool()``."""

    values = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.values += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def values_read(steps: int, batches: int) -> int:
    settings = Settings(*("tiny", torch.device("cpu"), 1.0, 0.5, batches, 0, steps, False, 0, None))
    count: Any = Count()  # type: ignore[no-untyped-call]
    with count:
        train_steps(settings, ROW, model_config("tiny", ROW))
    return int(count.values)


def test_a_step_reads_one_value_for_each_batch_that_it_accumulates() -> None:
    """It is whether the loss is finite; metrics are read when they are reported."""
    assert values_read(4, 3) - values_read(2, 3) == 2 * 3
