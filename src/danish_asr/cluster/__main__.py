"""``python -m danish_asr.cluster --processes 2 --trace OUTDIR/trace MODULE ARGUMENTS``."""

from __future__ import annotations

import sys

from danish_asr.cluster.job import main

if __name__ == "__main__":
    sys.exit(main())
