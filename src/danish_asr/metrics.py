"""Word and character error rates: the light part of :mod:`danish_asr.scoring`.

Importing this module loads neither torch nor fairseq2. For scores per dialect, age group and gender
see :func:`danish_asr.scoring.scores.score_predictions`.
"""

from danish_asr.scoring.counts import (
    DENOMINATORS,
    Counts,
    Denominator,
    ErrorCounts,
    align_counts,
    compute_cer,
    compute_wer,
    count_errors,
    denominator_named,
    split_words,
)

__all__ = [
    "DENOMINATORS",
    "Counts",
    "Denominator",
    "ErrorCounts",
    "align_counts",
    "compute_cer",
    "compute_wer",
    "count_errors",
    "denominator_named",
    "split_words",
]
