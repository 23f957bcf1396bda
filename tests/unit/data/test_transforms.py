import io
from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import soundfile
import torch
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.datasets import Seq2SeqBatch
from numpy.typing import NDArray

from danish_asr.base.errors import ConfigError
from danish_asr.recipe.data.reader import BatchReader
from danish_asr.recipe.data.transforms import SpecAugment, Speed
from tests.builders import tone
from tests.shards import reader, task, utterance, waveform, write_dataset, write_shard

FACTORS = [0.9, 1.0, 1.1]
COUNTS = {("a", "train"): 53, ("b", "train"): 20, ("a", "test"): 13}
EVERY = SpecAugment(probability=1.0)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), COUNTS)


def batches(source: BatchReader) -> list[Seq2SeqBatch]:
    """The rest of the epoch."""
    return [batch for step in source for batch in step]


def example(batch: Seq2SeqBatch, key: str) -> list[Any]:
    return cast(dict[str, list[Any]], batch.example)[key]


def sizes(read: list[Seq2SeqBatch]) -> dict[str, int]:
    """Samples of each row as it is played, by id."""
    return {
        name: samples
        for batch in read
        for name, samples in zip(example(batch, "id"), batch.source_seq_lens or [], strict=True)
    }


def peak(wave: NDArray[np.float32]) -> float:
    """The strongest frequency, in Hz."""
    spectrum = np.abs(np.fft.rfft(wave * np.hanning(len(wave))))
    return float(spectrum.argmax() * 16_000 / len(wave))


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 2.0])
def test_a_faster_tone_is_shorter_and_higher(factor: float) -> None:
    wave, _ = soundfile.read(io.BytesIO(tone(1.0, rate=16_000, hertz=440.0)), dtype="float32")

    out = Speed([factor])(wave, factor)

    assert len(out) == round(len(wave) / factor)
    assert peak(wave) == pytest.approx(440, abs=1)
    assert peak(out) == pytest.approx(440 * factor, abs=2)
    assert np.abs(out).max() == pytest.approx(0.3, abs=0.02)


def test_batches_are_made_of_the_lengths_that_are_played(root: Path, tokenizer: Tokenizer) -> None:
    source = reader(root, tokenizer, speed_factors=FACTORS, accumulate=3)
    size = source.epoch_size()

    found = list(source)

    every = [batch for step in found for batch in step]
    lengths = [batch.source_seq_lens for batch in every]
    assert len(found) == size.steps
    padded = sum(batch.source_seqs.numel() for batch in every)
    assert size.padding == pytest.approx(1 - sum(map(sum, lengths)) / padded)
    played = Counter[float]()
    for batch in every:
        assert batch.source_seqs.numel() <= 100_000
        for place, samples in enumerate(batch.source_seq_lens):
            recorded = example(batch, "audio_size")[place]
            (factor,) = (f for f in FACTORS if round(recorded / f) == samples)
            played[factor] += 1
            wave = batch.source_seqs[place, :samples]
            assert float(wave.std()) == pytest.approx(1, abs=1e-3), "not normalised as played"
            assert not batch.source_seqs[place, samples:].any()
    assert sum(played.values()) == 73
    assert min(played.values()) > 10


# 16,000 samples are 49 frames, 14,545 (at a speed of 1.1) are 45, 17,778 (at 0.9) are 55.
@pytest.mark.parametrize(
    ("limits", "text", "factor", "played"),
    [
        ({"min_audio_len": 14_546}, "hej", 1.1, 16_000),
        ({"max_audio_len": 17_777}, "hej", 0.9, 16_000),
        ({"max_num_elements": 17_777}, "hej", 0.9, 16_000),
        ({}, "ab" * 23, 1.1, 16_000),
        ({}, "ab" * 22 + "a", 1.1, 14_545),
        # 49 frames for 49 targets: a speed of 0.9 gives it more.
        ({}, "ab" * 24 + "a", 0.9, 17_778),
    ],
)
def test_a_row_that_would_break_a_limit_keeps_its_own_speed(
    tmp_path: Path,
    tokenizer: Tokenizer,
    *,
    limits: dict[str, Any],
    text: str,
    factor: float,
    played: int,
) -> None:
    write_shard(tmp_path, [utterance(0, audio_size=16_000, text=text)])

    source = reader(tmp_path, tokenizer, speed_factors=[factor], task_config=task(**limits))

    assert list(sizes(batches(source)).values()) == [played]


def test_evaluation_reads_what_was_recorded(root: Path, tokenizer: Tokenizer) -> None:
    chosen = [{"name": "speed", "factors": [1.1]}, {"name": "spec_augment", "probability": 1.0}]
    plain = reader(root, tokenizer, "test", training=False)
    transformed = reader(root, tokenizer, "test", training=False, transforms=chosen)

    assert plain.state_dict() == transformed.state_dict()
    for left, right in zip(batches(plain), batches(transformed), strict=True):
        assert torch.equal(left.source_seqs, right.source_seqs)
        assert left.source_seq_lens == example(right, "audio_size")


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({"probability": 0.5}, r"transforms\[1\]: needs a name"),
        ({"name": "sped"}, r"transforms\[1\]: .*did you mean speed"),
        ({"name": "speed", "factors": [1, 2.1]}, r"factors from 0\.5 to 2, found \[1\.0, 2\.1\]"),
        ({"name": "no_such_module:Noise"}, r"No module named 'no_such_module'"),
    ],
)
def test_an_impossible_transform_is_refused_with_its_place(
    root: Path, tokenizer: Tokenizer, entry: dict[str, object], fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        reader(root, tokenizer, transforms=[{"name": "speed", "factors": [1.1]}, entry])


def spectrum(wave: NDArray[np.float32]) -> torch.Tensor:
    window = torch.hann_window(400)
    return torch.stft(torch.from_numpy(wave), 400, 200, window=window, return_complex=True).abs()


def test_spec_augment_masks_a_band_and_at_most_a_quarter_of_the_time() -> None:
    wave = waveform(16_000, 5)
    before = wave.copy()

    augmented = SpecAugment(probability=1.0, max_frequency=40, max_time=0)(wave, rng())

    quiet = spectrum(augmented).mean(dim=1) < 0.2 * spectrum(wave).mean(dim=1)
    assert 15 <= int(quiet.sum()) <= 42
    assert int(torch.diff(quiet.nonzero().squeeze()).max()) == 1
    assert augmented.shape == wave.shape
    assert (wave == before).all()
    in_time = SpecAugment(probability=1.0, max_frequency=0)
    masked = [in_time(wave, np.random.default_rng(seed)) for seed in range(30)]
    assert 0.1 < max(float((np.abs(each) < 1e-4).mean()) for each in masked) <= 0.25
