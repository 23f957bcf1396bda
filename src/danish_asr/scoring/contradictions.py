"""Rows whose reference a model contradicts: what it hears instead is far more probable to it.

The measure of a row is its gap, the loss of the reference minus that of the hypothesis, in nats per
character of the reference. It is 0 where both are the same text, and small where the model is
unsure, so that a difficult voice does not look like a wrong text. An empty hypothesis has no loss.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import exp, inf, log
from typing import Final, NamedTuple

import numpy as np
from rapidfuzz.fuzz import partial_ratio

from danish_asr.base.errors import PredictionsError
from danish_asr.metrics import count_character_errors
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.settings import Settings

OTHER_TEXT: Final = "another text"
TOO_LONG: Final = "text longer than the audio"
TOO_SHORT: Final = "text shorter than the audio"
GARBLED: Final = "partly another text"
UNCLEAR: Final = "noise or another language"
NO_SPEECH: Final = "no speech"
NO_TEXT: Final = "no text"

KINDS: Final[Mapping[str, str]] = {
    OTHER_TEXT: "it may be that of another recording",
    TOO_LONG: "the audio may have been cut",
    TOO_SHORT: "words of the audio are missing",
    GARBLED: "some words are wrong, or misspelt",
    UNCLEAR: "the model is far less sure than elsewhere of what it hears",
    NO_SPEECH: "the model hears nothing, or nearly so",
    NO_TEXT: "the model hears words",
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

_CONTAINED: Final = 80
"""Per cent: how similar a part of the longer text is to the shorter one (rapidfuzz)."""

_SPOKEN: Final = 0.2
"""Characters of the hypothesis per character of the reference below which nobody seems to speak."""

_OTHER: Final = 0.6
"""CER from which on nothing is common; two Danish sentences differ by 0.7 and more."""

_UNSURE: Final = 0.9
"""Confidence below which a hypothesis may be unclear, if it is also unusual for the model."""


class Contradiction(NamedTuple):
    """A row and what its model heard."""

    row: Prediction
    kind: str  # of `KINDS`
    gap: float  # infinite if the text needs more frames than the audio has
    reference: str  # normalised
    hypothesis: str


class Judgement(NamedTuple):
    """What a model says about rows."""

    ids: set[str]
    median_cer: float
    limit: float  # the least gap of a contradiction
    contradictions: dict[str, Contradiction]  # by id


class _Measured(NamedTuple):
    row: Prediction
    reference: str
    hypothesis: str
    cer: float
    gap: float
    unsure: float  # the loss of the hypothesis


def judge(rows: Iterable[Prediction], model: str, settings: Settings | None = None) -> Judgement:
    """Return the rows whose reference the model contradicts; all rows are of one model.

    Raises:
        PredictionsError: The rows have no confidence, or the model is wrong about most of them.
    """
    measured = [
        _measure(row, reference, hypothesis, model)
        for row, reference, hypothesis in (settings or Settings()).scored(rows)
    ]
    if all(row.row.loss is None for row in measured):
        raise PredictionsError(
            f"{model}: no row has a loss, as in the average of several models; name each model"
        )
    cer = float(np.median([row.cer for row in measured]))
    if cer > _WEAK:
        raise PredictionsError(
            f"{model}: the model is too weak to judge: half of {len(measured):,} rows have a CER "
            f"above {cer:.0%}, and at most {_WEAK:.0%} is expected. Train longer, or begin with a "
            "better model. If it is good elsewhere, most texts are those of other recordings"
        )
    limit = max(LEAST_GAP, _outlying([row.gap for row in measured]))
    unsure = max(-log(_UNSURE), _outlying([row.unsure for row in measured]))
    found = {
        row.row.id: Contradiction(
            row.row, _kind(row, unsure), row.gap, row.reference, row.hypothesis
        )
        for row in measured
        if row.gap > limit and row.gap * max(len(row.reference), 1) > _EVIDENCE
    }
    return Judgement({row.row.id for row in measured}, cer, limit, found)


def _measure(row: Prediction, reference: str, hypothesis: str, model: str) -> _Measured:
    if row.confidence is None:
        raise PredictionsError(
            f"{model}: row {row.id!r} has no confidence: the predictions are of an earlier "
            "evaluation, or of another program; evaluate the model again"
        )
    characters = max(len(reference), 1)
    errors = count_character_errors(reference, hypothesis).errors / characters
    unsure = -log(max(row.confidence, exp(-100)))
    gap = inf if row.loss is None else row.loss
    # Nothing is no text to prefer; noise can make it improbable too.
    if hypothesis:
        gap -= unsure * len(hypothesis) / characters
    return _Measured(row, reference, hypothesis, errors, gap, unsure)


def _outlying(values: Sequence[float]) -> float:
    """Return the bound above which values stand out, whatever up to half of them are."""
    finite = np.minimum(values, 1e9)
    median = np.median(finite)
    spread = np.median(np.abs(finite - median))
    return float(median + _SCALES * 1.4826 * spread)


def _kind(row: _Measured, unsure: float) -> str:
    if not row.reference:
        return NO_TEXT
    if row.gap == inf:
        return TOO_LONG
    if len(row.hypothesis) < _SPOKEN * len(row.reference):
        return NO_SPEECH
    if partial_ratio(row.reference, row.hypothesis) >= _CONTAINED:
        longer = len(row.reference) > len(row.hypothesis)
        if abs(len(row.reference) - len(row.hypothesis)) > row.cer * len(row.reference) / 2:
            return TOO_LONG if longer else TOO_SHORT
    if row.unsure > unsure:
        return UNCLEAR
    return OTHER_TEXT if row.cer >= _OTHER else GARBLED


def contradicted_by_all(judgements: Sequence[Judgement]) -> list[Contradiction]:
    """Return the rows that each model contradicts that has judged them, the largest gap first.

    Of a row that several models contradict, the smallest gap counts.
    """
    least: dict[str, Contradiction] = {}
    for judgement in judgements:
        for name, found in judgement.contradictions.items():
            if all(name in other.contradictions for other in judgements if name in other.ids):
                least[name] = min(least.get(name, found), found, key=lambda row: row.gap)
    return sorted(least.values(), key=lambda found: (-found.gap, found.row.id))
