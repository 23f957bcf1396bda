"""Several files of kept log-probabilities, of different models for the same rows, read as one."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from danish_asr.base.errors import LogProbsError
from danish_asr.decoding.greedy import BLANK
from danish_asr.decoding.log_probs import KeptFrames, LogProbsFile, average

_BATCHES: Final = 16
"""Record batches that are kept in memory of each file; different models can have other batches."""

_LEAST_AGREEMENT: Final = 0.7
"""Runs that were fine-tuned from one model have 0.95, models that were trained apart 0.04."""


class Place(NamedTuple):
    """Where a file has a row."""

    batch: int
    position: int


class Ensemble:
    """The averaged log-probabilities of several models, in the batches of the first file.

    Attributes:
        path: The first file.
        paths: All files.
        about: What those of the first one depend on.

    Raises:
        LogProbsError: A file is damaged, or lacks a row of the first one.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        self._first, *others = map(LogProbsFile, self.paths)
        self._others = [_Rows(file) for file in others]
        self.path, self.about = self._first.path, self._first.about

    def __len__(self) -> int:
        """Return the number of record batches."""
        return len(self._first)

    def utterances(self, number: int) -> Iterator[tuple[str, list[KeptFrames]]]:
        """Yield the rows of one record batch, each with the frames that each model has of it."""
        for row, kept in self._first.utterances(number):
            row_id = str(json.loads(row)["id"])
            yield row, [kept, *(other.frames(row_id) for other in self._others)]

    def log_probs(self, number: int) -> Iterator[tuple[str, Tensor]]:
        """Yield the rows of one record batch with their averaged log-probabilities, (S, V)."""
        vocabulary = self.about["vocabulary"]
        for row, models in self.utterances(number):
            yield row, average([kept.log_probs(vocabulary) for kept in models])

    def agreement(self) -> "Agreement":
        """Compare the symbols of all frames.

        Raises:
            LogProbsError: Two models have different numbers of frames of a row.
        """
        agreement = Agreement()
        for number in range(len(self)):
            for row, models in self.utterances(number):
                counts = [len(kept.counts) for kept in models]
                if len(set(counts)) > 1:
                    pairs = zip(counts, self.paths, strict=True)
                    found = ", ".join(f"{frames:,} in {path}" for frames, path in pairs)
                    raise LogProbsError(
                        f"models of different frame rates cannot be averaged: the frames of "
                        f"{json.loads(row)['id']} are {found}"
                    )
                agreement.add([kept.best() for kept in models])
        return agreement


class Agreement:
    """In which part of the first model's symbols another has the same in that frame.

    It is that of the model with the lowest. Blanks do not count.
    """

    def __init__(self) -> None:
        self._symbols, self._same = 0, np.zeros(1, np.int64)

    def add(self, best: Sequence[NDArray[Any]]) -> None:
        """Count the most probable symbols of an utterance's frames, (S,) of each model."""
        first, *others = best
        spoken = first != BLANK
        self._symbols += int(np.count_nonzero(spoken))
        self._same = self._same + [np.count_nonzero((first == other) & spoken) for other in others]

    @property
    def share(self) -> float:
        """The part; 1 without a symbol."""
        return float(self._same.min() / self._symbols) if self._symbols else 1.0

    def warning(self) -> str | None:
        """Return a warning of models that emit their symbols in different frames."""
        if self.share >= _LEAST_AGREEMENT:
            return None
        return (
            f"the models emit the same symbol in the same frame in {self.share:.0%} of the cases, "
            "so their average is probably worse than each of them; average runs that were "
            "fine-tuned from one model (docs/background/transcription.md)"
        )


class _Rows:
    """A file of kept log-probabilities, read by the ids of its rows."""

    def __init__(self, file: LogProbsFile) -> None:
        self._file, self._places = file, _places(file)
        self._batch = lru_cache(maxsize=_BATCHES)(self._read)

    def frames(self, row_id: str) -> KeptFrames:
        """Return the frames of a row."""
        if row_id not in self._places:
            raise LogProbsError(f"{self._file.path}: has no row {row_id}")
        place = self._places[row_id]
        return self._batch(place.batch)[place.position]

    def _read(self, number: int) -> list[KeptFrames]:
        return [kept for _, kept in self._file.utterances(number)]


def _places(file: LogProbsFile) -> Mapping[Any, Place]:
    return {
        str(json.loads(row)["id"]): Place(number, position)
        for number in range(len(file))
        for position, row in enumerate(file.rows(number))
    }


def open_kept(paths: Sequence[Path]) -> LogProbsFile | Ensemble:
    """Open a file of kept log-probabilities, or several to be averaged."""
    return LogProbsFile(paths[0]) if len(paths) == 1 else Ensemble(paths)
