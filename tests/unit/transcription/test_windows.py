"""Speech that is cut into windows and joined again loses and doubles nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from fairseq2.data.tokenizers import Tokenizer
from numpy.typing import NDArray
from torch import Tensor

from danish_asr.decoding.alignment import align_words, separator_of
from danish_asr.decoding.decoders import make_decoder
from danish_asr.decoding.greedy import GreedyDecoder
from danish_asr.inference.levels import FRAME, levelled, pauses
from danish_asr.inference.regions import join, separate
from danish_asr.inference.voice_activity import CHUNK, VoiceActivity
from danish_asr.inference.windows import Cutter, Cutting, Window

WORDS = "det er en lang tale uden pauser som vi klipper i stykker og samler igen".split()  # noqa: SIM905 - a sentence
CUTTING = Cutting(longest=4.0, overlap=1.0, joined=60.0)


def frames_of(text: str) -> list[str]:
    """A frame of each letter and two blanks after it; five after a word."""
    return [s for c in text for s in (c, "_", "_", *("__" if c == " " else ""))]


def speech(frames: int, rng: np.random.Generator) -> NDArray[np.float32]:
    return (rng.normal(size=frames * FRAME) * rng.uniform(0.1, 1, frames).repeat(FRAME)).astype("f")


class Detector:
    """Finds speech in chosen chunks, by default in all."""

    def __init__(self, spoken: NDArray[np.float32] | None = None) -> None:
        self.spoken, self.samples, self.chunks = spoken, 0, 0

    def __call__(self, samples: NDArray[np.float32], last: bool) -> NDArray[np.float32]:
        self.samples += len(samples)
        begin, self.chunks = self.chunks, (self.samples + (CHUNK - 1) * last) // CHUNK
        count = self.chunks - begin
        return np.ones(count, "f") if self.spoken is None else self.spoken[begin : self.chunks]


def windows_of(cutter: Cutter, audio: NDArray[np.float32], block: int) -> Iterator[Window]:
    for at in range(0, len(audio), block):
        yield from cutter(audio[at : at + block])
    yield from cutter(np.empty(0, np.float32), last=True)


class Oracle:
    """Reads the symbols of a text from the times of a window's frames, like a trained model.

    At the ends of a window, where a model lacks context, it emits nonsense. Symbols of some
    windows are a frame late.
    """

    def __init__(self, text: str, tokenizer: Tokenizer, rng: np.random.Generator) -> None:
        encode = tokenizer.create_encoder()
        space = int(encode("a a")[-2])
        self.symbols = [
            0 if c == "_" else space if c == " " else int(encode(c)[0]) for c in frames_of(text)
        ]
        self.vocabulary, self._rng = tokenizer.vocab_info.size, rng

    def __call__(self, window: Window) -> Tensor:
        first, count = window.start // FRAME, (len(window.samples) - 400) // FRAME + 1
        late = int(self._rng.integers(2))
        best = [
            self.symbols[min(max(at - late, 0), len(self.symbols) - 1)]
            for at in range(first, first + count)
        ]
        lost = 6 if first else 0
        best[:lost] = self._rng.integers(1, self.vocabulary, lost).tolist()
        if not window.last:
            best[-6:] = self._rng.integers(1, self.vocabulary, 6).tolist()
        log_probs = torch.full((count, self.vocabulary), -8.0)
        log_probs[torch.arange(count), torch.tensor(best)] = -0.01
        return log_probs


@pytest.mark.parametrize("seed", range(20))
def test_words_across_seams_are_neither_lost_nor_doubled(seed: int, tokenizer: Tokenizer) -> None:
    rng = np.random.default_rng(seed)
    text = " ".join(rng.choice(WORDS, 60).tolist())
    oracle = Oracle(text, tokenizer, rng)
    audio = speech(len(oracle.symbols) + 2, rng)
    windows = list(windows_of(Cutter(CUTTING, Detector()), audio, int(rng.integers(5000, 200_000))))
    assert len(windows) > 3
    assert {window.region for window in windows} == {0}
    joined = join([(window, oracle(window)) for window in windows])
    assert GreedyDecoder(tokenizer)(joined[None], [len(joined)]) == [text]
    assert abs(len(joined) - len(oracle.symbols)) <= 2


def test_windows_are_of_a_limited_length_and_cover_the_region() -> None:
    audio = speech(10_000, np.random.default_rng(0))
    windows = list(windows_of(Cutter(CUTTING, Detector()), audio, 160_000))
    longest = max(len(window.samples) for window in windows)
    assert longest <= (CUTTING.longest + 2 * CUTTING.overlap) * 16_000
    for one, following in itertools.pairwise(windows):
        shared = 0 if one.last else CUTTING.overlap * 2 * 16_000
        assert one.start + len(one.samples) - following.start == shared
        assert one.last == (following.region != one.region)
        assert (following.start - following.region) % FRAME == 0
    ends = [window.start + len(window.samples) for window in windows if window.last]
    assert max(np.diff([0, *ends])) <= (CUTTING.joined + CUTTING.longest) * 16_000
    assert windows[-1].last
    assert ends[-1] == len(audio)


def test_a_cut_is_where_it_is_quietest() -> None:
    audio = speech(400, np.random.default_rng(0)) + 1
    audio[150 * FRAME : 165 * FRAME] *= 0.01
    first = next(windows_of(Cutter(CUTTING, Detector()), audio, 16_000))
    assert 150 <= first.cut / FRAME <= 165


def test_pauses_end_regions_and_windows_wherever_blocks_end() -> None:
    spoken = np.zeros(1000, np.float32)
    spoken[[*range(100, 200), *range(205, 300), *range(700, 750)]] = 1
    audio = np.arange(1000 * CHUNK, dtype=np.float32)

    def cut(block: int) -> list[tuple[int, int]]:
        windows = list(windows_of(Cutter(Cutting(), Detector(spoken)), audio, block))
        assert all(window.samples[0] == window.start for window in windows)
        return [(w.start, w.start + len(w.samples)) for w in windows]

    margin = 4800
    gap = 200 * CHUNK + 4 * FRAME  # the frame in its middle
    expected = [
        (100 * CHUNK - margin, gap + FRAME),
        (gap, 300 * CHUNK + margin),
        (700 * CHUNK - margin, 750 * CHUNK + margin),
    ]
    assert cut(160_000) == cut(4_801) == cut(len(audio)) == expected


@pytest.mark.parametrize(
    ("speech_before", "chunks", "heard", "windows", "expected"),
    [
        (15, 5, True, 1, "en ko"),
        (60, 5, True, 2, "en ko"),
        (60, 5, False, 1, "en ko"),
        (60, 1, True, 1, "enko"),
    ],
)
@pytest.mark.parametrize("receptive", [400, 912], ids=["omniASR", "demo"])
def test_a_short_pause_separates_words_between_which_the_model_writes_nothing(
    *,
    speech_before: int,
    chunks: int,
    heard: bool,
    windows: int,
    expected: str,
    receptive: int,
    tokenizer: Tokenizer,
) -> None:
    """Whether voice activity finds it or not, and with a front end wider than two frames."""
    spoken = np.ones(speech_before + chunks + 30, np.float32)
    audio = speech(len(spoken) * CHUNK // FRAME, np.random.default_rng(0))
    audio[speech_before * CHUNK : (speech_before + chunks) * CHUNK] *= 0.01
    if heard:
        spoken[speech_before : speech_before + chunks] = 0
    cutting = Cutting.for_training(30.0)
    found = list(windows_of(Cutter(cutting, Detector(spoken)), audio, 16_000))
    assert len(found) == windows
    encode = tokenizer.create_encoder()
    middle = (speech_before + chunks / 2) * CHUNK / FRAME
    frames = len(audio) // FRAME
    whole = torch.full((frames, tokenizer.vocab_info.size), -8.0)
    whole[:, 0] = -0.01
    for letter, at in zip("enko", (-10, -6, 6, 10), strict=True):
        whole[round(middle) + at, [0, int(encode(letter)[0])]] = torch.tensor([-8.0, -0.01])
    region = []
    for window in found:
        first, count = window.start // FRAME, (len(window.samples) - receptive) // FRAME + 1
        region.append((window, whole[first : first + count]))
    joined = separate(join(region), region, separator_of(tokenizer))
    assert len(joined) == (len(audio) - receptive) // FRAME + 1
    for decoder in ("greedy", "beam"):
        assert make_decoder(decoder, {}, tokenizer)(joined[None], [len(joined)]) == [expected]
    words = align_words(joined, expected, tokenizer)
    assert [word.text for word in words] == expected.split()
    assert joined[:, int(encode("o")[0])].argmax() == round(middle) + 10


@pytest.mark.parametrize("silent", [True, False])
def test_in_a_doubtful_pause_a_language_model_may_separate_words(
    *, silent: bool, tokenizer: Tokenizer
) -> None:
    """Greedy decoding does not; and where the model writes a letter, nothing changes."""
    audio = speech(200, np.random.default_rng(0))
    audio[100 * FRAME : 102 * FRAME] = 0
    (window,) = windows_of(Cutter(Cutting(), Detector()), audio, len(audio))
    frames = [at // FRAME for at in window.doubts]
    assert 101 in frames
    log_probs = torch.full((200, tokenizer.vocab_info.size), -9.0)
    log_probs[:, 0 if silent else 5] = -0.01
    separator = separator_of(tokenizer)
    found = separate(log_probs.clone(), [(window, log_probs)], separator)
    assert found[101, separator].exp() == pytest.approx(0.1 if silent else 1e-4, abs=0.01)
    assert torch.equal(found.argmax(dim=-1), log_probs.argmax(dim=-1))
    assert torch.allclose(found[101].exp().sum(), log_probs[101].exp().sum())
    likely = log_probs.clone()
    likely[101, separator] = -1.0
    assert torch.equal(separate(likely.clone(), [(window, likely)], separator)[101], likely[101])


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.05])
@pytest.mark.parametrize(("seconds", "count"), [(0.05, 0), (0.1, 1), (0.3, 1)])
def test_a_pause_is_as_quiet_as_the_noise_and_within_the_window(
    noise: float, seconds: float, count: int
) -> None:
    rng = np.random.default_rng(0)
    audio = rng.normal(size=48_000).astype(np.float32)
    size = round(seconds * 16_000)
    for begin in (0, 16_000, 48_000 - size):
        audio[begin : begin + size] = noise * rng.normal(size=size)
    found = pauses(audio, 0.09)
    assert len(found) == count
    assert all(abs(at - 16_000 - size / 2) <= 160 for at, _ in found)
    assert [length for _, length in found] == pytest.approx([seconds] * count, abs=0.02)


def test_a_quiet_speaker_gets_the_level_of_a_loud_one_in_long_windows_only() -> None:
    audio = np.random.default_rng(0).normal(size=160_000).astype(np.float32) * 0.1
    audio[80_000:] /= 3
    even = levelled(audio)
    loud, quiet = (even[part].std() for part in (slice(20_000, 60_000), slice(100_000, 140_000)))
    assert quiet == pytest.approx(loud, rel=0.03)
    assert np.array_equal(levelled(audio[60_000:120_000]), audio[60_000:120_000])
    assert not levelled(np.zeros(160_000, np.float32)).any()


def test_voice_activity_is_that_of_the_package() -> None:
    threads = torch.get_num_threads()
    rng = np.random.default_rng(0)
    audio = (speech(300, rng) * 0.1 * np.sin(np.arange(300 * FRAME) / 3000)).astype(np.float32)
    ours = VoiceActivity()
    blocks = np.array_split(audio, 7)
    found = np.concatenate([*map(ours, blocks), ours(np.empty(0, np.float32), last=True)])
    assert torch.get_num_threads() == threads

    from silero_vad import load_silero_vad  # noqa: PLC0415 - it sets the number of threads

    torch.set_num_threads(threads)
    package = load_silero_vad()
    padded = np.pad(audio, (0, -len(audio) % CHUNK)).reshape(-1, CHUNK)
    with torch.inference_mode():
        expected = [package(torch.from_numpy(chunk), 16_000).item() for chunk in padded]
    assert np.allclose(found, expected, atol=1e-4)
