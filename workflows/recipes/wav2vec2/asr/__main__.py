"""Train: ``python -m workflows.recipes.wav2vec2.asr OUTDIR --config-file FILE``."""

from danish_asr.recipe.training import main

if __name__ == "__main__":
    main()
