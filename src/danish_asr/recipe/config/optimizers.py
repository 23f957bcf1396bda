"""The optimizers: where their code is, and the memory of their states.

They are known without their code, whose library may not be installed.
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from torch import Tensor

ADAMW_8BIT: Final = "adamw_8bit"
ADAMW_OFFLOAD: Final = "adamw_offload"

_TRAIN: Final = "danish_asr.recipe.train"
_SMALLEST_8BIT: Final = 4096
"""Elements; bitsandbytes keeps the moments of smaller tensors in float32."""


def _adamw_bytes(parameter: Tensor) -> int:
    return 8 * parameter.numel()  # two moments in float32


def _8bit_bytes(parameter: Tensor) -> int:
    if parameter.numel() < _SMALLEST_8BIT:
        return _adamw_bytes(parameter)
    # Two codes for each element, and two scales for each block of 256.
    return 2 * parameter.numel() + 2 * 4 * math.ceil(parameter.numel() / 256)


def _adafactor_bytes(parameter: Tensor) -> int:
    if parameter.dim() < 2:
        return 4 * parameter.numel()
    *matrices, rows, columns = parameter.shape  # a row and a column stand for a matrix
    return 4 * math.prod(matrices) * (rows + columns)


class OptimizerKind(NamedTuple):
    """What is known about an optimizer before it is made."""

    state_bytes: Callable[[Tensor], int] = _adamw_bytes  # of a parameter that learns
    code: str | None = None  # ``package.module:Class``; None: fairseq2 makes it
    on_host: bool = False  # its state is in the host's memory
    extra: str | None = None  # the optional dependency, also the name of its library


OPTIMIZERS: Final = {
    "adamw": OptimizerKind(),
    ADAMW_8BIT: OptimizerKind(_8bit_bytes, f"{_TRAIN}.adamw_8bit:AdamW8bit", extra="bitsandbytes"),
    ADAMW_OFFLOAD: OptimizerKind(code=f"{_TRAIN}.learning:OffloadedAdamW", on_host=True),
    "adafactor": OptimizerKind(_adafactor_bytes),
}
"""By ``optimizer.name``."""
