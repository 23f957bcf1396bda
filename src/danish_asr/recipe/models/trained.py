"""The forward pass of a trained model, the same for ``evaluate`` as for ``transcribe``.

Waveforms come in; they become batches of similar lengths. Out come log-probabilities, a list of
(S, V).
"""

import sys
from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

import numpy as np
import torch
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from fairseq2.nn import BatchLayout
from numpy.typing import NDArray
from torch import OutOfMemoryError, Tensor
from torch.nn.functional import layer_norm

from danish_asr.base.errors import RunError, TranscriptionError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding.decoders import log_probs_of
from danish_asr.recipe.data.targets import FrameCount

_BATCH_SECONDS: Final = {"cpu": 30.0, "cuda": 480.0}
"""Audio in one forward pass, padding included."""


class TrainedModel:
    """A model with a CTC head, without gradients.

    Batches are padded to a multiple of ``step`` samples; ``one_by_one`` are batches of one row.

    Attributes:
        frames: The number of frames that it makes of a number of samples.
        normalizes: Whether each waveform is normalised to zero mean and unit variance.
    """

    def __init__(
        self,
        module: Wav2Vec2AsrModel,
        settings: Wav2Vec2AsrConfig,
        *,
        normalize_audio: bool,
        amp_dtype: str | None,
        step: int = 1,
        one_by_one: bool = False,
    ) -> None:
        self.device: torch.device = next(module.parameters()).device
        self.module = module.eval().requires_grad_(requires_grad=False)
        self.settings = settings
        layers = settings.encoder_config.feature_extractor_layer_descs
        self.frames = FrameCount([(kernel, stride) for _, kernel, stride in layers])
        self.normalizes = normalize_audio
        self.batch_seconds = _BATCH_SECONDS.get(self.device.type, 30.0)
        # A CPU is slower with half precision.
        half = amp_dtype if self.device.type == "cuda" else None
        self._amp = getattr(torch, half) if half else None
        self._step, self._one_by_one = step, one_by_one
        self._most_seconds = inf  # of a forward pass; half of one that did not fit

    def log_probs(
        self, waveforms: Sequence[NDArray[np.float32]], *, batch_seconds: float | None = None
    ) -> list[Tensor]:
        """Return the log-probabilities of each waveform, (S, V), float32 on the CPU.

        Where a GPU's memory is too small, passes become half as long, once.

        Args:
            waveforms: Mono, 16 kHz, each (samples,). Each is normalised on its own, as in training.
                One too short for a frame is padded with zeros; an empty one gives no frames.
            batch_seconds: Audio in a forward pass, padding included; a longer waveform is alone.
                It changes speed and memory, not the result.

        Raises:
            TranscriptionError: An element is not (samples,), or ``batch_seconds`` is not positive.
            RunError: The memory of the GPU is too small.
        """
        if any(np.ndim(waveform) != 1 for waveform in waveforms):
            raise TranscriptionError("log_probs takes a list of arrays (samples,): [waveform]")
        seconds = self.seconds_of_batch(batch_seconds)
        try:
            return self._log_probs(waveforms, seconds)
        except OutOfMemoryError as error:
            fault = f"{self.device} has too little memory for --batch-seconds {seconds:g}"
            if self._most_seconds < inf:
                fix = "a smaller number (evaluate: a smaller dataset.valid_max_num_elements)"
                raise RunError(f"{fault}; give {fix}, or --device cpu") from error
        self._most_seconds = seconds / 2
        print(f"warning: {fault}; continuing with {seconds / 2:g}", file=sys.stderr)  # noqa: T201
        torch.cuda.empty_cache()
        return self.log_probs(waveforms, batch_seconds=batch_seconds)

    def seconds_of_batch(self, wanted: float | None) -> float:
        """Return the audio of a forward pass; raises TranscriptionError if it is not positive."""
        if wanted is not None and not wanted > 0:
            raise TranscriptionError(f"batch_seconds must be positive, but is {wanted}")
        return min(wanted or self.batch_seconds, self._most_seconds)

    def _log_probs(self, waveforms: Sequence[NDArray[np.float32]], seconds: float) -> list[Tensor]:
        most = 0 if self._one_by_one else round(seconds * SAMPLE_RATE)
        results = [torch.empty(0, self.settings.target_vocab_size)] * len(waveforms)
        for batch in _batches([len(waveform) for waveform in waveforms], most):
            rows = self._forward([waveforms[number] for number in batch])
            for number, log_probs in zip(batch, rows, strict=True):
                results[number] = log_probs
        return results

    @torch.inference_mode()
    def _forward(self, waveforms: Sequence[NDArray[np.float32]]) -> list[Tensor]:
        seqs, lengths = self._padded(waveforms)
        seqs = seqs.to(self.device)
        with torch.autocast(self.device.type, self._amp, enabled=self._amp is not None):
            logits, layout = self.module(seqs, BatchLayout.of(seqs, lengths))
        return [row.cpu() for row in log_probs_of(logits, layout.seq_lens)]

    def _padded(self, waveforms: Sequence[NDArray[np.float32]]) -> tuple[Tensor, list[int]]:
        """Return waveforms as a batch, (N, samples), and their lengths, of at least one frame."""
        shortest = self.frames.shortest_input()
        lengths = [max(len(waveform), shortest) for waveform in waveforms]
        seqs = torch.zeros(len(lengths), -(-max(lengths) // self._step) * self._step)
        for row, waveform in zip(seqs, waveforms, strict=True):
            samples = torch.from_numpy(np.ascontiguousarray(waveform, np.float32))
            if self.normalizes:
                samples = layer_norm(samples, samples.shape)
            row[: len(samples)] = samples
        return seqs, lengths


def _batches(lengths: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Divide waveforms into batches of similar lengths; those without samples are left out."""
    order = sorted((n for n, size in enumerate(lengths) if size), key=lengths.__getitem__)
    batch: list[int] = []
    for number in reversed(order):  # the first of a batch is its longest
        if batch and lengths[batch[0]] * (len(batch) + 1) > limit:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
