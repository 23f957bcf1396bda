"""``python -m danish_asr`` runs ``danish-asr``."""

from __future__ import annotations

from danish_asr.cli import main

if __name__ == "__main__":
    main()
