"""Rows whose reference a model contradicts: what it hears instead is far more probable to it.

In: predictions with loss and confidence. Out: rows, each with a kind and its gap: the loss of the
reference minus that of the hypothesis, in nats per character of the reference. It is 0 where both
are the same text, and small where the model is unsure, so that a difficult voice does not look like
a wrong text. An empty hypothesis has no loss.
"""

from collections.abc import Mapping
from math import inf, log
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from danish_asr.base.errors import PredictionsError
from danish_asr.scoring.intervals import CHARACTER_COUNTS
from danish_asr.scoring.predictions import MEASURES
from danish_asr.scoring.scores import score_table
from danish_asr.scoring.settings import Settings

OTHER_TEXT: Final = "another text"
TOO_LONG: Final = "text longer than the audio"
NO_SPEECH: Final = "no speech or no text"

KINDS: Final[Mapping[str, str]] = {
    OTHER_TEXT: "it may be that of another recording, or some of its words are wrong or missing",
    TOO_LONG: "it needs more frames than the audio has: the audio may have been cut",
    NO_SPEECH: "the model hears nothing, or nearly so, or the text is empty",
}
"""What may be wrong with a row, and what that means."""

LEAST_GAP: Final = 1.5
"""Nats per character: a smaller gap is that of a usual error of recognition."""

_SCALES: Final = 6.0
"""Robust standard deviations (1.4826 MAD) above the median gap from which on a row stands out."""

_EVIDENCE: Final = log(1000)
"""The hypothesis is at least so many times as probable as the reference, for short texts."""

_WEAK: Final = 0.5
"""Median CER from which on the model itself is more likely to be wrong than the texts."""

_SPOKEN: Final = 0.2
"""Characters of the hypothesis per character of the reference below which nobody seems to speak."""


class Judgement(NamedTuple):
    """What a model says about rows."""

    judged: int
    contradictions: list[Mapping[str, Any]]
    """Rows of the table of scored rows with ``kind`` and ``gap``, which is infinite if the text
    needs more frames than the audio has, or is empty; the largest gap first."""


def judge(rows: pd.DataFrame, model: str, settings: Settings) -> Judgement:
    """Return the rows whose reference the model contradicts; all rows are of one model.

    Raises:
        PredictionsError: The rows have no confidence, or the model is wrong about most of them.
    """
    table = score_table(rows, settings)
    measures = table[[*MEASURES]].apply(pd.to_numeric, errors="coerce")
    is_text = (measures.isna() & table[[*MEASURES]].notna()).any(axis="columns")
    unmeasured = table[measures["confidence"].isna() | is_text]
    if len(unmeasured):
        raise PredictionsError(
            f"{model}: row {unmeasured['id'].iloc[0]!r} has no confidence, or a text in its place: "
            "the predictions are of another program; evaluate a model of this one"
        )
    table[[*MEASURES]] = measures
    characters = np.maximum(table["reference_normalised"].str.len(), 1)
    heard = table["hypothesis_normalised"].str.len()
    cer = (table[[*CHARACTER_COUNTS[1:]]].sum(axis=1) / characters).median()
    if cer > _WEAK:
        raise PredictionsError(
            f"{model}: the model is too weak to judge: half of {len(table):,} rows have a CER "
            f"above {cer:.0%}, and at most {_WEAK:.0%} is expected; train it longer"
        )
    unsure = -np.log(table["confidence"].clip(lower=np.exp(-100)))
    # An empty text is none to prefer; noise can make it improbable too.
    table["gap"] = table["loss"].fillna(inf) - unsure * heard / characters
    # The profile of the model's targets may leave nothing of a text that has words to score.
    has_no_text = (table["reference_normalised"] == "") | (
        table["loss"].isna() & table["seconds_per_character"].isna()
    )
    table.loc[has_no_text & (heard == 0), "gap"] = 0.0
    table["kind"] = np.select(
        [
            has_no_text | (heard < _SPOKEN * characters),
            table["gap"] == inf,
        ],
        [NO_SPEECH, TOO_LONG],
        OTHER_TEXT,
    )
    finite = table["gap"].clip(upper=1e9)
    spread = (finite - finite.median()).abs().median()  # whatever up to half of the rows are
    limit = max(LEAST_GAP, finite.median() + _SCALES * 1.4826 * spread)
    contradicted = table[(table["gap"] > limit) & (table["gap"] * characters > _EVIDENCE)]
    contradicted = contradicted.sort_values(["gap", "id"], ascending=[False, True])
    return Judgement(len(table), contradicted.to_dict("records"))
