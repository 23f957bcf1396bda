"""What is kept of recordings; imports nothing, for the command line."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is kept."""

    max_cer: float = 0.3
    """Of the model's own reading of a text, against the text."""
    max_disagreement: float = 0.05
    """Of the second model's reading, against the first one's."""
    min_confidence: float = 0.95
    """Of the first model in its own reading."""
    min_seconds: float = 1.0
    """Of an utterance."""
    max_seconds: float = 20.0
