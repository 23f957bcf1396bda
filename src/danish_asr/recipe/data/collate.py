"""From row numbers to a batch: fetch, decode, transform, normalise, tokenise, pad."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq2.datasets import Seq2SeqBatch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import layer_norm

from danish_asr.base import audio
from danish_asr.base.audio_beyond_libsndfile import open_flac
from danish_asr.base.errors import DatasetError, user_code
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.recipe.data.epochs import Epoch
from danish_asr.recipe.data.index import PATH, TARGET, TEXT, Index
from danish_asr.recipe.data.sampler import Rows
from danish_asr.recipe.data.targets import Targets
from danish_asr.recipe.data.transforms import Transform, Waveform, at_speed


@dataclass(frozen=True, eq=False)
class Collate:
    """Makes a ``Seq2SeqBatch`` of rows of an index; any number of threads may call it at once.

    Source sequences are ``(rows, samples)`` in ``dtype``, padded with 0; target sequences are
    ``(rows, tokens)`` int64, padded with the pad index. fairseq2 accepts no target without tokens,
    so the target of a text that gives none is one pad symbol. ``example`` is a dict of lists, one
    item per row: ``id, corpus, split, text`` (raw), the metadata columns, ``audio_size`` (samples
    of the recording) and ``target_size`` (tokens; 0 for a text that gives none).
    """

    index: Index  # with targets
    targets: Targets
    dtype: torch.dtype
    normalize: bool  # each waveform to mean 0 and variance 1
    shortest: int  # shorter waveforms are padded to so many samples: the model's first frame
    transforms: Sequence[Transform]  # but speed, which comes with the epoch
    pin_memory: bool

    def __call__(
        self, rows: Rows, epoch: Epoch, *, seed: Sequence[int], first: int
    ) -> Seq2SeqBatch:
        """Load rows of the index, of which the first has this place in the epoch.

        The seed (the run's and the epoch's) and that place fix all that is random.

        Raises:
            DatasetError: A row's audio cannot be read or decoded, or its length is not the index's,
                or a transform returns another length than it may.
        """
        example: dict[str, list[Any]] = {
            **{name: self.index.values(name, rows) for name in (*TEXT, *PATH)},
            "split": [self.index.split] * len(rows),
            "audio_size": self.index.lengths[rows].tolist(),
        }
        sizes = epoch.lengths[rows]
        lengths = np.maximum(sizes, self.shortest)
        waveforms = np.empty((len(rows), lengths.max()), np.float32)
        for number, (row, size) in enumerate(zip(rows.tolist(), sizes.tolist(), strict=True)):
            waveforms[number, size:] = 0
            try:
                self._fill(waveforms[number, :size], row, epoch, [*seed, first + number])
            except ValueError as error:
                raise DatasetError(
                    f"{self.index.audio.describe(row)}, id '{example['id'][number]}': {error}; "
                    "`danish-asr verify` lists every damaged row"
                ) from error
        targets = [self.targets(text) for text in self.index.values(TARGET, rows)]
        example["target_size"] = [len(target) for target in targets]
        target_lengths = [max(1, size) for size in example["target_size"]]
        padded = np.full((len(rows), max(target_lengths)), self.targets.pad)
        for number, target in enumerate(targets):
            padded[number, : len(target)] = target
        return Seq2SeqBatch(
            self._tensor(waveforms, self.dtype),
            lengths.tolist(),
            self._tensor(padded, torch.int64),
            target_lengths,
            example=example,
        )

    def _fill(self, out: Waveform, row: int, epoch: Epoch, seed: Sequence[int]) -> None:
        encoded = self.index.audio.read(row)
        speed = 1.0 if epoch.speeds is None else float(epoch.speeds[row])
        if speed == 1:
            decode(encoded, out)
        else:
            recorded = np.empty(int(self.index.lengths[row]), np.float32)
            decode(encoded, recorded)
            out[:] = at_speed(recorded, speed, len(out))
        rng = np.random.default_rng(seed)
        self._transform(out, row, rng, after_normalization=False)
        if self.normalize:
            tensor = torch.from_numpy(out)
            # NumPy copies in this thread. Torch would wake its pool for each copy, whose threads
            # then spin: three times the processor time for the whole reader.
            out[:] = layer_norm(tensor, tensor.shape).numpy()
        self._transform(out, row, rng, after_normalization=True)

    def _transform(
        self, out: Waveform, row: int, rng: np.random.Generator, *, after_normalization: bool
    ) -> None:
        for transform in self.transforms:
            if transform.after_normalization != after_normalization:
                continue
            with user_code(transform, f"on {self.index.audio.describe(row)}"):
                changed = np.asarray(transform(out, rng), np.float32)
                if changed.shape != out.shape:
                    raise ValueError(f"returned {changed.shape}, expected {out.shape}")
            out[:] = changed

    def _tensor(self, batch: NDArray[Any], dtype: torch.dtype) -> Tensor:
        tensor = torch.from_numpy(batch).to(dtype)
        return tensor.pin_memory() if self.pin_memory else tensor


def decode(encoded: bytes, out: Waveform) -> None:
    """Decode an utterance to mono float32 at 16 kHz into ``out``, ``(samples,)``; thread-safe.

    Raises:
        ValueError: The audio cannot be decoded, is not 16 kHz, or has another number of samples.
    """
    with open_flac(encoded) as flac:
        if flac is not None:
            _check_form(flac.rate, flac.samples, len(out))
            if (read := flac.read(out)) != len(out):
                raise ValueError(f"the audio is damaged: {read} of {len(out)} samples can be read")
            return
    # What is not FLAC, or has channels to average.
    try:
        waveform, rate = audio.decode(encoded)
    except audio.AudioError as error:
        raise ValueError(f"the audio cannot be decoded ({error})") from error
    _check_form(rate, len(waveform), len(out))
    out[:] = waveform


def _check_form(rate: float, samples: int, expected: int) -> None:
    if rate != SAMPLE_RATE:
        raise ValueError(f"expected audio at {SAMPLE_RATE} Hz, found {rate:g} Hz")
    if samples != expected:
        raise ValueError(f"audio_size is {expected}, the audio has {samples} samples")
