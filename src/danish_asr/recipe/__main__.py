"""Train: ``python -m danish_asr.recipe OUTDIR --config-file FILE``."""

from danish_asr.recipe.training import main

if __name__ == "__main__":
    main()
