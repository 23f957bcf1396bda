"""A trained model: from waveforms to log-probabilities, and from audio to a transcript."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack, cast, overload

import numpy as np
import torch
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.gang import create_fake_gangs
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from fairseq2.nn import BatchLayout
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import layer_norm, log_softmax

from danish_asr.data.targets import FrameCount
from danish_asr.decoding import GREEDY, Decoder, make_decoder
from danish_asr.decoding.alignment import separator_of
from danish_asr.errors import RunError, TranscriptionError
from danish_asr.recipe.assets import Assets
from danish_asr.recipe.config import AsrEvalConfig
from danish_asr.recipe.diagnostics import explained
from danish_asr.recipe.fairseq2_private import supported
from danish_asr.schema import SAMPLE_RATE
from danish_asr.transcript import Segment, Transcript
from danish_asr.transcription.selection import select_model
from danish_asr.transcription.sound import Audio, Channels, Sound, is_array, open_sound
from danish_asr.transcription.streaming import Progress, Recogniser
from danish_asr.transcription.windows import Cutting

_STEP: Final = SAMPLE_RATE // 2
"""Samples; batches are padded to a multiple, as oneDNN keeps memory for each shape that it sees."""

BATCH_SECONDS: Final = {"cpu": 30.0, "cuda": 480.0}
"""Audio in one forward pass, padding included."""


def load_model(
    model: str | Path,
    *,
    device: str = "auto",
    decoder: tuple[str, Mapping[str, Any]] | None = None,
) -> Model:
    """Load a run (its best checkpoint), a checkpoint, a Hugging Face directory or a named model.

    ``device`` is a device of PyTorch, or ``auto``: a GPU if there is one. ``decoder``, a name and
    what it is created with, is created before the weights are read, so that its faults are found
    within seconds.

    Raises:
        ConfigError: There is no such name (the message lists those that exist), or model, tokenizer
            and decoder do not fit.
        LanguageModelError: That of the decoder is missing or broken.
        RunError: The directory has no model, or there is no such device.
        RunFailedError: The weights cannot be read.
    """
    place, config = _device(device), select_model(model)
    assets = Assets(config)
    card = assets.find("model.name", str(config.model.name), [])
    tokenizer = assets.open_tokenizer(config.tokenizer, [])
    assert card is not None
    assert tokenizer is not None
    decoders = Decoders(tokenizer, config.dataset.text_profile)
    if decoder:
        decoders(*decoder)
    family = assets.model_family(card.field("model_family").as_(str))
    assert family is not None
    with explained():
        gangs = create_fake_gangs(place)
        options = {"mmap": False, "progress": False, "load_rank0_only": False}
        module = supported(family.load_model, card, gangs, torch.float32, None, **options)
    settings = cast(Wav2Vec2AsrConfig, family.get_model_config(card))
    return Model(cast(Wav2Vec2AsrModel, module), settings, decoders, config, name=str(model))


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        known = ", ".join(["auto", "cpu", *gpus])
        raise RunError(f"device '{name}' cannot be used here; known: {known}") from error
    return device


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


class Options(TypedDict, total=False):
    """How recordings are transcribed."""

    rate: float | None
    """Samples per second of an array."""

    channels: Channels
    """``mix``, the default, transcribes the mean of the channels, ``split`` each of them."""

    decoder: str
    """A name in ``danish_asr.decoding.DECODERS``, or ``package.module:name``."""

    decoder_config: Mapping[str, Any] | None
    """What the decoder is created with."""

    batch_seconds: float | None
    """Speech in a forward pass, about; more needs more memory and may be faster."""

    progress: Progress | None
    """Called with the seconds that are done, and all of them, None if the file does not say."""


class Model:
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
        limit = self._batch_seconds(batch_seconds) * SAMPLE_RATE
        results = [torch.empty(0, self._vocabulary)] * len(waveforms)
        for batch in _batches([len(each) for each in waveforms], limit):
            found = self._forward([waveforms[number] for number in batch])
            for number, log_probs in zip(batch, found, strict=True):
                results[number] = log_probs
        return results

    @overload
    def transcribe(self, audio: Audio, **options: Unpack[Options]) -> Transcript: ...

    @overload
    def transcribe(self, audio: list[Audio], **options: Unpack[Options]) -> list[Transcript]: ...

    def transcribe(
        self, audio: Audio | list[Audio], **options: Unpack[Options]
    ) -> Transcript | list[Transcript]:
        """Return the transcript of a recording, or a list of them for a list.

        Args:
            audio: The path of a file, its bytes, an open file, or an array, (samples,) or
                (samples, channels), of any length. Several recordings share forward passes, which
                saves time if they are short.
            options: See `Options`.

        Raises:
            TranscriptionError: A recording is not audio, is damaged or has no samples, or an option
                does not fit.
            ConfigError: There is no such decoder, or ``decoder_config`` does not fit it.
        """
        audios = audio if isinstance(audio, list) else [audio]
        sounds: list[Sound] = []
        segments: list[list[Segment]] = [[] for _ in audios]
        for number, segment in self._recognise(audios, sounds, **options):
            segments[number].append(segment)
        about: dict[str, Any] = {"model": self.name, "decoder": options.get("decoder", GREEDY)}
        if config := options.get("decoder_config"):
            about["decoder_config"] = dict(config)
        transcripts = [
            Transcript(sound.seconds, found, sound.file, about)
            for sound, found in zip(sounds, segments, strict=True)
        ]
        return transcripts if isinstance(audio, list) else transcripts[0]

    def stream(self, audio: Audio, **options: Unpack[Options]) -> Iterator[Segment]:
        """Yield the segments of a recording as they are found, in the order of their starts.

        Audio and results are not kept. Arguments and errors are those of `transcribe`.
        """
        return (segment for _, segment in self._recognise([audio], [], **options))

    def _recognise(
        self, audios: Sequence[Audio], sounds: list[Sound], **options: Unpack[Options]
    ) -> Iterator[tuple[int, Segment]]:
        """Yield the numbers of recordings and their segments; ``sounds`` gets what is read."""
        config = options.get("decoder_config") or {}
        decoder = self.decoder(options.get("decoder", GREEDY), config)
        rate, channels = options.get("rate"), options.get("channels", "mix")
        seconds = self._batch_seconds(options.get("batch_seconds"))
        if rate is not None and not any(map(is_array, audios)):
            raise TranscriptionError(f"rate={rate} is for arrays; a file says its rate itself")

        def opened() -> Iterator[Sound]:
            for audio in audios:
                with open_sound(audio, rate=rate, channels=channels) as sound:
                    sounds.append(sound)
                    yield sound

        recogniser = Recogniser(self, decoder, seconds, self.cutting)
        yield from recogniser(opened(), options.get("progress"))

    def _batch_seconds(self, wanted: float | None) -> float:
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
