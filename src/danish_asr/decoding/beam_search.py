"""CTC prefix beam search for one utterance, with an n-gram model and hotwords, in log space.

pyctcdecode searches and KenLM scores. The score of a text is
``ln P(text | audio) + alpha * ln P(text | language model) + beta * words``; see `NgramScorer` for
words that the language model does not know. Imports neither torch nor fairseq2, so that worker
processes start fast.
"""

import logging
import math
import os
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple, Self, cast

import kenlm
import numpy as np
import pyctcdecode.decoder
from numpy.typing import NDArray
from pyctcdecode.alphabet import Alphabet
from pyctcdecode.decoder import BeamSearchDecoderCTC
from pyctcdecode.language_model import AbstractLanguageModel, HotwordScorer

from danish_asr.decoding.ngram import find_language_model
from danish_asr.decoding.transcript import Alternative
from danish_asr.metrics import ErrorCounts, count_errors
from danish_asr.text.profiles import normalize

logging.getLogger("pyctcdecode").setLevel(logging.ERROR)

_LN10: Final = math.log(10)
_UNKNOWN_FLOOR: Final = -10.0
"""log10: KenLM gives -100 to every unknown word if the file lacks ``<unk>``, which forbids them."""

_AVERAGE_LENGTH: Final = 6
"""Characters; the beginning of an unknown word costs more if it is longer, as in pyctcdecode."""


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """What a search depends on, besides the audio."""

    language_model: str | None
    hotwords: tuple[str, ...]
    hotword_weight: float
    alpha: float
    beta: float
    unknown: float
    beam: int
    beam_prune: float
    symbol_prune: float


class Columns(NamedTuple):
    """The log-probabilities of one utterance in the columns that matter."""

    values: NDArray[np.float32]  # (S, columns)
    labels: list[str]  # what each column writes; '' is the blank


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


class Hotwords(HotwordScorer):
    """Scores hotwords as pyctcdecode's own class does, at a cost that does not grow with them.

    pyctcdecode 0.5 tries a regular expression with all of them at each place of each text.
    """

    def __init__(self, hotwords: Iterable[str], weight: float) -> None:
        words = sorted({word for hotword in hotwords for word in hotword.split()}, key=len)
        self._words, self._weight = frozenset(words), weight
        self._shortest: dict[str, int] = {}  # the shortest word that begins so
        for word in words:
            for end in range(1, len(word) + 1):
                self._shortest.setdefault(word[:end], len(word))

    def __contains__(self, item: str) -> bool:
        """Whether a hotword begins so."""
        return item in self._shortest

    def score(self, text: str) -> float:
        """Return the weight of each hotword in a text."""
        return self._weight * sum(word in self._words for word in text.split())

    def score_partial_token(self, token: str) -> float:
        """Return the part of the weight for the beginning of a word."""
        shortest = self._shortest.get(token)
        return self._weight * len(token) / shortest if shortest else 0.0

    @classmethod
    def build_scorer(cls, hotwords: Iterable[str] | None = None, weight: float = 10.0) -> Self:
        """Return what pyctcdecode asks for with each utterance; keeps the last one."""
        return cast(Self, _hotwords(tuple(hotwords or ()), weight))


pyctcdecode.decoder.HotwordScorer = Hotwords  # type: ignore[attr-defined, assignment]


@lru_cache(maxsize=1)
def _hotwords(hotwords: tuple[str, ...], weight: float) -> Hotwords:
    return Hotwords(hotwords, weight)


def search(settings: SearchSettings, columns: Columns, *, native: bool = True) -> str:
    """Return the best text of an utterance, words separated by single spaces."""
    return search_best(settings, 1, columns, native=native)[0].text


def search_best(
    settings: SearchSettings, count: int, columns: Columns, *, native: bool = True
) -> list[Alternative]:
    """Return up to ``count`` texts of an utterance, the best first.

    ``native``: by ctc-beam-decoder where it is installed; the texts are the same.
    """
    if not len(columns.values):
        return [Alternative("", 0.0)]
    beams = _beams(settings, columns, native=native)
    return [Alternative(str(text), float(score)) for text, *_, score in beams[:count]]


