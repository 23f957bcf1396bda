"""Fine-tune omniASR CTC models on Danish speech and report error rates per dialect.

Importing this package is cheap: neither torch nor fairseq2 is imported before it is needed.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from danish_asr.transcription.model import load_model

__version__ = "0.1.0"

__all__ = ["load_model"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from danish_asr.transcription import model  # noqa: PLC0415 - it imports torch

        return getattr(model, name)
    raise AttributeError(f"module 'danish_asr' has no attribute {name!r}")
