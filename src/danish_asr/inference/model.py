"""A trained model: from audio to a transcript."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast, overload

import torch
from fairseq2.gang import create_fake_gangs
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel

from danish_asr.base.errors import RunError, TranscriptionError
from danish_asr.base.fairseq2_private import supported
from danish_asr.decoding import GREEDY
from danish_asr.decoding.transcript import Segment, Transcript
from danish_asr.inference.acoustic_model import AcousticModel, Decoders
from danish_asr.inference.selection import select_model
from danish_asr.inference.sound import Audio, Channels, Sound, is_array, open_sound
from danish_asr.inference.streaming import Recogniser, ShowProgress
from danish_asr.recipe.models.assets import Assets
from danish_asr.recipe.train.diagnostics import explained


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

    progress: ShowProgress | None
    """Called with the seconds that are done, and all of them, None if the file does not say."""


class Model(AcousticModel):
    """A trained model with its tokenizer and decoders, ready to transcribe recordings."""

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
            paths = {key: str(value) for key, value in config.items() if isinstance(value, Path)}
            about["decoder_config"] = {**config, **paths}  # as JSON has it
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

        recogniser = Recogniser(self, decoder, seconds, self.cutting)
        yield from recogniser(opened(), options.get("progress"))
