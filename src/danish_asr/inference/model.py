"""A trained model: from audio to a transcript."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack, cast, overload

import numpy as np
import torch
from fairseq2.gang import create_fake_gangs
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from fairseq2.nn import BatchLayout
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import log_softmax

from danish_asr.base.errors import RunError, TranscriptionError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.decoding.alignment import separator_of
from danish_asr.decoding.decoders import GREEDY, Decoders
from danish_asr.decoding.transcript import Segment, Transcript
from danish_asr.inference.forward_pass import batches, padded, prepare_for_cpu
from danish_asr.inference.sound import Audio, Channels, Sound, is_array, open_sound
from danish_asr.inference.streaming import ShowProgress, recognise
from danish_asr.inference.windows import Cutting
from danish_asr.recipe.data.targets import FrameCount
from danish_asr.recipe.models.cards import OpenModel, open_model
from danish_asr.recipe.train.ending import explained

_BATCH_SECONDS: Final = {"cpu": 30.0, "cuda": 480.0}
"""Audio in one forward pass, padding included."""


def load_model(
    model: str | Path,
    *,
    device: str = "auto",
    decoder: tuple[str, Mapping[str, Any]] | None = None,
    int8: bool = False,
) -> Model:
    """Load a run (its best checkpoint), a checkpoint, a Hugging Face directory or a named model.

    ``device`` is a device of PyTorch, or ``auto``: a GPU if there is one. ``decoder``, a name and
    what it is created with, is created before the weights are read, so that its faults are found
    within seconds.

    ``int8`` rounds the weights of the encoder to 8 bits: faster on a CPU, in less memory, with
    texts that differ now and then.

    Raises:
        ConfigError: There is no such name (the message lists those that exist), or model, tokenizer
            and decoder do not fit.
        LanguageModelError: That of the decoder is missing or broken.
        RunError: The directory has no model, there is no such device, or it computes nothing in
            int8.
        RunFailedError: The weights cannot be read.
    """
    torch_device = _device(device)
    if int8 and torch_device.type != "cpu":
        raise RunError(
            f"int8 is for a CPU, and the device is {torch_device}; leave int8 out, or choose the "
            "device cpu"
        )
    opened = open_model(model)
    card, family = opened.card, opened.family
    decoders = Decoders(opened.tokenizer, opened.text_profile)
    if decoder:
        decoders(*decoder)
    with explained():
        gangs = create_fake_gangs(torch_device)
        module = family.load_model(card, gangs, torch.float32, None, mmap=False, progress=False)
    settings = cast(Wav2Vec2AsrConfig, family.get_model_config(card))
    asr = cast(Wav2Vec2AsrModel, module)
    if torch_device.type == "cpu":
        prepare_for_cpu(asr, int8=int8)
    return Model(asr, settings, decoders, opened, name=str(model), int8=int8)


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        gpus = torch.cuda.device_count()
        raise RunError(
            f"device '{name}' cannot be used here; known: auto, cpu and {gpus} GPUs (cuda:N)"
        ) from error


class Options(TypedDict, total=False):
    """How recordings are transcribed."""

    rate: float | None
    """Samples per second of an array."""

    channels: Channels
    """``mix``, the default, transcribes the mean of the channels, ``split`` each of them."""

    decoder: str
    """A name in ``danish_asr.decoding.decoders.DECODERS``, or ``package.module:name``."""

    decoder_config: Mapping[str, Any] | None
    """What the decoder is created with."""

    batch_seconds: float | None
    """Speech in a forward pass, about; more needs more memory and may be faster."""

    progress: ShowProgress | None
    """Called with the seconds that are done, and all of them, None if the file does not say."""


class Model:
    """A trained model with its tokenizer and decoders, ready to transcribe recordings.

    Attributes:
        name: What `load_model` was called with.
        decoder: Creates its decoders.
        separator: The token between words.
        tokenizer: The tokenizer; 0 is the CTC blank.
        device: Where it computes.
        module: fairseq2's model, without gradients.
        settings: Its sizes.
        frames: The number of frames that it makes of a number of samples.
        batch_seconds: Audio in a forward pass if a call does not say.
        cutting: How recordings are cut for it.
        normalizes: Whether each waveform is normalised to zero mean and unit variance.
        text_profile: How the texts were normalised that it was trained on.
        int8: Whether its weights are in int8. Each waveform then has a forward pass of its own, as
            others would change its rounding.
    """

    def __init__(
        self,
        module: Wav2Vec2AsrModel,
        settings: Wav2Vec2AsrConfig,
        decoders: Decoders,
        opened: OpenModel,
        *,
        name: str,
        int8: bool = False,
    ) -> None:
        self.name, self.decoder, self.settings, self.int8 = name, decoders, settings, int8
        self.tokenizer = decoders.tokenizer
        self.separator = separator_of(self.tokenizer)
        self.device: torch.device = next(module.parameters()).device
        self.module = module.eval().requires_grad_(requires_grad=False)
        layers = settings.encoder_config.feature_extractor_layer_descs
        self.frames = FrameCount([(kernel, stride) for _, kernel, stride in layers])
        self.batch_seconds = _BATCH_SECONDS.get(self.device.type, 30.0)
        self.cutting = Cutting.for_training(opened.max_audio_len / SAMPLE_RATE)
        self.normalizes = opened.normalize_audio
        self.text_profile = opened.text_profile
        # On a GPU as the evaluation does it; a CPU is slower with half precision.
        half = opened.amp_dtype if self.device.type == "cuda" else None
        self._amp = getattr(torch, half) if half else None

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
        if self.int8:
            about["int8"] = True
        if config := options.get("decoder_config"):
            paths = {key: str(value) for key, value in config.items() if isinstance(value, Path)}
            about["decoder_config"] = {**config, **paths}  # as JSON has it
        transcripts = [
            Transcript(sound.seconds, of_sound, sound.file, about)
            for sound, of_sound in zip(sounds, segments, strict=True)
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
        if unknown := options.keys() - Options.__annotations__.keys():
            known = ", ".join(Options.__annotations__)
            raise TranscriptionError(f"unknown options: {', '.join(unknown)}; known: {known}")
        config = options.get("decoder_config") or {}
        decoder = self.decoder(options.get("decoder", GREEDY), config)
        rate, channels = options.get("rate"), options.get("channels", "mix")
        seconds = self.seconds_of_batch(options.get("batch_seconds"))
        if rate is not None and not any(map(is_array, audios)):
            raise TranscriptionError(f"rate={rate} is for arrays; a file says its rate itself")

        def opened() -> Iterator[Sound]:
            for audio in audios:
                with open_sound(audio, rate=rate, channels=channels) as sound:
                    sounds.append(sound)
                    yield sound

        yield from recognise(
            self, decoder, opened(), batch_seconds=seconds, progress=options.get("progress")
        )

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
        if any(np.ndim(waveform) != 1 for waveform in waveforms):
            raise TranscriptionError("log_probs takes a list of arrays (samples,): [waveform]")
        limit = self.seconds_of_batch(batch_seconds)
        most = 0 if self.int8 else limit * SAMPLE_RATE
        results = [torch.empty(0, self.settings.target_vocab_size)] * len(waveforms)
        for batch in batches([len(waveform) for waveform in waveforms], most):
            outputs = self._forward([waveforms[number] for number in batch])
            for number, log_probs in zip(batch, outputs, strict=True):
                results[number] = log_probs
        return results

    def seconds_of_batch(self, wanted: float | None) -> float:
        """Return the audio of a forward pass; raises TranscriptionError if it is not positive."""
        if wanted is not None and not wanted > 0:
            raise TranscriptionError(f"batch_seconds must be positive, but is {wanted}")
        return wanted or self.batch_seconds

    @torch.inference_mode()
    def _forward(self, waveforms: Sequence[NDArray[np.float32]]) -> Iterator[Tensor]:
        shortest = self.frames.shortest_input()
        seqs, lengths = padded(waveforms, shortest, normalizes=self.normalizes)
        seqs = seqs.to(self.device)
        with torch.autocast(self.device.type, self._amp, enabled=self._amp is not None):
            logits, layout = self.module(seqs, BatchLayout.of(seqs, lengths))
        log_probs = log_softmax(logits.float(), dim=-1).cpu()
        return (row[:length] for row, length in zip(log_probs, layout.seq_lens, strict=True))
