"""AdamW whose moments stay in the host's memory, where the step is computed as well.

Ren et al. (2021), ZeRO-Offload: Democratizing Billion-Scale Model Training. The GPU keeps weights
and gradients, which are fetched tensor by tensor, and gets the new weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.adamw import adamw
from typing_extensions import override

_HOST = torch.device("cpu")


@final
class OffloadedAdamW(Optimizer):
    """Updates of a parameter that FSDP2 has sharded the part that this process holds."""

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        *,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
    ) -> None:
        usual = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, usual)

    @override
    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                # Of a tensor with fewer rows than there are processes, some hold nothing.
                if p.grad is not None and _own_part(p).numel():
                    self._update(_own_part(p), _own_part(p.grad), self.state[p], group)

    def _update(
        self, weight: Tensor, grad: Tensor, state: dict[str, Tensor], group: dict[str, Any]
    ) -> None:
        here = weight.to(_HOST, torch.float32, copy=True)
        if not state:
            state["step"] = torch.zeros((), device=_HOST)
            state["exp_avg"] = torch.zeros_like(here)
            state["exp_avg_sq"] = torch.zeros_like(here)
        beta1, beta2 = group["betas"]
        adamw(
            [here],
            [grad.to(_HOST, torch.float32)],
            [state["exp_avg"]],
            [state["exp_avg_sq"]],
            [],
            [state["step"]],
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )
        weight.copy_(here)

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        # PyTorch would put the moments where the parameters are.
        super().load_state_dict({**state_dict, "state": {}})
        parameters = [p for group in self.param_groups for p in group["params"]]
        for number, state in state_dict["state"].items():
            self.state[parameters[number]] = state


def _own_part(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
