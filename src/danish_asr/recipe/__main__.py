"""Train: ``python -m danish_asr.recipe OUTDIR --config-file FILE``."""

import signal

# Ctrl-C in the imports ends the program without a traceback; `run` sets Python's handler again.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from danish_asr.recipe.entry import train  # noqa: E402

if __name__ == "__main__":
    train()
