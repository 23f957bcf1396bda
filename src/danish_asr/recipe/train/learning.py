"""What learns, and how: frozen parts of the model, and the optimizer with its learning rates."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, final

import sentencepiece
import torch
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrModel
from fairseq2.nn import Linear
from fairseq2.nn.utils.module import freeze_parameters
from fairseq2.recipe.base import RecipeContext
from fairseq2.recipe.component import register_component
from fairseq2.recipe.optim import prepare_parameter_groups
from fairseq2.runtime.dependency import DependencyContainer, DependencyResolver
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn import ModuleList, Parameter
from torch.optim import Optimizer
from torch.optim.adamw import adamw
from typing_extensions import override

from danish_asr.recipe.config import training_sections as sections
from danish_asr.recipe.config.load import ALL_LAYERS, HEAD, in_steps, top_layers
from danish_asr.recipe.config.schema import AsrConfig
from danish_asr.recipe.train.console import log

_HOST: Final = torch.device("cpu")


class Freezing:
    """What a configuration freezes, and for how long.

    Parts that never learn are frozen before DDP or FSDP wraps the model: then no process waits for
    their gradients, the backward pass ends above them and the optimizer has no state for them.

    ``epoch``: the steps in an epoch; where they are unknown, only the order of the stages counts.

    Attributes:
        stages: What learns after so many steps, from step 0 on: ``head``, ``top <n>`` or ``all``.
    """

    def __init__(self, config: AsrConfig, epoch: int = 1_000_000) -> None:
        section, model = config.trainer, config.model
        self._layers = section.freeze_encoder_layers
        self._feature_extractor = section.freeze_feature_extractor
        if self._feature_extractor is None:  # then it is frozen if it is pretrained
            pretrained = model.name or model.path or config.pretrained_encoder.name
            self._feature_extractor = bool(pretrained)
        unfreeze = section.unfreeze
        self.stages = {math.floor(in_steps(first, epoch)): unfreeze[first] for first in unfreeze}
        if section.freeze_encoder_for_n_steps:
            self.stages = {0: HEAD, section.freeze_encoder_for_n_steps: ALL_LAYERS}
        elif not self.stages:
            self.stages = {0: ALL_LAYERS}

    def stage(self, step: int) -> int:
        """The key of the stage that a step, counted from 1, belongs to."""
        return max(first for first in self.stages if first < step)

    def freeze_permanently(self, model: Wav2Vec2AsrModel) -> None:
        """Freeze what never learns: convolutions, or the lowest layers and all below them."""
        if self._feature_extractor:
            freeze_parameters(model.encoder_frontend.feature_extractor)
        if self._layers:
            lowest = model.encoder.layers[: self._layers]
            for part in (model.encoder_frontend, model.masker, *lowest):
                freeze_parameters(part)

    def begin(self, stage: int, model: Wav2Vec2AsrModel) -> None:
        """Let the parts of a stage learn, and freeze all others."""
        learning = self.stages[stage]
        for part in (model.encoder_frontend, model.masker, model.encoder):
            freeze_parameters(part, learning != ALL_LAYERS)
        if top := top_layers(learning):
            for part in (*model.encoder.layers[-top:], model.encoder.layer_norm):
                freeze_parameters(part, value=False)
        self.freeze_permanently(model)


def keep_layers(model: Wav2Vec2AsrModel, kept: Sequence[int]) -> None:
    """Reduce the encoder to the layers ``kept``; none: all stay."""
    if kept:
        model.encoder.layers = ModuleList([model.encoder.layers[number] for number in kept])


def slice_head(head: Linear, full: Path, own: Path) -> None:
    """Reduce a model's head from one tokenizer to another; before DDP or FSDP wraps it."""
    before, pieces = head.output_dim, _pieces(full)
    kept = [pieces.index(piece) for piece in _pieces(own)]
    for name, parameter in list(head.named_parameters()):
        setattr(head, name, Parameter(parameter.detach()[kept]))
    head.output_dim = len(kept)
    log.info("The head keeps {:,} of {:,} symbols; its tokenizer: {}", head.output_dim, before, own)


def _pieces(file: Path) -> list[str]:
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return [model.id_to_piece(number) for number in range(model.get_piece_size())]


def register_optimizer(container: DependencyContainer, name: str) -> None:
    """Register the optimizer ``optimizer.name`` in fairseq2's container, unless it is there."""
    code = sections.OPTIMIZERS[name].code
    if code is None:
        return

    def create(resolver: DependencyResolver, config: object) -> Optimizer:
        parameters = prepare_parameter_groups(RecipeContext(resolver).model, [])
        optimizer: Optimizer = resolve_name(code)(parameters, **vars(config))
        return optimizer

    register_component(container, Optimizer, name, config_kls=sections.AdamWConfig, factory=create)


@final
class OffloadedAdamW(Optimizer):
    """AdamW whose moments stay in the host's memory, where the step is computed as well.

    Ren et al. (2021), ZeRO-Offload: Democratizing Billion-Scale Model Training. Weights and
    gradients are copied to the host tensor by tensor, and the new weights back. With FSDP2, each
    process updates its own shard.
    """

    def __init__(
        self, params: Iterable[Tensor] | Iterable[dict[str, Any]], **settings: object
    ) -> None:
        super().__init__(params, settings)

    @override
    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                # A tensor with fewer rows than processes leaves some of them nothing.
                if p.grad is not None and _own_shard(p).numel():
                    self._update(_own_shard(p), _own_shard(p.grad), self.state[p], group)

    def _update(
        self, weight: Tensor, grad: Tensor, state: dict[str, Tensor], group: dict[str, Any]
    ) -> None:
        on_host = weight.to(_HOST, torch.float32, copy=True)
        if not state:
            state["step"] = torch.zeros((), device=_HOST)
            state["exp_avg"] = torch.zeros_like(on_host)
            state["exp_avg_sq"] = torch.zeros_like(on_host)
        beta1, beta2 = group["betas"]
        adamw(
            [on_host],
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
        weight.copy_(on_host)

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        # PyTorch would move the moments to the parameters' device.
        super().load_state_dict({**state_dict, "state": {}})
        parameters = [p for group in self.param_groups for p in group["params"]]
        for number, state in state_dict["state"].items():
            self.state[parameters[number]] = state


def _own_shard(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
