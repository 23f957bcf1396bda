"""Word and character error rates from integer counts that add up.

Counts and alignments are those of jiwer: this module calls RapidFuzz as jiwer does, without
jiwer's overhead per call. Importing it loads neither torch nor fairseq2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final, Literal, NamedTuple, get_args

import jiwer
from rapidfuzz.distance import Levenshtein

from danish_asr.base.errors import ConfigError, find_named, user_code

Denominator = Literal["standard", "coral"]
"""What errors are divided by. ``standard``: the length of the reference, S + D + H. ``coral``:
S + D + H + I, as CoRal's official evaluation; at most 1, and at most the standard rate."""

DENOMINATORS: Final[tuple[Denominator, ...]] = get_args(Denominator)


@dataclass(frozen=True, slots=True)
class Counts:
    """Differences between hypothesis and reference, in words or in characters."""

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def reference_length(self) -> int:
        """Words or characters of the reference."""
        return self.hits + self.substitutions + self.deletions

    def to_tuple(self) -> tuple[int, int, int, int]:
        """Return hits, substitutions, deletions and insertions."""
        return self.hits, self.substitutions, self.deletions, self.insertions

    def rate(self, denominator: Denominator = "standard") -> float:
        """Return errors as a fraction; over an empty reference the number of insertions."""
        length = self.reference_length + (self.insertions if denominator == "coral" else 0)
        return self.errors / max(length, 1)


# A line of counts is the number of rows and then, for each metric, the four numbers of
# `Counts.to_tuple`. Words (WER) are the first metric, characters (CER) the second.
NUMBERS_PER_METRIC: Final = 4


def counts_of_metric(number: int) -> slice:
    """Return where a line of counts has those of a metric, numbered from 0."""
    start = 1 + NUMBERS_PER_METRIC * number
    return slice(start, start + NUMBERS_PER_METRIC)


def reference_of_metric(number: int) -> slice:
    """Return where the counts are that add up to the reference: all but the insertions."""
    counts = counts_of_metric(number)
    return slice(counts.start, counts.stop - 1)


WORD_COUNTS: Final = counts_of_metric(0)
CHARACTER_COUNTS: Final = counts_of_metric(1)
REFERENCE_WORDS: Final = reference_of_metric(0)


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """The counts of one utterance or of any set of utterances."""

    rows: int = 0
    words: Counts = Counts()
    characters: Counts = Counts()

    def __add__(self, other: ErrorCounts) -> ErrorCounts:
        pairs = zip(self.to_tuple(), other.to_tuple(), strict=True)
        return ErrorCounts.from_tuple([one + another for one, another in pairs])

    def wer(self, denominator: Denominator = "standard") -> float:
        """Return the word error rate over all words (a micro-average)."""
        return self.words.rate(denominator)

    def cer(self, denominator: Denominator = "standard") -> float:
        """Return the character error rate; a space between words is a character."""
        return self.characters.rate(denominator)

    @classmethod
    def from_tuple(cls, numbers: Sequence[int]) -> ErrorCounts:
        """Build the counts from the numbers that `to_tuple` returns."""
        words, characters = numbers[WORD_COUNTS], numbers[CHARACTER_COUNTS]
        return cls(numbers[0], Counts(*words), Counts(*characters))

    def to_tuple(self) -> tuple[int, ...]:
        """Return rows, then hits, substitutions, deletions, insertions of words, of characters."""
        return self.rows, *self.words.to_tuple(), *self.characters.to_tuple()


def count_errors(reference: str, hypothesis: str) -> ErrorCounts:
    """Count the errors of one utterance; the texts are compared without normalisation."""
    words = count_word_errors(reference, hypothesis)
    characters = count_character_errors(reference, hypothesis)
    return ErrorCounts(1, words, characters)


def count_word_errors(reference: str, hypothesis: str) -> Counts:
    """Count hits and errors of words."""
    return align_counts(split_words(reference), split_words(hypothesis))


def count_character_errors(reference: str, hypothesis: str) -> Counts:
    """Count hits and errors of characters; a space between words is a character."""
    return align_counts(reference.strip(), hypothesis.strip())


