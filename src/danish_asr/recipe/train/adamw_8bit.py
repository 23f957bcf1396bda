"""bitsandbytes' AdamW with 8-bit moments, also for a model that FSDP2 has sharded.

Dettmers et al. (2022), 8-bit Optimizers via Block-wise Quantization. Tensors of fewer than 4096
elements keep moments in float32.

It overrides ``init_state`` and ``update_step``, which bitsandbytes (0.50) does not document.
Symptom without: its kernels fail on a DTensor. When the version moves: see whether it accepts
sharded parameters; tests/recipe/test_optimizers.py fails if the two methods are no longer called.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast, final

from bitsandbytes.optim import adamw
from torch import Tensor
from torch.distributed.tensor import DTensor
from typing_extensions import override


@final
class AdamW8bit(adamw.AdamW8bit):
    """With FSDP2, each process updates its own shard."""

    @override
    def init_state(self, group: dict[str, Any], p: Tensor, gindex: int, pindex: int) -> None:
        with self._own_shard(p) as part:
            super().init_state(group, part, gindex, pindex)  # type: ignore[no-untyped-call]

    @override
    def update_step(self, group: dict[str, Any], p: Tensor, gindex: int, pindex: int) -> None:
        with self._own_shard(p) as part:
            # A tensor with fewer rows than processes leaves some of them nothing.
            if part.numel():
                super().update_step(group, part, gindex, pindex)  # type: ignore[no-untyped-call]

    @contextmanager
    def _own_shard(self, p: Tensor) -> Iterator[Tensor]:
        """Yield this process's shard of ``p``, with its gradient and the state of ``p``."""
        if not isinstance(p, DTensor):
            yield p
            return
        part = cast(DTensor, p.detach()).to_local()
        part.grad = p.grad.to_local() if isinstance(p.grad, DTensor) else None
        self.state[part] = self.state[p]
        try:
            yield part
        finally:
            del self.state[part]