def _beams(
    settings: SearchSettings, columns: Columns, *, native: bool = True
) -> list[tuple[Any, ...]]:
    """Return texts with their scores, the best first, as pyctcdecode does."""
    limits = {
        "beam_width": settings.beam,
        "beam_prune_logp": settings.beam_prune,
        "token_min_logp": settings.symbol_prune,
        "hotwords": settings.hotwords,
        "hotword_weight": settings.hotword_weight,
    }
    if native and (search := _native_search(settings)):
        return search.beams(columns, limits)
    decoder = BeamSearchDecoderCTC(Alphabet(columns.labels, is_bpe=False), _scorer(settings))
    try:
        # Not `decode`: it prunes texts with the same last words, and with them some of their
        # alignments, so that the best text of short inputs was not found.
        return list(decoder.decode_beams(columns.values, **limits))  # type: ignore[arg-type]
    finally:
        decoder.cleanup()  # it is kept in a variable of its class


class _NativeSearch:
    """ctc-beam-decoder: the same search in C++, with the same texts and scores.

    It loads a language model with its table of symbols, which therefore has the characters of all
    words from the start, and grows with the symbols that the audio brings.
    """

    def __init__(self, module: Any, settings: SearchSettings) -> None:
        self._new, self._labels = module.BeamSearchDecoder, [""]
        self._arguments: dict[str, Any] = {}
        if settings.language_model:
            files = find_language_model(settings.language_model)
            words = files.words()
            self._labels += sorted({" ", *"".join(words)})
            self._arguments = {
                "kenlm_model_path": str(files.file),
                "unigrams": words,
                "alpha": settings.alpha,
                "beta": settings.beta,
                "unk_score_offset": settings.unknown,
            }
        self._decoder: Any = None

    def beams(self, columns: Columns, limits: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Return texts with their scores, the best first."""
        new = sorted({*columns.labels}.difference(self._labels))
        if self._decoder is None or new:
            self._labels += new
            with _silent():  # KenLM prints a progress bar
                self._decoder = self._new(self._labels, **self._arguments)
        numbers = {label: number for number, label in enumerate(self._labels)}
        values = np.full((len(columns.values), len(numbers)), -np.inf, np.float32)
        values[:, [numbers[label] for label in columns.labels]] = columns.values
        found: list[tuple[Any, ...]] = self._decoder.decode_beams(values, **limits)
        return found


@lru_cache(maxsize=1)
def _native_search(settings: SearchSettings) -> _NativeSearch | None:
    """Return None where ctc-beam-decoder is not installed, or would give other texts.

    With a language model it scores hotwords that the model does not know in another way, and
    unknown words if the model has no ``<unk>``.
    """
    module = _native()
    if module is None:
        return None
    if settings.language_model:
        file = find_language_model(settings.language_model)
        if settings.hotwords or not file.knows_unknown():
            return None
    return _NativeSearch(module, settings)


@contextmanager
def _silent() -> Iterator[None]:
    """Leave out what C++ prints to the standard error."""
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


@cache
def _native() -> Any:
    """Return ctc-beam-decoder, None if it is not installed or cannot run here."""
    with suppress(ImportError, OSError, RuntimeError):
        module = import_module("ctc_beam_decoder")
        if module.has_kenlm():  # loads its library, which needs glibc 2.35
            return module
    return None


class Chunk(NamedTuple):
    """Utterances to decode and to compare with their references under a text profile."""

    settings: SearchSettings
    profile: str
    utterances: list[Columns]
    references: list[str]


def count_chunk(chunk: Chunk) -> tuple[ErrorCounts, float]:
    """Decode a chunk; returns its errors, and the processor seconds of the search."""
    begin = time.process_time()
    # Each point of a grid has other weights, with which ctc-beam-decoder would load the model anew.
    texts = [search(chunk.settings, columns, native=False) for columns in chunk.utterances]
    seconds = time.process_time() - begin
    errors = ErrorCounts()
    for reference, text in zip(chunk.references, texts, strict=True):
        errors += count_errors(reference, normalize(text, chunk.profile))
    return errors, seconds


@lru_cache(maxsize=1)
def _scorer(settings: SearchSettings) -> NgramScorer | None:
    return NgramScorer(settings) if settings.language_model else None


@lru_cache(maxsize=1)
def load(path: str) -> tuple[Any, list[str]]:
    """Load a language model as a ``kenlm.Model`` and its words, sorted; keeps the last one."""
    files = find_language_model(path)
    return files.load(), files.words()
