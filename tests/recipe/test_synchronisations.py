"""A training step reads few values of a GPU, because each time it waits for all that was queued."""

import traceback
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.recipe.running import train


class Count(TorchDispatchMode):
    """Counts where a tensor's value is read: ``item()``, ``float()`` and ``bool()``.

    AdamW's counter of its steps is left out, as it is in the host's memory on a GPU too.
    """

    values = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            files = [frame.filename for frame in traceback.extract_stack()]
            self.values += not any(file.endswith("torch/optim/adam.py") for file in files)
        return func(*args, **(kwargs or {}))


def values_read(run: Path, dataset: Path, steps: int) -> int:
    """Of a training of so many steps, with one validation and one report at its end."""
    kinds = ("validate", "checkpoint", "publish_metrics")
    every = [f"regime.{kind}_every_n_steps={steps}" for kind in kinds]
    count: Any = Count()  # type: ignore[no-untyped-call]
    with count:
        assert train(run, dataset, *every, f"regime.num_steps={steps}") == 0
    return int(count.values)


def test_a_step_reads_one_value(tmp_path: Path, dataset: Path) -> None:
    """It is whether the loss is finite; metrics are read when they are reported."""
    more = values_read(tmp_path / "6", dataset, 6) - values_read(tmp_path / "4", dataset, 4)
    assert more == 2
