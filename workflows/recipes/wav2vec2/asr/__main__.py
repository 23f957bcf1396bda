"""Train: ``python -m workflows.recipes.wav2vec2.asr OUTDIR --config-file FILE``."""

from __future__ import annotations

from .cli import train_main
from .recipe import AsrRecipe

if __name__ == "__main__":
    train_main(AsrRecipe())
