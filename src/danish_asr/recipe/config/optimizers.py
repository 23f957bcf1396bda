"""The optimizers: names, settings and memory.

Names and settings are known without the code of an optimizer, whose library may not be installed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, NamedTuple

from fairseq2.recipe import config as base
from fairseq2.utils.validation import ValidationResult
from torch import Tensor

from danish_asr.base.errors import ConfigError
from danish_asr.recipe.config.sections import with_broken

ADAMW_8BIT: Final = "adamw_8bit"
ADAMW_OFFLOAD: Final = "adamw_offload"

_TRAIN: Final = "danish_asr.recipe.train"
_SMALLEST_8BIT: Final = 4096
"""Elements; bitsandbytes keeps the moments of smaller tensors in float32."""


@dataclass(kw_only=True)
class LeanAdamWConfig:
    """The settings that `adamw_8bit` and `adamw_offload` share with AdamW."""

    lr: float = 5e-05
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-08
    weight_decay: float = 0.0
    groups: Sequence[base.AdamWGroupConfig] = field(default_factory=list)


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

    settings: type  # the dataclass of ``optimizer.config``, with ``lr`` and ``groups``
    state_bytes: Callable[[Tensor], int] = _adamw_bytes  # of a parameter that learns
    code: str | None = None  # ``package.module:Class``; None: fairseq2 makes it
    on_host: bool = False  # its state is in the host's memory
    extra: str | None = None  # the optional dependency, also the name of its library


OPTIMIZERS: Final = {
    base.ADAMW_OPTIMIZER: OptimizerKind(base.AdamWConfig),
    ADAMW_8BIT: OptimizerKind(
        LeanAdamWConfig, _8bit_bytes, f"{_TRAIN}.adamw_8bit:AdamW8bit", extra="bitsandbytes"
    ),
    ADAMW_OFFLOAD: OptimizerKind(
        LeanAdamWConfig, code=f"{_TRAIN}.learning:OffloadedAdamW", on_host=True
    ),
    base.ADAFACTOR_OPTIMIZER: OptimizerKind(base.AdafactorConfig, _adafactor_bytes),
}
"""Names that ``optimizer.name`` takes."""


def find_optimizer(name: str) -> OptimizerKind:
    """Return the optimizer of this name.

    Raises:
        ConfigError: There is none.
    """
    if name not in OPTIMIZERS:
        close = get_close_matches(name, OPTIMIZERS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        rule = f"must be one of {', '.join(OPTIMIZERS)}"
        raise ConfigError([f"optimizer.name {rule}, but is {name!r}{hint}"])
    return OPTIMIZERS[name]


@dataclass(kw_only=True)
class AsrOptimizerSection(base.OptimizerSection):
    """The optimizer."""

    def validate(self) -> ValidationResult:
        """Check learning rates and betas, also those of groups of parameters."""
        settings, rules = self.config, dict[str, bool]()
        if isinstance(settings, base.AdamWConfig):
            # For gradients of a step itself, and for CUDA graphs: torch refuses both in the step.
            rules["`config.differentiable` must be false"] = not settings.differentiable
            rules["`config.capturable` must be false"] = not settings.capturable
        for name, rule, most in (
            ("lr", "must be at most 1000", 1000.0),
            ("betas", "must be below 1", math.nextafter(1, 0)),
        ):
            rules[f"`config.{name}` {rule}"] = _highest(settings, name) <= most
            for number, group in enumerate(getattr(settings, "groups", ())):
                found = f"of group {number} {rule}, but is {getattr(group, name, None)}"
                rules[f"`config.groups` must be sound: {name} {found}"] = (
                    _highest(group, name) <= most
                )
        return with_broken(rules, ValidationResult())


def _highest(settings: object, name: str) -> float:
    """Return a number, or the highest of several."""
    value = getattr(settings, name, None)
    values = value if isinstance(value, list | tuple) else [value]
    return max((each for each in values if isinstance(each, int | float)), default=0)
