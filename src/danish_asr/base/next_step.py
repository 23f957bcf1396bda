"""The line that ends a command: what comes next."""

import shlex


def next_step(*words: object, why: str, processes: int = 1) -> str:
    """Return a command of ``danish-asr``, quoted for a shell, and what it is for.

    Several processes, each with a GPU, are started by `danish_asr.base.cluster`.
    """
    program = "danish-asr"
    if processes > 1:
        program = f"python -m danish_asr.base.cluster --nproc-per-node {processes} -m danish_asr"
    return f"Next: {program} {shlex.join(map(str, words))}    # {why}"
