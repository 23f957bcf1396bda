"""The search for the best weights of a language model: coarse to fine, over processes.

Worker processes import neither torch nor fairseq2, so that they start fast.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Final, NamedTuple

from danish_asr.base.workers import SECONDS_ALONE, WorkerPool
from danish_asr.metrics import ErrorCounts, count_errors
from danish_asr.text.profiles import normalize

ALPHAS: Final = (0.0, 0.3, 0.6, 0.9, 1.2)
BETAS: Final = (-1.0, 0.0, 1.0, 2.0, 3.0)
STEPS: Final = ((0.15, 0.5), (0.08, 0.25))
"""Steps of alpha and beta around the best point so far; it moves until no neighbour is better."""

MOST_MOVES: Final = 6
WEIGHTS_BEAM: Final = 25
"""The beam while alpha and beta are searched; a quarter of the time of 100."""

BEAMS: Final = (10, 25, 50, 100, 200)
ENOUGH: Final = 0.0005
"""The narrowest beam is taken whose WER is at most this much above the lowest."""


class Point(NamedTuple):
    """Values of a beam search."""

    alpha: float
    beta: float
    beam: int


@dataclass(frozen=True, slots=True)
class Trial:
    """What the values gave: errors, and processor seconds of the search."""

    point: Point
    errors: ErrorCounts
    seconds: float

    def to_row(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            **self.point._asdict(),
            "wer": self.errors.wer(),
            "cer": self.errors.cer(),
            "cpu_seconds": round(self.seconds, 3),
            "counts": self.errors.to_tuple(),
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> "Trial":
        """Build it from its row."""
        point = Point(row["alpha"], row["beta"], row["beam"])
        return cls(point, ErrorCounts.from_tuple(row["counts"]), row["cpu_seconds"])


@dataclass(frozen=True)
class Tuning:
    """The result of a search: its trials, the chosen one and the error counts of greedy."""

    about: Mapping[str, Any]
    greedy: ErrorCounts
    trials: Sequence[Trial]
    chosen: Trial
    seconds: float  # of audio


class Utterance(NamedTuple):
    """An utterance as a worker process needs it."""

    columns: Any  # beam_search.Columns
    reference: str


class Decoded(NamedTuple):
    """What some utterances gave with the values of a point."""

    point: Point
    errors: ErrorCounts
    seconds: float


def decode_chunk(base: Any, profile: str, item: tuple[Point, Sequence[Utterance]]) -> Decoded:
    """Decode utterances with the settings ``base`` and the values of a point."""
    from danish_asr.decoding.beam_search import search  # noqa: PLC0415 - pyctcdecode is an extra

    point, utterances = item
    settings, errors = replace(base, **point._asdict()), ErrorCounts()
    begin = time.process_time()
    texts = [search(settings, each.columns) for each in utterances]
    seconds = time.process_time() - begin
    for each, text in zip(utterances, texts, strict=True):
        errors += count_errors(each.reference, normalize(text, profile))
    return Decoded(point, errors, seconds)


class Trials:
    """Tries points, each once, and keeps what they gave.

    ``done`` are trials of an earlier start; ``save`` is called after each new one.
    """

    def __init__(
        self,
        decode: partial[Decoded],
        chunks: Sequence[Sequence[Utterance]],
        pool: WorkerPool,
        *,
        done: Iterable[Trial],
        save: Callable[[], None],
    ) -> None:
        self._decode, self._chunks, self._pool = decode, chunks, pool
        self.found = {trial.point: trial for trial in done}
        self._save = save
        self._alone = SECONDS_ALONE
        self.progress: Callable[[str, int, int], None] = lambda _what, _done, _total: None

    def run(self, what: str, points: Iterable[Point]) -> None:
        """Try the points that were not tried."""
        new = [point for point in dict.fromkeys(points) if point not in self.found]
        left = dict.fromkeys(new, len(self._chunks))
        sums = {point: (ErrorCounts(), 0.0) for point in new}
        items = [(point, chunk) for point in new for chunk in self._chunks]
        for number, (point, errors, seconds) in enumerate(self._results(items), start=1):
            sums[point] = (sums[point][0] + errors, sums[point][1] + seconds)
            left[point] -= 1
            if not left[point]:
                self.found[point] = Trial(point, *sums[point])
                self._save()
            self.progress(what, number, len(items))

    def _results(self, items: Iterable[tuple[Point, Sequence[Utterance]]]) -> Iterator[Decoded]:
        left = iter(items)
        while self._alone > 0 and (item := next(left, None)):
            result = self._decode(item)
            self._alone -= result.seconds
            yield result
        with self._pool.killed_on_error():
            for future in as_completed([self._pool.submit(self._decode, each) for each in left]):
                yield future.result()

    def best(self, beam: int) -> Trial:
        """Return the trial with the fewest word errors; of equals, the fewest character errors."""
        trials = [trial for trial in self.found.values() if trial.point.beam == beam]
        return min(trials, key=_merit)


def _merit(trial: Trial) -> tuple[float, ...]:
    errors, point = trial.errors, trial.point
    return errors.words.errors, errors.characters.errors, point.alpha, abs(point.beta)


def search_weights(trials: Trials) -> Trial:
    """Search alpha and beta coarse to fine, then the beam; returns the best trial."""
    trials.run("coarse", [Point(*pair, WEIGHTS_BEAM) for pair in product(ALPHAS, BETAS)])
    for step_alpha, step_beta in STEPS:
        for _ in range(MOST_MOVES):
            best = trials.best(WEIGHTS_BEAM).point
            around = product((-step_alpha, 0.0, step_alpha), (-step_beta, 0.0, step_beta))
            moves = [(round(best.alpha + a, 3), round(best.beta + b, 3)) for a, b in around]
            trials.run("fine", [Point(a, b, WEIGHTS_BEAM) for a, b in moves if a >= 0])
            if trials.best(WEIGHTS_BEAM).point == best:
                break
    weights = trials.best(WEIGHTS_BEAM).point
    of_beams = [weights._replace(beam=beam) for beam in BEAMS]
    trials.run("beam", of_beams)
    rates = {point: trials.found[point].errors.wer() for point in of_beams}
    limit = min(rates.values()) + ENOUGH
    return trials.found[next(point for point in of_beams if rates[point] <= limit)]
