"""Audio files to samples (``decode.py``, to read first), and the formats they come in."""
