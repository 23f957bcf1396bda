"""A trained model: from audio of any length to words with times, in constant memory.

A sound comes in; windows of its speech go through the model, each is decoded alone, and its words
get times. Out come `Heard` windows, segments of them, or a transcript.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import torch
from fairseq2.models.wav2vec2.asr import Wav2Vec2AsrConfig, Wav2Vec2AsrModel
from torch import Tensor

from danish_asr.base.errors import RunError
from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.base.sound import Array, Audio, ShowProgress, Sound, open_sound
from danish_asr.decoding.alignment import SpokenText
from danish_asr.decoding.decoders import BEAM, GREEDY, decode, make_decoder
from danish_asr.decoding.transcript import Segment, Transcript, Word
from danish_asr.inference.on_cpu import prepare_for_cpu
from danish_asr.inference.windows import Cutter, VoiceActivity, Window
from danish_asr.recipe.models.cards import OpenModel, open_model
from danish_asr.recipe.models.trained import TrainedModel
from danish_asr.recipe.train import ending
from danish_asr.text.profiles import profile_in

_LONGEST: Final = 30.0
"""Seconds of a window at most; models that were trained on shorter utterances take less."""

_LONGEST_AT_LEAST: Final = 6.0

_STEP: Final = SAMPLE_RATE // 2
"""Samples of which a batch is a multiple: oneDNN keeps memory for each shape that it sees."""

_LONGEST_SEGMENT: Final = 30.0

UNKNOWN: Final = "⁇"
"""How SentencePiece writes the unknown symbol, which a model can have learnt to emit for letters
that its tokenizer lacks; a transcript leaves it out."""


def load_model(
    model: str | Path,
    *,
    device: str = "auto",
    decoder: str = GREEDY,
    decoder_config: Mapping[str, Any] | None = None,
    int8: bool = False,
) -> Model:
    """Load a run (its best checkpoint), a checkpoint, a Hugging Face directory or a named model.

    ``device`` is a device of PyTorch, or ``auto``: a GPU if there is one. ``decoder`` is
    ``greedy``, ``beam`` or ``package.module:name``, and ``decoder_config`` what it is created with.
    It is created before the weights are read, so that its faults are found within seconds.

    ``int8`` rounds the weights of the encoder to 8 bits: faster on a CPU, in less memory, with
    texts that differ now and then.

    Raises:
        ConfigError: There is no such name (the message lists those that exist), or model, tokenizer
            and decoder do not fit.
        LanguageModelError: That of the decoder is missing or broken.
        RunError: The directory has no model that can be read, or the device does not fit.
    """
    torch_device = _device(device)
    if int8 and torch_device.type != "cpu":
        raise RunError("int8 is for a CPU: leave it out, or choose the device cpu")
    opened = open_model(model)
    config = dict(decoder_config or {})
    about: dict[str, Any] = {"model": str(model), "decoder": decoder}
    if config:
        about["decoder_config"] = json.loads(json.dumps(config, default=str))
    if int8:
        about["int8"] = True
    if decoder == BEAM and config.get("hotwords") and "text_profile" not in config:
        remedy = "name it yourself in Python, decoder_config={'text_profile': NAME}; or no hotwords"
        of_card = profile_in(f"the card of {model}", opened.text_profile, remedy)
        if of_card != "raw":
            config["text_profile"] = of_card
    decode = make_decoder(decoder, config, opened.tokenizer)
    with ending.explained():
        asr, settings = opened.load(torch_device)
    if torch_device.type == "cpu":
        prepare_for_cpu(asr, int8=int8)
    return Model(asr, settings, opened, decode, about)


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        gpus = torch.cuda.device_count()
        raise RunError(
            f"device '{name}' cannot be used here; there are auto, cpu and {gpus} GPUs (cuda:N)"
        ) from error


class Heard(NamedTuple):
    """What a model hears in a window of speech."""

    start: float  # seconds from the beginning of the recording
    continues: bool  # whether its speech continues that of the window before
    log_probs: Tensor  # (S, V)
    words: list[Word]


class Model(TrainedModel):
    """A trained model with its tokenizer and decoder, ready to transcribe recordings.

    Attributes:
        name: What `load_model` was called with.
        about: That, and how it decodes, for transcripts.
        tokenizer: The tokenizer; 0 is the CTC blank.
        decoder: Takes a list of log-probabilities, (S, V) each, and returns texts.
        longest: Seconds of a window of speech, at most.
        text_profile: How the texts were normalised that it was trained on.
    """

    def __init__(
        self,
        module: Wav2Vec2AsrModel,
        settings: Wav2Vec2AsrConfig,
        opened: OpenModel,
        decoder: Any,
        about: Mapping[str, Any],
    ) -> None:
        super().__init__(
            module,
            settings,
            normalize_audio=opened.normalize_audio,
            amp_dtype=opened.amp_dtype,
            step=_STEP,
            # Windows differ in length: on a CPU, padding takes more time than a batch saves. With
            # int8, other rows would change the rounding.
            one_by_one=next(module.parameters()).device.type == "cpu",
        )
        self.name, self.about = str(about["model"]), about
        self.tokenizer, self.decoder = opened.tokenizer, decoder
        trained_on = opened.max_audio_len / SAMPLE_RATE
        self.longest = min(_LONGEST, max(trained_on, _LONGEST_AT_LEAST))
        self.text_profile = opened.text_profile

    def transcribe(
        self,
        audio: Audio,
        *,
        rate: int | None = None,
        channels: Literal["mix", "split"] = "mix",
        batch_seconds: float | None = None,
        progress: ShowProgress | None = None,
    ) -> Transcript:
        """Return the transcript of a recording.

        Args:
            audio: The path of a file, its bytes, or an array, (samples,) or (samples, channels), of
                any length.
            rate: The samples per second of an array.
            channels: ``mix`` transcribes the mean of the channels, ``split`` each of them.
            batch_seconds: Speech in a forward pass of a GPU, about; more needs more memory and may
                be faster. A CPU takes the windows one by one.
            progress: Called before each forward pass and after each 10 s of audio, with the seconds
                that were read, and all of them, None if the file does not say. What it raises ends
                the transcription.

        Raises:
            TranscriptionError: The recording is not audio, is damaged, or an option does not fit.
        """
        numbers: Sequence[int | None] = [None]
        if channels == "split":
            with open_sound(audio, rate=rate) as sound:
                numbers = range(sound.channels)
        spoken: list[Segment] = []
        for number in numbers:
            with open_sound(audio, rate=rate, channel=number) as sound:
                heard = self.hear(sound, batch_seconds=batch_seconds, progress=progress)
                spoken += _segments(heard, number)
        spoken.sort(key=lambda segment: segment.start)
        return Transcript(round(sound.seconds, 3), spoken, sound.file, dict(self.about))

    def stream(
        self, audio: Audio | Iterator[Array], *, rate: int | None = None, **options: Any
    ) -> Iterator[Segment]:
        """Yield the segments of a recording as they end; audio and results are not kept.

        ``audio`` may also be an iterator of arrays, the blocks of a stream.

        Channels are mixed; other arguments and errors are those of `transcribe`. A segment is known
        to end when the next window of speech has been heard.
        """
        with open_sound(audio, rate=rate) as sound:
            yield from _segments(self.hear(sound, **options))

    def why_empty(self, audio: Audio) -> str:
        """Return why a recording has a transcript without text; raises what `transcribe` does."""
        with open_sound(audio) as sound:
            has_speech = any(_windows(sound, self.longest, lambda: None))
        return "the model wrote no text for the speech" if has_speech else "no speech was found"

    def hear(
        self,
        sound: Sound,
        *,
        batch_seconds: float | None = None,
        progress: ShowProgress | None = None,
    ) -> Iterator[Heard]:
        """Yield the windows of a sound, of which about ``batch_seconds`` are decoded together.

        Raises TranscriptionError if it is damaged or empty.
        """

        def report() -> None:
            if progress is not None:
                progress(sound.seconds, sound.expected)

        batch: list[Window] = []
        seconds, limit = 0.0, self.seconds_of_batch(batch_seconds)
        for window in _windows(sound, self.longest, report):
            batch.append(window)
            seconds += len(window.samples) / SAMPLE_RATE
            if seconds >= limit:
                yield from self._hear_batch(batch, limit, report)
                batch, seconds = [], 0.0
        yield from self._hear_batch(batch, limit, report)

    def _hear_batch(
        self, batch: Sequence[Window], batch_seconds: float, report: Callable[[], None]
    ) -> Iterator[Heard]:
        """Run the model on the windows of a batch, and decode each of them alone."""
        waveforms = [window.samples for window in batch]
        passes = [[waveform] for waveform in waveforms] if self._one_by_one else [waveforms]
        rows: list[Tensor] = []
        for parts in passes:
            report()
            rows += self.log_probs(parts, batch_seconds=batch_seconds)
        texts = decode(self.decoder, rows)
        for window, log_probs, text in zip(batch, rows, texts, strict=True):
            start = window.start / SAMPLE_RATE
            spoken = SpokenText.of(text.replace(UNKNOWN, ""), self.tokenizer)
            words = spoken.align(log_probs, offset=start)
            yield Heard(start, window.continues, log_probs, words)


def _windows(sound: Sound, longest: float, report: Callable[[], None]) -> Iterator[Window]:
    """Yield windows of speech; ``report`` is called after each block of audio."""
    cutter = Cutter(longest, VoiceActivity())
    for block in sound:
        yield from cutter(block)
        report()
    yield from cutter(np.empty(0, np.float32), last=True)


def _segments(heard: Iterable[Heard], channel: int | None = None) -> Iterator[Segment]:
    """Join windows to segments, up to a pause of 0.6 s and at most 30 s, as soon as they end."""
    words: list[Word] = []  # of the segment so far
    for item in heard:
        end = item.words[-1].end if item.words else item.start
        if words and not (item.continues and end - words[0].start <= _LONGEST_SEGMENT):
            yield Segment.of(words, channel)
            words = []
        words += item.words
    if words:
        yield Segment.of(words, channel)
