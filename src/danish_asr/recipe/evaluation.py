"""Evaluate: ``python -m danish_asr.recipe.evaluation OUTDIR --config-file FILE``."""

from danish_asr.recipe.cli import evaluate

if __name__ == "__main__":
    evaluate()
