"""Where somebody speaks, and the windows of speech that a model reads like rows of its training.

A window ends at a pause of 0.2 s. Speech without such a pause that is longer than the model takes
is cut in the second half of the window, where a fifth of a second is quietest.

Speech is found by silero-vad's network, run over many chunks at a time. Its package runs one chunk
of 32 ms per call, which costs 7 ms of processor time per second of audio; all chunks of a block at
once give the same probabilities in 0.8 ms. The weights are read from the package's file and the
package is not imported: its import sets the number of PyTorch's threads to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import LSTM
from torch.nn.functional import conv1d, pad

from danish_asr.base.schema import SAMPLE_RATE

Samples = NDArray[np.float32]

FRAME: Final = 320
"""Samples from a frame of the model to the next; windows begin at a multiple."""

_SPEECH: Final = 0.5
"""Probability from which a chunk begins speech."""

_SILENCE: Final = 0.35
"""Probability below which a chunk within speech is silence."""

_WINDOW_PAUSE: Final = round(0.2 * SAMPLE_RATE)
"""Silence that ends a window. On recordings of real voices, 0.15 and 0.3 s gave no fewer errors."""

_SHORTEST: Final = SAMPLE_RATE
"""Samples before which a pause ends no window, so that words keep their context."""

_SEGMENT_PAUSE: Final = round(0.6 * SAMPLE_RATE)
"""Silence that ends speech, and with it a segment."""

_SPEECH_MARGIN: Final = round(0.3 * SAMPLE_RATE)
"""Audio before and after speech."""

_QUIET: Final = 0.01
"""Root mean square of a window that is amplified to it: a model's normalisation adds 1e-5 to the
variance, which matters below."""

_AROUND: Final = 10
"""Frames, a fifth of a second, that are quietest together at a cut within speech."""

CHUNK: Final = 512
"""Samples at 16 kHz that a probability stands for."""

_CONTEXT: Final = 64
"""Samples before a chunk that the network sees too."""

_FFT: Final = 256

_QUIET_STREAM: Final = 0.03
"""Root mean square of a stream's loudest chunks; a quieter stream is amplified, because the network
finds less speech in it."""

_GAIN: Final = 100.0
"""By how much at most."""

_HALVED: Final = 10 * SAMPLE_RATE
"""Samples after which a loud chunk counts half."""


class Window(NamedTuple):
    """Audio for one pass of the model."""

    start: int  # the sample of the stream at which it begins
    samples: Samples  # mono, 16 kHz
    continues: bool  # whether less than 0.6 s is between its speech and that of the window before


class Cutter:
    """Takes a stream block by block; gives each window, of ``longest`` seconds at most."""

    def __init__(self, longest: float, activity: Callable[[Samples, bool], Samples]) -> None:
        self._longest = round(longest * SAMPLE_RATE) - _SPEECH_MARGIN  # which may follow
        self._activity = activity
        self._audio = np.empty(0, np.float32)  # what a window may still need, from `_base` on
        self._base = 0
        self._heard = 0  # samples of which the activity is known
        self._begin: int | None = None  # of the window; None while nobody speaks
        self._spoken = 0  # where the last chunk with speech ends
        self._continues = False
        self._sum = self._count = 0.0  # of all samples

    def __call__(self, samples: Samples, *, last: bool = False) -> Iterator[Window]:
        """Yield the windows that are complete with these samples; ``last`` ends the stream."""
        samples = self._without_mean(samples)
        self._audio = np.concatenate([self._audio, samples])
        for probability in self._activity(samples, last):
            self._heard += CHUNK
            yield from self._advance(float(probability))
        if last and self._begin is not None:
            yield self._window(self._spoken + _SPEECH_MARGIN)
        needed = self._begin if self._begin is not None else self._heard - _SPEECH_MARGIN - FRAME
        needed = max(needed, self._base)
        self._audio = self._audio[needed - self._base :]
        self._base = needed

    def _without_mean(self, samples: Samples) -> Samples:
        """Subtract the mean of the stream so far, which hides speech from the detector."""
        self._sum += float(samples.sum(dtype=np.float64))
        self._count += len(samples)
        return samples - np.float32(self._sum / max(self._count, 1))

    def _advance(self, probability: float) -> Iterator[Window]:
        """Take the next chunk."""
        speaks = probability >= (_SPEECH if self._begin is None else _SILENCE)
        silent = self._heard - CHUNK - self._spoken
        if self._begin is None:
            if not speaks:
                return
            self._begin = self._on_frame(self._heard - CHUNK - _SPEECH_MARGIN)
            self._continues = False
        elif speaks and silent >= _WINDOW_PAUSE:
            middle = self._on_frame(self._spoken + silent // 2)
            if middle - self._begin >= _SHORTEST:
                yield self._window(middle)
                self._begin = middle
        elif not speaks and silent + CHUNK >= _SEGMENT_PAUSE:
            yield self._window(self._spoken + _SPEECH_MARGIN)
            self._begin = None
            return
        if speaks:
            self._spoken = self._heard
        if self._heard - self._begin >= self._longest:
            cut = self._quietest(self._begin + self._longest // 2)
            yield self._window(cut)
            self._begin = cut

    def _on_frame(self, position: int) -> int:
        return max(position - position % FRAME, self._base)

    def _window(self, end: int) -> Window:
        assert self._begin is not None
        samples = self._audio[self._begin - self._base : end - self._base]
        samples = samples - samples.mean()
        level = float(np.sqrt(np.square(samples).mean()))
        if 0 < level < _QUIET:
            samples = samples * np.float32(_QUIET / level)
        window = Window(self._begin, samples, self._continues)
        self._continues = True
        return window

    def _quietest(self, first: int) -> int:
        """Where the fifth of a second around is quietest, from ``first`` to the end of speech."""
        first = self._on_frame(first)
        part = self._audio[first - self._base : self._spoken - self._base]
        energy = np.square(part[: len(part) // FRAME * FRAME]).reshape(-1, FRAME).sum(axis=1)
        smooth = np.convolve(energy, np.ones(_AROUND), mode="valid")
        return first + (int(np.argmin(smooth)) + _AROUND // 2) * FRAME


class VoiceActivity:
    """The probability of speech in each chunk of a stream."""

    def __init__(self) -> None:
        self._weights, self._lstm = _network()
        self._left = torch.zeros(_CONTEXT)
        self._state: tuple[Tensor, Tensor] | None = None
        self._level = 0.0

    @torch.inference_mode()
    def __call__(self, samples: Samples, last: bool = False) -> Samples:
        """Return the probabilities of the chunks that are complete now, (chunks,).

        ``samples`` continue the stream, at 16 kHz. Those of an incomplete chunk wait for more, or
        are padded with zeros if they are the ``last``.
        """
        audio = torch.cat([self._left, torch.from_numpy(samples * self._gain(samples))])
        if last:
            audio = pad(audio, (0, -(len(audio) - _CONTEXT) % CHUNK))
        chunks = (len(audio) - _CONTEXT) // CHUNK
        self._left = audio[chunks * CHUNK :].clone()
        if not chunks:
            return np.empty(0, np.float32)
        windows = audio[: _CONTEXT + chunks * CHUNK].unfold(0, _CONTEXT + CHUNK, CHUNK)
        features, self._state = self._lstm(self._encode(windows), self._state)
        weight, bias = (self._weights[f"decoder.decoder.2.{name}"] for name in ("weight", "bias"))
        speech: Tensor = (features.relu() @ weight[0, :, 0] + bias).sigmoid()
        return speech.numpy()

    def _gain(self, samples: Samples) -> np.float32:
        chunks = samples[: len(samples) // CHUNK * CHUNK].reshape(-1, CHUNK)
        loudest = float(np.sqrt(np.square(chunks).mean(axis=1).max(initial=0)))
        self._level = max(self._level * 0.5 ** (len(samples) / _HALVED), loudest)
        return np.float32(min(max(_QUIET_STREAM / max(self._level, 1e-9), 1), _GAIN))

    def _encode(self, windows: Tensor) -> Tensor:
        """Windows, (chunks, samples), to features, (chunks, 128)."""
        x: Tensor
        w = self._weights
        padded = pad(windows[:, None], (0, _CONTEXT), mode="reflect")
        parts = conv1d(padded, w["stft.forward_basis_buffer"], stride=_FFT // 2)
        real, imaginary = parts.chunk(2, dim=1)
        x = (real.square() + imaginary.square()).sqrt()
        for layer, stride in enumerate((1, 2, 2, 1)):
            weight, bias = (w[f"encoder.{layer}.reparam_conv.{n}"] for n in ("weight", "bias"))
            x = conv1d(x, weight, bias, stride=stride, padding=1).relu()
        return x.squeeze(-1)


@cache
def _network() -> tuple[dict[str, Tensor], LSTM]:
    spec = find_spec("silero_vad")
    assert spec is not None
    file = Path(spec.origin or "").parent / "data" / "silero_vad.jit"
    weights = torch.jit.load(file)._model.state_dict()  # type: ignore[no-untyped-call] # noqa: SLF001
    lstm = LSTM(128, 128)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    lstm.load_state_dict({f"{name}_l0": weights[f"decoder.rnn.{name}"] for name in names})
    return weights, lstm
