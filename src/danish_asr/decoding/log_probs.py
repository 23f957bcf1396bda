"""Log-probabilities of a model's frames in a file, so that many decodings cost one forward pass.

Of each frame the probable symbols are kept, as float16; the others share what is left. The file is
Arrow IPC, one record batch per batch of the model, and is memory-mapped: a process reads only the
utterances that it decodes.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from danish_asr.base.errors import LogProbsError
from danish_asr.base.files import publish

LEAST: Final = -10.0
"""Symbols with a lower log-probability are not kept, except for the best one of a frame."""

MOST: Final = 64
"""Symbols that are kept of one frame: what bounds the file of a model that is sure of nothing."""


def average(log_probs: Sequence[Tensor]) -> Tensor:
    """Return the logarithm of the mean of several models' probabilities; each is (S, V).

    A mean of probabilities needs no normalisation. The other choice, the renormalised mean of
    log-probabilities, lets each model veto a symbol, also one that was only not kept
    (docs/background/transcription.md compares both).
    """
    return torch.stack([*log_probs]).logsumexp(dim=0) - math.log(len(log_probs))


def keep_command(run: Path, checkpoint: str = "best", split: str = "dev") -> str:
    """Return the command that keeps log-probabilities in ``OUTDIR/eval/<checkpoint>/<split>``."""
    chosen = "" if checkpoint == "best" else f"evaluator.checkpoint={checkpoint} "
    return (
        f"danish-asr evaluate {quote(str(run))} {chosen}evaluator.split={split} "
        "evaluator.keep_log_probs=true"
    )


class KeptFrames(NamedTuple):
    """The kept symbols of an utterance's frames, frame by frame, the most probable one first."""

    counts: NDArray[np.uint8]  # symbols per frame, (S,)
    symbols: NDArray[Any]  # (sum of counts,), unsigned integers
    values: NDArray[np.float16]  # their log-probabilities

    def best(self) -> NDArray[Any]:
        """Return the most probable symbol of each frame, (S,)."""
        counts = self.counts.astype(np.int64)
        return np.asarray(self.symbols[np.cumsum(counts) - counts])

    def log_probs(self, vocabulary: int) -> Tensor:
        """Return log-probabilities, (S, V), float32.

        The probability that is left in a frame is spread evenly over the symbols that were not
        kept, each at most as probable as the least one that was.
        """
        frames, counts = len(self.counts), self.counts.astype(np.int64)
        values = self.values.astype(np.float32)
        ends = np.cumsum(counts)
        kept = np.add.reduceat(np.exp(values), ends - counts) if frames else values
        rest = np.log(np.maximum(1 - kept, 1e-6) / np.maximum(vocabulary - counts, 1))
        dense = np.repeat(np.minimum(rest, values[ends - 1])[:, None], vocabulary, axis=1)
        dense[np.repeat(np.arange(frames), counts), self.symbols] = values
        return torch.from_numpy(dense.astype(np.float32, copy=False))


def keep(logits: Tensor, lengths: Sequence[int]) -> list[KeptFrames]:
    """Select what is kept of logits, (N, S, V); ``lengths`` are the frames of each row."""
    vocabulary = logits.size(-1)
    log_probs = logits.float().log_softmax(dim=-1)
    values, symbols = (x.cpu().numpy() for x in log_probs.topk(min(MOST, vocabulary), dim=-1))
    chosen = values >= LEAST
    chosen[..., 0] = True
    symbols = symbols.astype(np.min_scalar_type(vocabulary - 1))
    return [
        KeptFrames(
            picked[:size].sum(axis=-1, dtype=np.uint8),
            of_row[:size][picked[:size]],
            scores[:size][picked[:size]].astype(np.float16),
        )
        for picked, of_row, scores, size in zip(chosen, symbols, values, lengths, strict=True)
    ]


def to_batch(rows: Sequence[str], kept: Sequence[KeptFrames], about: str) -> pa.RecordBatch:
    """Return utterances as a record batch; ``rows`` and ``about`` are any texts."""
    columns = {"row": pa.array(rows, pa.string())}
    for name, arrays in zip(KeptFrames._fields, zip(*kept, strict=True), strict=True):
        offsets = np.cumsum([0, *map(len, arrays)])
        columns[name] = pa.LargeListArray.from_arrays(
            pa.array(offsets, pa.int64()), pa.array(np.concatenate(arrays))
        )
    batch = pa.RecordBatch.from_pydict(columns)
    return batch.replace_schema_metadata({"about": about})


def write_batches(file: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a file atomically, batch by batch; there is at least one."""
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    remaining = iter(batches)
    first_batch = next(remaining)
    with (
        publish(file) as stream,
        pa.ipc.new_file(stream, first_batch.schema, options=options) as writer,
    ):
        writer.write_batch(first_batch)
        for batch in remaining:
            writer.write_batch(batch)


class LogProbsFile:
    """A file of kept log-probabilities, memory-mapped.

    Attributes:
        about: What they depend on, and ``vocabulary``, the number of symbols.

    Raises:
        LogProbsError: The file is damaged. Damage of a record batch is found when it is read.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.paths = path, (path,)
        with self._explained():
            self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
            self.about: Mapping[str, Any] = json.loads(self._reader.schema.metadata[b"about"])

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            evaluation = self.path.absolute().parent
            again = keep_command(evaluation.parents[2], evaluation.parent.name, evaluation.name)
            raise LogProbsError(
                f"{self.path}: is damaged ({error}); delete it, and run: {again}"
            ) from error

    def __len__(self) -> int:
        """Return the number of record batches."""
        return int(self._reader.num_record_batches)

    def batch(self, number: int) -> pa.RecordBatch:
        """Return one record batch as it is stored; raises LogProbsError if it is damaged."""
        with self._explained():
            batch = self._reader.get_batch(number)
            batch.validate(full=True)
        return batch

    def rows(self, number: int) -> list[str]:
        """Return the rows of one record batch, without their frames."""
        return list(self.batch(number).column("row").to_pylist())

    def utterances(self, number: int) -> Iterator[tuple[str, KeptFrames]]:
        """Yield the rows of one record batch with their frames."""
        batch = self.batch(number)
        columns = [batch.column(name) for name in KeptFrames._fields]
        for position, row in enumerate(batch.column("row").to_pylist()):
            arrays = [column[position].values.to_numpy() for column in columns]
            yield row, KeptFrames(*arrays)

    def all_utterances(self) -> Iterator[tuple[str, KeptFrames]]:
        """Yield the rows of all record batches with their frames."""
        for number in range(len(self)):
            yield from self.utterances(number)

    def log_probs(self, number: int) -> Iterator[tuple[str, Tensor]]:
        """Yield the rows of one record batch with their log-probabilities, (S, V)."""
        for row, kept in self.utterances(number):
            yield row, kept.log_probs(self.about["vocabulary"])
