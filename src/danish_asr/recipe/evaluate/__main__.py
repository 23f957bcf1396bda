"""Evaluate: ``python -m danish_asr.recipe.evaluate OUTDIR --config-file FILE``."""

from danish_asr.recipe.entry import evaluate

if __name__ == "__main__":
    evaluate()
