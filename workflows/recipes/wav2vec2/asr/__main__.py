"""Train: ``python -m workflows.recipes.wav2vec2.asr OUTDIR --config-file FILE``."""

from danish_asr.base.stops import exit_at_stops

if __name__ == "__main__":
    exit_at_stops()  # before the imports, which take seconds

from danish_asr.cli.upstream import run_as_upstream

if __name__ == "__main__":
    run_as_upstream("train")
