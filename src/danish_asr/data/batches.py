"""Load the rows of a planned batch: fetch, decode, tokenise, pad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from danish_asr.data.index import Index
from danish_asr.data.plan import Rows
from danish_asr.data.speed import Speeds, perturbed_lengths
from danish_asr.data.targets import Targets
from danish_asr.data.waveform import SpecAugment, WaveformDecoder
from danish_asr.errors import DatasetError
from danish_asr.schema import METADATA_COLUMNS

# isort: split
from fairseq2.datasets import Seq2SeqBatch


@dataclass(frozen=True, eq=False)
class BatchLoader:
    """Makes a ``Seq2SeqBatch`` of rows of an index; any number of threads may call it at once.

    Source sequences are ``(rows, samples)`` in ``dtype``, padded with 0; target sequences are
    ``(rows, tokens)`` int64, padded with the pad index. fairseq2 accepts no target without tokens,
    so a text that gives none has one pad symbol as its target. ``example`` is a dict of lists, one
    item per row: ``id, corpus, split, text`` (raw), the metadata columns, ``audio_size`` (samples
    as recorded) and ``target_size`` (tokens; 0 for a text that gives none).

    Attributes:
        shortest: Waveforms with fewer samples are padded with zeros up to it, so that the model
            makes a frame of each; ``audio_size`` stays the true one.
        remove_unknown: Leave unknown symbols out of the targets.
        truncate: Cut all waveforms of a batch to its shortest (``no_padding``).
        augment: Applied to training waveforms, with a generator seeded per utterance and epoch.
    """

    index: Index
    decoder: WaveformDecoder
    targets: Targets
    dtype: torch.dtype
    shortest: int = 1
    remove_unknown: bool = False
    truncate: bool = False
    augment: SpecAugment | None = None
    pin_memory: bool = False

    def __call__(
        self, rows: Rows, *, seed: Sequence[int], first: int, speeds: Speeds | None = None
    ) -> Seq2SeqBatch:
        """Load these rows; the seed and their place in the epoch's plan fix what is random.

        Args:
            rows: Row numbers of the index.
            seed: The run's and the epoch's.
            first: Place of the first row in the epoch's plan; the others follow it.
            speeds: Of the epoch; None: every row as it was recorded.

        Raises:
            DatasetError: A row's audio cannot be read or decoded, or its length is not the index's.
        """
        example = self._metadata(rows)
        factors = np.ones(len(rows)) if speeds is None else speeds.of(rows)
        sizes = perturbed_lengths(self.index.lengths[rows], factors)
        lengths = np.maximum(sizes, self.shortest)
        waveforms = np.empty((len(rows), lengths.max()), np.float32)
        for number, (row, size) in enumerate(zip(rows.tolist(), sizes.tolist(), strict=True)):
            waveform = waveforms[number, :size]
            self._fill(waveform, row, float(factors[number]), [*seed, first + number])
            waveforms[number, size:] = 0
        if self.truncate:
            lengths[:] = lengths.min()
            waveforms = waveforms[:, : lengths[0]].copy()
        targets = [
            self.targets(text, remove_unknown=self.remove_unknown).numpy()
            for text in example["text"]
        ]
        example["target_size"] = [len(target) for target in targets]
        nothing = np.array([self.targets.pad])
        targets = [target if len(target) else nothing for target in targets]
        return Seq2SeqBatch(
            self._tensor(waveforms, self.dtype),
            lengths.tolist(),
            self._tensor(_padded(targets, self.targets.pad), torch.int64),
            [len(target) for target in targets],
            example=example,
        )

    def _fill(
        self, waveform: NDArray[np.float32], row: int, speed: float, seed: Sequence[int]
    ) -> None:
        """Decode a row's waveform into its place in the batch, and augment it."""
        samples = int(self.index.lengths[row])
        try:
            self.decoder(self.index.audio.read(row), waveform, samples=samples, speed=speed)
        except ValueError as error:
            raise self._fault(row, str(error)) from error
        if self.augment is not None:
            augmented = self.augment(torch.from_numpy(waveform), np.random.default_rng(seed))
            waveform[:] = augmented.numpy()

    def _fault(self, row: int, what: str) -> DatasetError:
        return DatasetError(
            f"{self.index.audio.describe(row)}, id '{self.index.ids.values([row])[0]}': {what}; "
            "`danish-asr verify` lists every such row"
        )

    def _tensor(self, batch: NDArray[Any], dtype: torch.dtype) -> Tensor:
        tensor = torch.from_numpy(batch).to(dtype)
        return tensor.pin_memory() if self.pin_memory else tensor

    def _metadata(self, rows: NDArray[np.integer[Any]]) -> dict[str, list[Any]]:
        numbers = rows.tolist()
        metadata = {name: self.index.values(name, numbers) for name in METADATA_COLUMNS}
        partitions = [self.index.partitions[code] for code in self.index.partition_of[rows]]
        return {
            "id": self.index.ids.values(numbers),
            "text": self.index.texts.values(numbers),
            **metadata,
            "corpus": [partition.corpus for partition in partitions],
            "language": [partition.language for partition in partitions],
            "split": [self.index.split] * len(partitions),
            "audio_size": self.index.lengths[rows].tolist(),
        }


def _padded(rows: Sequence[NDArray[np.int64]], value: int) -> NDArray[np.int64]:
    """Rows side by side, ``(rows, longest)``."""
    # By NumPy, for the reason that WaveformDecoder gives.
    batch = np.full((len(rows), max(map(len, rows))), value)
    for place, row in zip(batch, rows, strict=True):
        place[: len(row)] = row
    return batch
