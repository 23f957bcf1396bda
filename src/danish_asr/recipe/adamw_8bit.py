"""bitsandbytes' AdamW with moments of 8 bits, also for a model that FSDP has sharded.

Dettmers et al. (2022), 8-bit Optimizers via Block-wise Quantization.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast, final

from torch import Tensor
from torch.distributed.tensor import DTensor
from typing_extensions import override

# On some CPUs its import asks for a package that only its inference in 4 bits would use.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)

from bitsandbytes.optim import adamw  # noqa: E402


@final
class AdamW8bit(adamw.AdamW8bit):
    """Of a parameter that FSDP2 has sharded, it updates the part that this process holds.

    Tensors of fewer than 4096 elements keep moments in float32.
    """

    @override
    def init_state(self, group: dict[str, Any], p: Tensor, gindex: int, pindex: int) -> None:
        with self._own_part(p) as part:
            super().init_state(group, part, gindex, pindex)  # type: ignore[no-untyped-call]

    @override
    def update_step(self, group: dict[str, Any], p: Tensor, gindex: int, pindex: int) -> None:
        with self._own_part(p) as part:
            # Of a tensor with fewer rows than there are processes, some hold nothing.
            if part.numel():
                super().update_step(group, part, gindex, pindex)  # type: ignore[no-untyped-call]

    @contextmanager
    def _own_part(self, p: Tensor) -> Iterator[Tensor]:
        """Yield what this process holds of ``p``, with its gradient and the state of ``p``."""
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
