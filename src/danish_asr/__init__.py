"""Fine-tune omniASR CTC models on Danish speech, and hear per dialect how well they do.

Importing this package is cheap: neither torch nor fairseq2 is imported before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairseq2.runtime.dependency import DependencyContainer

__version__ = "0.1.0"


def setup_fairseq2_extension(container: DependencyContainer) -> None:
    """Entry point ``fairseq2.extension``: register what this package adds to fairseq2.

    fairseq2 calls it whenever it initialises, so that the cards and architectures are known to
    every program that uses fairseq2, not only to our recipe.
    """
    from danish_asr.extension import register  # noqa: PLC0415 - fairseq2 only when it asks

    register(container)
