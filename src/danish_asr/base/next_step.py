"""The line that ends a command: what comes next."""

import shlex


def next_step(*words: object, why: str) -> str:
    """Return a command of ``danish-asr``, quoted for a shell, and what it is for."""
    return f"Next: danish-asr {shlex.join(map(str, words))}    # {why}"
