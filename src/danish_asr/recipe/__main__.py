"""Train: ``python -m danish_asr.recipe OUTDIR --config-file FILE``."""

from danish_asr.recipe.cli import train

if __name__ == "__main__":
    train()
