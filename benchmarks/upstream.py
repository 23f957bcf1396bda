"""The recipe of a checkout of omnilingual-asr, whose modules have the names of those here."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


def upstream_recipe(checkout: Path) -> Any:
    """Import upstream's training recipe; ``workflows`` is then the checkout's in this process."""
    # On the path it would lose against the one here, which is a regular package.
    package = ModuleType("workflows")
    package.__path__ = [str(checkout / "workflows")]
    sys.modules["workflows"] = package
    return import_module("workflows.recipes.wav2vec2.asr.recipe")
