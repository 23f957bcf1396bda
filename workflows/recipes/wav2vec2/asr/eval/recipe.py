"""Evaluate: ``python -m workflows.recipes.wav2vec2.asr.eval.recipe OUTDIR --config-file FILE``."""

from danish_asr.base.stops import exit_at_stops

if __name__ == "__main__":
    exit_at_stops()

    from danish_asr.cli.upstream import run_as_upstream  # its imports take seconds

    run_as_upstream("evaluate")
