"""The optimizers that this recipe has beside fairseq2's: AdamW for GPUs with little memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Final

from fairseq2.recipe.component import register_component
from fairseq2.recipe.config import ADAFACTOR_OPTIMIZER, ADAMW_OPTIMIZER, AdamWGroupConfig
from fairseq2.recipe.model import RecipeModel
from fairseq2.recipe.optim import prepare_parameter_groups
from fairseq2.runtime.dependency import DependencyContainer, DependencyResolver
from torch.optim import Optimizer

from danish_asr.errors import MissingExtraError
from danish_asr.recipe.adamw_offload import OffloadedAdamW

ADAMW_8BIT_OPTIMIZER: Final = "adamw_8bit"
ADAMW_OFFLOAD_OPTIMIZER: Final = "adamw_offload"

EXTRA: Final = "bitsandbytes"
"""The optional dependency that has the one of 8 bits, which is the library's name as well."""

STATE_BYTES: Final[Mapping[str, float]] = {
    ADAMW_OPTIMIZER: 8,
    ADAMW_OFFLOAD_OPTIMIZER: 8,
    # Two codes, and for each block of 256 two scales in float32.
    ADAMW_8BIT_OPTIMIZER: 2 + 2 * 4 / 256,
    # Of a vector; of a matrix far less.
    ADAFACTOR_OPTIMIZER: 4,
}
"""What an optimizer keeps of a parameter that learns, in a tensor of some size."""


@dataclass(kw_only=True)
class LeanAdamWConfig:
    """The keys that they share with AdamW, with the values that AdamW has in this recipe."""

    lr: float = 5e-05
    """The learning rate."""

    betas: tuple[float, float] = (0.9, 0.98)
    """How much of the averages of the gradient and its square a step keeps."""

    eps: float = 1e-08
    """Added to the denominator."""

    weight_decay: float = 0.0
    """The weight decay coefficient."""

    groups: Sequence[AdamWGroupConfig] = field(default_factory=list)
    """Parameters with values of their own, as for AdamW."""


def register_optimizers(container: DependencyContainer) -> None:
    """Register the optimizers in fairseq2's container."""
    factories = {
        ADAMW_8BIT_OPTIMIZER: _create_adamw_8bit,
        ADAMW_OFFLOAD_OPTIMIZER: _create_adamw_offload,
    }
    for name, factory in factories.items():
        register_component(container, Optimizer, name, config_kls=LeanAdamWConfig, factory=factory)


def optimizer_faults(name: str) -> list[str]:
    """What keeps the optimizer ``optimizer.name`` from being used here."""
    if name != ADAMW_8BIT_OPTIMIZER or find_spec(EXTRA) is not None:
        return []
    return [f"optimizer.name: {MissingExtraError(name, EXTRA)}"]


def _create_adamw_8bit(resolver: DependencyResolver, config: LeanAdamWConfig) -> Optimizer:
    from danish_asr.recipe.adamw_8bit import AdamW8bit  # noqa: PLC0415 - an optional dependency

    return _create(AdamW8bit, resolver, config)


def _create_adamw_offload(resolver: DependencyResolver, config: LeanAdamWConfig) -> Optimizer:
    return _create(OffloadedAdamW, resolver, config)


def _create(
    kls: Callable[..., Optimizer], resolver: DependencyResolver, config: LeanAdamWConfig
) -> Optimizer:
    return kls(
        prepare_parameter_groups(resolver.resolve(RecipeModel), config.groups),
        lr=config.lr,
        betas=config.betas,
        eps=config.eps,
        weight_decay=config.weight_decay,
    )
