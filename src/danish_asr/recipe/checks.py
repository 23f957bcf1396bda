"""What a run's first numbers mean, in plain words: warnings, never a reason to stop."""

from __future__ import annotations

import math
from collections.abc import Mapping

FIRST_STEPS = 3
"""Steps whose loss is held against chance."""


def loss_above_chance(nats_per_frame: float, vocabulary: int, step: int) -> str | None:
    """Judge the loss of one of the first steps.

    A model that knows nothing gives each of V symbols the probability 1/V in every frame, and CTC
    sums over alignments, so its loss per frame is at most ln(V). A loss above that is no bad luck.

    Args:
        nats_per_frame: The loss, summed over the batch, by the frames of the batch.
        vocabulary: V, the number of symbols, blank included.
        step: The step's number, for the message.
    """
    chance = math.log(vocabulary)
    if nats_per_frame <= chance:
        return None
    return (
        f"the loss of step {step} is {nats_per_frame:.2f} per frame; chance is ln({vocabulary}) = "
        f"{chance:.2f}. That is a fault, not bad luck: look at dataset.asr_task_config."
        "normalize_audio (true for omniASR), at the tokenizer, and at the learning rate"
    )


def waiting_for_data(data_seconds: float, compute_seconds: float, *, threads: int) -> str | None:
    """Judge how the time between two reports was spent.

    Args:
        data_seconds: Time that the trainer waited for batches.
        compute_seconds: Time that it computed.
        threads: Threads that decode audio, one per CPU core that the process may use.
    """
    total = data_seconds + compute_seconds
    if total <= 0 or data_seconds / total < 0.2:
        return None
    return (
        f"{data_seconds / total:.0%} of the time waits for data, which {threads} threads decode, "
        "one per CPU core of this process: raise the job's number of cores (LSF: #BSUB -n), and "
        "put the dataset on a local disk or on scratch"
    )


def little_memory_left(stats: Mapping[str, object]) -> str | None:
    """Judge the peak of the GPU's reserved memory."""
    peak = stats.get("peak_reserved_mem_ratio")
    if not isinstance(peak, float) or peak < 0.95:
        return None
    return (
        f"{peak:.0%} of the GPU's memory was in use: a longer batch may not fit. Lower "
        "dataset.asr_task_config.max_num_elements and raise trainer.grad_accumulation.num_batches"
    )