def align_counts(reference: Sequence[str], hypothesis: Sequence[str]) -> Counts:
    """Count hits and errors of jiwer's alignment."""
    if reference == hypothesis:
        return Counts(hits=len(reference))
    tags = [tag for tag, _, _ in Levenshtein.editops(reference, hypothesis).as_list()]
    deletions = tags.count("delete")
    insertions = deletions + len(hypothesis) - len(reference)
    substitutions = len(tags) - deletions - insertions
    hits = len(reference) - substitutions - deletions
    return Counts(hits, substitutions, deletions, insertions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A rate of integer counts that add up over rows, groups, files and seeds.

    The rate is errors per unit of the reference or, if higher is better, hits per unit.
    """

    name: str  # key in JSON, column in CSV
    title: str  # heading of tables
    unit: str  # what is counted, in the plural; key of the counts in JSON
    count: Callable[[str, str], Counts]
    """Takes the normalised reference and hypothesis of an utterance."""
    lower_is_better: bool = True


METRICS: Final[Mapping[str, Metric]] = {
    "wer": Metric(name="wer", title="WER", unit="words", count=count_word_errors),
    "cer": Metric(name="cer", title="CER", unit="characters", count=count_character_errors),
}
"""What every score has. Others are named as ``package.module:Name`` (docs/howto)."""


def find_metrics(names: Sequence[str]) -> tuple[Metric, ...]:
    """Return `METRICS` and then the named ones; raises `ConfigError` with all faults."""
    metrics = dict(METRICS)
    taken = {"group", "rows", "speakers", *metrics, *(metric.unit for metric in METRICS.values())}
    faults: list[str] = []
    for name in names:
        if name in METRICS:
            continue
        try:
            metric = find_named(name, METRICS, "metric")
        except ConfigError as error:
            faults += error.faults
            continue
        if not isinstance(metric, Metric):
            faults.append(f"metric: {name} must be a danish_asr.metrics.Metric, found {metric!r}")
        elif metric.name in taken or metric.unit in taken or metric.name == metric.unit:
            faults.append(f"metric: {name} must have a name and a unit of its own")
        else:
            metrics[metric.name] = replace(metric, count=_guarded(metric))
            taken |= {metric.name, metric.unit}
    if faults:
        raise ConfigError(faults)
    return tuple(metrics.values())


def _guarded(metric: Metric) -> Callable[[str, str], Counts]:
    def count(reference: str, hypothesis: str) -> Counts:
        with user_code(metric.count, f"counting {metric.title}"):
            return metric.count(reference, hypothesis)

    return count


_TAGS: Final = {
    "equal": "hit",
    "replace": "substitution",
    "delete": "deletion",
    "insert": "insertion",
}


class AlignedWord(NamedTuple):
    """One column of an alignment; a side without a word is the empty string."""

    tag: str
    reference: str
    hypothesis: str


def align_words(
    reference: Sequence[str], hypothesis: Sequence[str], *, hits: bool = True
) -> list[AlignedWord]:
    """Return jiwer's alignment, whose errors `align_counts` counts, or only its errors."""
    aligned: list[AlignedWord] = []
    for step in Levenshtein.opcodes(reference, hypothesis):
        if step.tag == "equal" and not hits:
            continue
        words = reference[step.src_start : step.src_end]
        others = hypothesis[step.dest_start : step.dest_end]
        pairs = zip_longest(words, others, fillvalue="")
        aligned += [AlignedWord(_TAGS[step.tag], *pair) for pair in pairs]
    return aligned


def error_places(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[int, ...]:
    """Return the places of the errors: 2 i + 1 for word i, 2 i for an insertion before it."""
    if reference == hypothesis:
        return ()
    steps = Levenshtein.editops(reference, hypothesis).as_list()
    return tuple(2 * int(place) + (tag != "insert") for tag, place, _ in steps)


_SPACES: Final = re.compile(r"\s\s+")


def split_words(text: str) -> list[str]:
    """Split at spaces as jiwer does: a single tab or newline does not separate words."""
    words = text.split()
    if " ".join(words) == text:  # usual, and faster
        return words
    return [word for word in _SPACES.sub(" ", text).strip().split(" ") if word]


def compute_wer(predictions: Iterable[str], references: Iterable[str]) -> float:
    """Return jiwer's word error rate over all pairs, as a fraction.

    Takes lists, pandas Series, arrays or iterators of strings; mind that jiwer takes the references
    first.

    Raises:
        TypeError: A single text, or an entry that is not a string, such as None or NaN.
        ValueError: The numbers of predictions and references differ.
    """
    return _compute(jiwer.wer, predictions, references)


def compute_cer(predictions: Iterable[str], references: Iterable[str]) -> float:
    """Return jiwer's character error rate over all pairs, see `compute_wer`."""
    return _compute(jiwer.cer, predictions, references)


def _compute(
    rate: Callable[[list[str], list[str]], float],
    predictions: Iterable[str],
    references: Iterable[str],
) -> float:
    hypotheses, expected = _texts("predictions", predictions), _texts("references", references)
    if len(hypotheses) != len(expected):
        raise ValueError(f"{len(hypotheses)} predictions for {len(expected)} references")
    return float(rate(expected, hypotheses))


def _texts(name: str, texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise TypeError(f"{name}: expected a list of texts, found a single text")
    entries = list(texts)
    for position, text in enumerate(entries):
        if not isinstance(text, str):
            raise TypeError(f"{name}[{position}]: expected a string, found {text!r:.40}")
    return entries
