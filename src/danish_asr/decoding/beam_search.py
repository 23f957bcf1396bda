"""CTC prefix beam search for one utterance, with an n-gram model and hotwords, in log space.

pyctcdecode searches and KenLM scores. The score of a text is
``ln P(text | audio) + alpha * ln P(text | language model) + beta * words``; see `NgramScorer` for
words that the language model does not know. Imports neither torch nor fairseq2, so that worker
processes start fast.
"""

import logging
import math
from bisect import bisect_left
from functools import lru_cache
from typing import Any, Final, NamedTuple

import kenlm
import numpy as np
from numpy.typing import NDArray
from pyctcdecode.alphabet import Alphabet
from pyctcdecode.decoder import BeamSearchDecoderCTC
from pyctcdecode.language_model import AbstractLanguageModel

from danish_asr.base.errors import LanguageModelError
from danish_asr.decoding.beam_settings import SearchSettings
from danish_asr.decoding.ngram import find_language_model
from danish_asr.decoding.transcript import Alternative

logging.getLogger("pyctcdecode").setLevel(logging.ERROR)

_LN10: Final = math.log(10)
_UNKNOWN_FLOOR: Final = -10.0
"""log10: KenLM gives -100 to every unknown word if the file lacks ``<unk>``, which forbids them."""

_AVERAGE_LENGTH: Final = 6
"""Characters; the beginning of an unknown word costs more if it is longer, as in pyctcdecode."""


class Columns(NamedTuple):
    """The log-probabilities of one utterance in the columns that matter."""

    values: NDArray[np.float32]  # (S, columns)
    labels: list[str]  # what each column writes; '' is the blank


def search(settings: SearchSettings, count: int, columns: Columns) -> list[Alternative]:
    """Return up to ``count`` texts of an utterance, the best first; words have single spaces."""
    if not len(columns.values):
        return [Alternative("", 0.0)]
    alphabet = Alphabet(columns.labels, is_bpe=False)
    decoder = BeamSearchDecoderCTC(alphabet, _scorer(settings))
    try:
        # Not `decode`: it prunes texts with the same last words, and with them some of their
        # alignments, so that the best text of short inputs was not found.
        beams = decoder.decode_beams(
            columns.values,  # type: ignore[arg-type]
            beam_width=settings.beam,
            beam_prune_logp=settings.beam_prune,
            token_min_logp=settings.symbol_prune,
            hotwords=settings.hotwords,
            hotword_weight=settings.hotword_weight,
        )
    finally:
        decoder.cleanup()  # it is kept in a variable of its class
    return [Alternative(str(text), float(score)) for text, *_, score in beams[:count]]


class NgramScorer(AbstractLanguageModel):
    """Scores words as pyctcdecode's own class does, with a sorted list instead of a trie in Python.

    A word that the language model does not know costs ``unknown`` (log10) more than its ``<unk>``
    and stays possible, as Danish makes new compounds; hotwords do not cost more. The beginning
    of a word that begins no known word costs as much, so that beams are compared fairly.
    """

    def __init__(self, settings: SearchSettings) -> None:
        self._model, self._words = load(settings.language_model or "")
        self._alpha, self._beta = settings.alpha, settings.beta
        self._unknown = settings.unknown
        self._expected = {word for hotword in settings.hotwords for word in hotword.split()}

    @property
    def order(self) -> int:
        """The length of its longest n-grams."""
        return int(self._model.order)

    def get_start_state(self) -> Any:
        """Return the state at the beginning of a sentence."""
        state = kenlm.State()
        self._model.BeginSentenceWrite(state)
        return state

    def score_partial_token(self, partial_token: str) -> float:
        """Score the beginning of a word."""
        position = bisect_left(self._words, partial_token)
        if position < len(self._words) and self._words[position].startswith(partial_token):
            return 0.0
        return self._unknown * max(1.0, len(partial_token) / _AVERAGE_LENGTH)

    def score(self, prev_state: Any, word: str, is_last_word: bool = False) -> tuple[float, Any]:
        """Score a word after a state; returns the score and the next state."""
        state = kenlm.State()
        score = self._model.BaseScore(prev_state, word, state)
        if word not in self._model:
            score = max(score, _UNKNOWN_FLOOR) + self._unknown * (word not in self._expected)
        if is_last_word:
            score += self._model.BaseScore(state, "</s>", kenlm.State())
        return self._alpha * score * _LN10 + self._beta, state


@lru_cache(maxsize=1)
def _scorer(settings: SearchSettings) -> NgramScorer | None:
    return NgramScorer(settings) if settings.language_model else None


@lru_cache(maxsize=1)
def load(path: str) -> tuple[kenlm.Model, list[str]]:
    """Return a language model and its words, sorted; LanguageModelError if it is broken."""
    config = kenlm.Config()
    config.show_progress, config.arpa_complain = False, kenlm.ARPALoadComplain.NONE
    try:
        model = kenlm.Model(path, config)
    except (OSError, RuntimeError) as error:
        raise LanguageModelError(
            f"{path}: is no ARPA file or KenLM binary, or is damaged: {error}"
        ) from error
    return model, find_language_model(path).words()
