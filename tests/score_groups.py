from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from danish_asr.base.tables import Row
from danish_asr.scoring.intervals import COUNTS
from tests.score_rows import prediction


def row(
    name: str,
    reference: str,
    hypothesis: str,
    loss: float | None,
    confidence: float = 0.99,
    *,
    seconds: float | None = 0.1,
) -> Row:
    measures = {"loss": loss, "confidence": confidence, "seconds_per_character": seconds}
    return prediction(name, reference, hypothesis, **measures)


def group(words: Any, errors: Any, speakers: Sequence[str | None] | None = None) -> pd.DataFrame:
    """Speakers with word substitutions only."""
    words = np.asarray(words)
    index = pd.Index([*(speakers or [f"s{n}" for n in range(len(words))])], dtype=object)
    sums = pd.DataFrame(0, index, [*COUNTS])
    sums["word_hits"], sums["word_substitutions"] = words - errors, errors
    return sums


def dialects(sizes: Sequence[int], means: Sequence[float], seed: int) -> dict[str, pd.DataFrame]:
    """Groups of different speakers, whose rates vary log-normally (sigma 0.5)."""
    generator = np.random.default_rng(seed)
    groups = {}
    for number, (size, mean) in enumerate(zip(sizes, means, strict=True)):
        words = generator.integers(200, 600, size)
        own = np.minimum(mean * np.exp(generator.normal(-0.125, 0.5, size)), 1)
        names = [f"{number}-{speaker}" for speaker in range(size)]
        groups[f"{number}"] = group(words, generator.binomial(words, own), names)
    return groups
