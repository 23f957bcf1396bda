"""Word and character error rates: the public API of :mod:`danish_asr.scoring`.

Importing this module is cheap: it needs neither torch nor fairseq2.
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
