"""Evaluate: ``python -m workflows.recipes.wav2vec2.asr.eval.recipe OUTDIR --config-file FILE``."""

from danish_asr.recipe.evaluation import main

if __name__ == "__main__":
    main()
