"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

import danish_asr  # noqa: F401 - before a test imports fairseq2, which then finds libsndfile

# How long an example takes says something about the machine, and nothing about the code.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
