"""Train: ``python -m danish_asr.recipe OUTDIR --config-file FILE``."""

from danish_asr.base.stops import exit_at_stops

if __name__ == "__main__":
    exit_at_stops()  # before the imports, which take seconds

from danish_asr.recipe.entry import train

if __name__ == "__main__":
    train()
