"""A trained model: from waveforms to log-probabilities."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from fairseq2.nn import BatchLayout
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import layer_norm, log_softmax

from danish_asr.base.errors import TranscriptionError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding import Decoder, make_decoder
from danish_asr.decoding.alignment import separator_of
from danish_asr.inference.windows import Cutting
from danish_asr.recipe.config.config import AsrEvalConfig
from danish_asr.recipe.data.targets import FrameCount

_STEP: Final = SAMPLE_RATE // 2
"""Samples; batches are padded to a multiple, as oneDNN keeps memory for each shape that it sees."""

BATCH_SECONDS: Final = {"cpu": 30.0, "cuda": 480.0}
"""Audio in one forward pass, padding included."""


class Decoders:
    """Creates a model's decoders; the last one is kept, as a language model takes time to load."""

    def __init__(self, tokenizer: Tokenizer, text_profile: str) -> None:
        self.tokenizer, self._text_profile = tokenizer, text_profile
        self._last: tuple[tuple[str, dict[str, Any]], Decoder] | None = None

    def __call__(self, name: str, config: Mapping[str, Any]) -> Decoder:
        """Return a decoder; raises ConfigError if there is none, or ``config`` does not fit it."""
        if name == "beam" and self._text_profile != "raw":  # for its hotwords
            config = {"text_profile": self._text_profile, **config}
        if self._last is None or self._last[0] != (name, dict(config)):
            self._last = (name, dict(config)), make_decoder(name, config, self.tokenizer)
        return self._last[1]


class AcousticModel:
    """A CTC model with its tokenizer, ready for inference.

    Attributes:
        name: What `load_model` was called with.
        decoder: Creates its decoders.
        separator: The token between words.
        tokenizer: The tokenizer; 0 is the CTC blank.
        device: Where it computes.
        module: fairseq2's model, without gradients.
        settings: Its sizes.
        normalizes: Whether each waveform is normalised to zero mean and unit variance.
        text_profile: How the texts were normalised that it was trained on.
    """

    def __init__(
        self,
        module: Wav2Vec2AsrModel,
        settings: Wav2Vec2AsrConfig,
        decoders: Decoders,
        config: AsrEvalConfig,
        *,
        name: str,
    ) -> None:
        self.name, self.decoder, self.settings = name, decoders, settings
        self.tokenizer = decoders.tokenizer
        self.separator = separator_of(self.tokenizer)
        self.device: torch.device = next(module.parameters()).device
        self.module = module.eval().requires_grad_(requires_grad=False)
        self._vocabulary = settings.target_vocab_size
        layers = settings.encoder_config.feature_extractor_layer_descs
        self.frames = FrameCount([(kernel, stride) for _, kernel, stride in layers])
        """Frames that the model makes of a number of samples."""
        self._shortest = self.frames.shortest_input()
        self.batch_seconds = BATCH_SECONDS.get(self.device.type, 30.0)
        """What a forward pass takes if a call does not say."""
        task = config.dataset.asr_task_config
        self.cutting = Cutting.for_training(task.max_audio_len / SAMPLE_RATE)
        """How recordings are cut for it."""
        self.normalizes = task.normalize_audio
        self.text_profile = config.dataset.text_profile
        # On a GPU as the evaluation does it; a CPU is slower with half precision.
        half = config.evaluator.amp and self.device.type == "cuda"
        self._amp = config.evaluator.amp_dtype if half else None

    def log_probs(
        self, waveforms: Sequence[NDArray[np.float32]], *, batch_seconds: float | None = None
    ) -> list[Tensor]:
        """Return the log-probabilities of each waveform, (S, V), float32 on the CPU.

        Args:
            waveforms: Mono, 16 kHz, each (samples,). Each is normalised on its own, as in training.
                One too short for a frame is padded with zeros; an empty one gives no frames.
            batch_seconds: Audio in a forward pass, padding included; a longer waveform is alone.
                It changes speed and memory, not the result.

        Raises:
            TranscriptionError: An element is not (samples,), or ``batch_seconds`` is not positive.
        """
        if any(np.ndim(each) != 1 for each in waveforms):
            raise TranscriptionError("log_probs takes a list of arrays (samples,): [waveform]")
        limit = self.seconds_of_batch(batch_seconds) * SAMPLE_RATE
        results = [torch.empty(0, self._vocabulary)] * len(waveforms)
        for batch in _batches([len(each) for each in waveforms], limit):
            found = self._forward([waveforms[number] for number in batch])
            for number, log_probs in zip(batch, found, strict=True):
                results[number] = log_probs
        return results

    def seconds_of_batch(self, wanted: float | None) -> float:
        """Return the audio of a forward pass; raises TranscriptionError if it is not positive."""
        if wanted is not None and not wanted > 0:
            raise TranscriptionError(f"batch_seconds must be positive, but is {wanted}")
        return wanted or self.batch_seconds

    @torch.inference_mode()
    def _forward(self, waveforms: Sequence[NDArray[np.float32]]) -> Iterator[Tensor]:
        lengths = [max(len(each), self._shortest) for each in waveforms]
        seqs = torch.zeros(len(lengths), -(-max(lengths) // _STEP) * _STEP)
        for row, waveform in zip(seqs, waveforms, strict=True):
            samples = torch.from_numpy(np.ascontiguousarray(waveform, np.float32))
            if self.normalizes:
                samples = layer_norm(samples, samples.shape)
            row[: len(samples)] = samples
        seqs = seqs.to(self.device)
        with torch.autocast(self.device.type, self._amp, enabled=self._amp is not None):
            logits, layout = self.module(seqs, BatchLayout.of(seqs, lengths))
        log_probs = log_softmax(logits.float(), dim=-1).cpu()
        return (row[:length] for row, length in zip(log_probs, layout.seq_lens, strict=True))


def _batches(lengths: Sequence[int], limit: float) -> Iterator[list[int]]:
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
