"""Evaluate: ``python -m workflows.recipes.wav2vec2.asr.eval OUTDIR --config-file FILE``."""

from danish_asr.recipe.entry import evaluate

if __name__ == "__main__":
    evaluate()
