"""The exponential moving average of a model's weights over the steps of its training."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, final

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

EMA: Final = "ema"
"""Its name: in the optimizer's state, in metrics and below ``averages``."""

NAMES: Final = "names"
"""The key, in the optimizer's groups, of the names of their parameters."""


@final
class MovingAverage:
    """The exponential moving average of the weights, after each step of the optimizer.

    It lies in the optimizer's state, so that checkpoints keep it. A parameter's average begins with
    its value after its first step. Polyak and Juditsky (1992), "Acceleration of stochastic
    approximation by averaging".
    """

    def __init__(self, optimizer: Optimizer, model: Module, decay: float) -> None:
        self._optimizer, self._decay = optimizer, decay
        names = {parameter: name for name, parameter in model.named_parameters()}
        for group in optimizer.param_groups:  # in checkpoints they name each average
            group[NAMES] = [names[parameter] for parameter in group["params"]]
        optimizer.register_step_post_hook(lambda *_: self._update())

    def _states(self) -> Iterator[tuple[Tensor, dict[str, Any]]]:
        for group in self._optimizer.param_groups:
            yield from (
                (p, self._optimizer.state[p]) for p in group["params"] if p in self._optimizer.state
            )

    @torch.no_grad()
    def _update(self) -> None:
        for parameter, state in self._states():
            if EMA not in state:
                state[EMA] = parameter.detach().clone()
            # An optimizer whose state is in the host's memory restores it there.
            state[EMA] = state[EMA].to(parameter.device)
            state[EMA].lerp_(parameter.detach(), 1 - self._decay)

    @contextmanager
    def weights(self) -> Iterator[None]:
        """Let the model have the averages instead of its weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for parameter, state in self._states():
            if EMA in state:
                average = state[EMA].to(parameter.device)
                parameter.data, state[EMA] = average, parameter.data
