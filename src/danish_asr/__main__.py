"""``python -m danish_asr`` runs ``danish-asr``."""

from danish_asr.cli import main

if __name__ == "__main__":
    main()
