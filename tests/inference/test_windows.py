"""A stream is cut into windows of speech that a model can take, wherever its blocks end."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from danish_asr.inference.windows import CHUNK, FRAME, Cutter, VoiceActivity, Window

Samples = NDArray[np.float32]

RATE = 16_000


class Detector:
    """Finds speech in chosen chunks, by default in all."""

    def __init__(self, spoken: Sequence[int] | None = None) -> None:
        self.spoken, self.samples, self.chunks = spoken, 0, 0

    def __call__(self, samples: Samples, last: bool) -> Samples:
        self.samples += len(samples)
        begin, self.chunks = self.chunks, (self.samples + (CHUNK - 1) * last) // CHUNK
        chunks = range(begin, self.chunks)
        return np.array([self.spoken is None or at in self.spoken for at in chunks], np.float32)


def windows_of(cutter: Cutter, audio: Samples, block: int) -> Iterator[Window]:
    for at in range(0, len(audio), block):
        yield from cutter(audio[at : at + block])
    yield from cutter(np.empty(0, np.float32), last=True)


def noise(seconds: float) -> Samples:
    samples = np.random.default_rng(0).normal(size=round(seconds * RATE))
    return samples.astype(np.float32)


@pytest.mark.parametrize("block", [CHUNK, 4_801, 512_000])
def test_windows_end_at_pauses_wherever_blocks_end(block: int) -> None:
    spoken = [*range(100, 200), *range(207, 300), *range(306, 400), *range(700, 750)]
    windows = list(windows_of(Cutter(30.0, Detector(spoken)), noise(32), block))
    # 7 chunks are longer than 0.2 s, 6 are not; 300 are longer than 0.6 s.
    middle = 203 * CHUNK + CHUNK // 2
    begin, margin = 100 * CHUNK - 4800, 4800
    expected = [
        (begin - begin % FRAME, middle - middle % FRAME),
        (middle - middle % FRAME, 400 * CHUNK + margin),
        (700 * CHUNK - margin - (700 * CHUNK - margin) % FRAME, 750 * CHUNK + margin),
    ]
    assert [(w.start, w.start + len(w.samples)) for w in windows] == expected
    assert [w.continues for w in windows] == [False, True, False]


def test_a_pause_within_the_first_second_ends_no_window() -> None:
    spoken = [*range(10, 20), *range(30, 200)]
    (window,) = windows_of(Cutter(30.0, Detector(spoken)), noise(8), 16_000)
    assert len(window.samples) > 190 * CHUNK


@pytest.mark.parametrize("longest", [6.0, 30.0])
def test_speech_without_a_pause_is_covered_by_windows_of_a_limited_length(longest: float) -> None:
    audio = noise(200)
    windows = list(windows_of(Cutter(longest, Detector()), audio, 160_000))
    assert max(len(window.samples) for window in windows) <= longest * RATE
    for one, following in itertools.pairwise(windows):
        assert one.start + len(one.samples) == following.start
        assert following.start % FRAME == 0
        assert len(one.samples) >= (longest - 0.3) * RATE / 2
        assert following.continues
    assert windows[-1].start + len(windows[-1].samples) == len(audio)


def test_a_cut_is_where_it_is_quietest() -> None:
    audio = noise(8)
    audio[200 * FRAME : 215 * FRAME] *= 0.01
    first = next(windows_of(Cutter(6.0, Detector()), audio, 16_000))
    assert 200 <= len(first.samples) / FRAME <= 215


@pytest.mark.parametrize(("level", "offset"), [(0.1, 0.3), (0.001, 0.0), (0.001, 0.3)])
def test_the_mean_is_removed_and_a_quiet_window_amplified(level: float, offset: float) -> None:
    audio = (level * noise(4) + offset).astype(np.float32)
    (window,) = windows_of(Cutter(30.0, Detector()), audio, 16_000)
    assert abs(window.samples.mean()) < 1e-6
    assert window.samples.std() == pytest.approx(max(level, 0.01), rel=0.02)
    (silent,) = windows_of(Cutter(30.0, Detector()), np.zeros(RATE, np.float32), 16_000)
    assert not silent.samples.any()


def speaking(activity: VoiceActivity, audio: Samples) -> int:
    """In how many chunks of a stream's next audio somebody speaks."""
    blocks = np.split(audio, range(RATE, len(audio), RATE))
    return int(np.count_nonzero(np.concatenate([*map(activity, blocks)]) > 0.5))


def test_quiet_speech_is_found_some_time_after_a_loud_noise(speech: Samples) -> None:
    quiet = speech * np.float32(3e-4)
    activity = VoiceActivity()
    activity(0.5 * noise(1))
    soon = speaking(activity, quiet)
    activity(np.zeros(100 * RATE, np.float32))
    later = speaking(activity, quiet)
    assert soon < later / 4
    assert later > 0.8 * speaking(VoiceActivity(), speech)


@pytest.mark.parametrize("chunks", [187, 187.5])
def test_voice_activity_is_that_of_the_package(chunks: float) -> None:
    threads = torch.get_num_threads()
    audio = noise(chunks * CHUNK / RATE)
    audio *= (0.1 * np.sin(np.arange(len(audio)) / 3000)).astype(np.float32)
    ours = VoiceActivity()
    blocks = np.array_split(audio, 7)
    speech = np.concatenate([*map(ours, blocks), ours(np.empty(0, np.float32), last=True)])
    assert torch.get_num_threads() == threads

    from silero_vad import load_silero_vad  # noqa: PLC0415 - it sets the number of threads

    torch.set_num_threads(threads)
    package = load_silero_vad()
    padded = np.pad(audio, (0, -len(audio) % CHUNK)).reshape(-1, CHUNK)
    with torch.inference_mode():
        expected = [package(torch.from_numpy(chunk), RATE).item() for chunk in padded]
    assert speech == pytest.approx(expected, abs=1e-4)
