"""The training recipe, with masks that do not depend on the process.

    python -m tests.recipe.fixed_masks OUTDIR ...

Of the two views of CR-CTC, the first lacks the first half of each row, the second the other half.
"""

import torch
from torch import Tensor

from danish_asr.recipe import masking
from danish_asr.recipe.cli import train


def halves(lengths: Tensor, width: int, share: float, span: int) -> Tensor:  # noqa: ARG001
    """In place of ``masking.span_mask``."""
    first = torch.arange(width) < lengths[:, None] // 2
    is_first_view = torch.arange(len(lengths))[:, None] < len(lengths) // 2
    return torch.eq(first, is_first_view)


if __name__ == "__main__":
    masking.span_mask = halves
    train()
