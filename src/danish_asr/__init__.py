"""Fine-tune omniASR CTC models on Danish speech and report error rates per dialect.

What most programs need is imported from here, when it is first used: ``import danish_asr`` alone
imports neither torch nor pandas.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from danish_asr.base import native

if TYPE_CHECKING:
    from danish_asr.corpus.convert import convert
    from danish_asr.inference.model import load_model
    from danish_asr.metrics import compute_cer, compute_metrics, compute_wer
    from danish_asr.report.compare import compare
    from danish_asr.report.figures import plot_groups
    from danish_asr.report.score import score
    from danish_asr.scoring.predictions import read_predictions
    from danish_asr.text.profiles import normalize

__version__ = "0.1.0"

__all__ = [
    "compare",
    "compute_cer",
    "compute_metrics",
    "compute_wer",
    "convert",
    "load_model",
    "normalize",
    "plot_groups",
    "read_predictions",
    "score",
]

_MODULES: Final = {
    "compare": "report.compare",
    "compute_cer": "metrics",
    "compute_metrics": "metrics",
    "compute_wer": "metrics",
    "convert": "corpus.convert",
    "load_model": "inference.model",
    "normalize": "text.profiles",
    "plot_groups": "report.figures",
    "read_predictions": "scoring.predictions",
    "score": "report.score",
}

native.preload_with_fairseq2()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"danish_asr.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'danish_asr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *globals()]
