from __future__ import annotations

import io
import math
from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray

from danish_asr.data.frames import frame_count
from danish_asr.data.reader import PlannedReader
from danish_asr.data.speed import SpeedPerturbation, change_speed, perturbed_lengths
from danish_asr.data.waveform import WaveformDecoder
from danish_asr.errors import ConfigError, RunError
from tests.builders import tone
from tests.shards import ids_of, reader, task, utterance, write_dataset, write_shard

# isort: split
from fairseq2.data.tokenizers import Tokenizer
from fairseq2.datasets import Seq2SeqBatch

FACTORS = [0.9, 1.0, 1.1]
COUNTS = {("a", "train"): 53, ("b", "train"): 20, ("a", "test"): 13}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("dataset"), COUNTS)


def batches(source: PlannedReader) -> list[Seq2SeqBatch]:
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


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 2.0])
def test_a_faster_tone_is_shorter_and_higher(factor: float) -> None:
    wave, _ = soundfile.read(io.BytesIO(tone(1.0, rate=16_000, hertz=440.0)), dtype="float32")
    out = np.full(round(len(wave) / factor), np.nan, np.float32)

    change_speed(wave, factor, out)

    assert peak(wave) == pytest.approx(440, abs=1)
    assert peak(out) == pytest.approx(440 * factor, abs=2)
    assert np.abs(out).max() == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("samples", [*range(16_000, 16_012), 401])
@pytest.mark.parametrize("factor", [0.9, 1.1, 1.37])
def test_exactly_the_planned_samples_are_played(samples: int, factor: float) -> None:
    out = np.full(int(perturbed_lengths(np.array([samples], np.int32), factor)[0]), np.nan)

    change_speed(np.ones(samples, np.float32), factor, out)

    assert np.isfinite(out).all()
    assert out[len(out) // 2] == pytest.approx(1, abs=0.01)


def test_the_plans_lengths_are_those_of_the_waveforms(root: Path, tokenizer: Tokenizer) -> None:
    source = reader(root, tokenizer, speed_factors=FACTORS, accumulate=3)
    padding, steps = source.padding, source.steps_per_epoch

    found = list(source)

    every = [batch for step in found for batch in step]
    lengths = [batch.source_seq_lens for batch in every]
    assert len(found) == steps
    assert padding == pytest.approx(
        1 - sum(map(sum, lengths)) / sum(batch.source_seqs.numel() for batch in every)
    )
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


def test_a_row_is_the_recording_played_faster_and_then_normalised(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    row = utterance(0, audio_size=20_000)
    write_shard(tmp_path, [row])

    (batch,) = batches(reader(tmp_path, tokenizer, speed_factors=[1.1]))

    recorded = np.empty(20_000, np.float32)
    WaveformDecoder(normalize=False)(row["audio_bytes"], recorded, samples=20_000)
    wave = np.empty(18_182, np.float32)
    change_speed(recorded, 1.1, wave)
    expected = torch.nn.functional.layer_norm(torch.from_numpy(wave), [18_182])
    torch.testing.assert_close(batch.source_seqs[0], expected)


def test_seed_and_epoch_fix_the_speeds(root: Path, tokenizer: Tokenizer) -> None:
    def epochs(seed: int) -> list[dict[str, int]]:
        source = reader(root, tokenizer, speed_factors=FACTORS, seed=seed)
        first = sizes(batches(source))
        source.reset()
        return [first, sizes(batches(source))]

    one, again, other = epochs(1), epochs(1), epochs(2)

    assert one == again
    assert one[0] != one[1]
    assert one[0] != other[0]


def test_neither_processes_nor_batches_change_a_rows_speed(
    root: Path, tokenizer: Tokenizer
) -> None:
    alone = sizes(batches(reader(root, tokenizer, speed_factors=FACTORS)))
    config = task(max_num_elements=40_000, example_shuffle_window=7)
    pair = [
        reader(root, tokenizer, speed_factors=FACTORS, rank=rank, world=2, task_config=config)
        for rank in range(2)
    ]

    assert sizes(batches(pair[0]) + batches(pair[1])) == alone


def test_an_epoch_draws_all_factors_alike() -> None:
    lengths = np.full(30_000, 16_000, np.int32)
    perturbation = SpeedPerturbation.within(
        FACTORS,
        lengths,
        least=1,
        most=10**6,
        needed=np.zeros_like(lengths),
        frames=frame_count(),
    )

    speeds = perturbation.draw(seed=1, epoch=0)

    assert speeds.codes.nbytes == len(lengths)
    shares = np.unique(speeds.of(slice(None)), return_counts=True)
    assert shares[0].tolist() == FACTORS
    assert shares[1] == pytest.approx(10_000, rel=0.05)


# 16,000 samples are 49 frames, 14,545 (at a speed of 1.1) are 45, 17,778 (at 0.9) are 55.
@pytest.mark.parametrize(
    ("limits", "text", "factor", "played"),
    [
        ({"min_audio_len": 14_546}, "hej", 1.1, 16_000),
        ({"min_audio_len": 14_545}, "hej", 1.1, 14_545),
        ({"max_audio_len": 17_777}, "hej", 0.9, 16_000),
        ({"max_audio_len": 17_778}, "hej", 0.9, 17_778),
        ({"max_num_elements": 17_777}, "hej", 0.9, 16_000),
        ({}, "ab" * 23, 1.1, 16_000),
        ({}, "ab" * 22 + "a", 1.1, 14_545),
        ({}, "aa" * 11 + "b", 1.1, 14_545),
        ({}, "aa" * 12, 1.1, 16_000),
        ({}, "a?b?" * 12, 1.1, 16_000),
        ({"remove_unknown": True}, "a?b?" * 12, 1.1, 14_545),
        # 24 frames at a speed of 2.
        ({}, "a" * 22, 2.0, 16_000),
        ({}, "ab" * 11, 2.0, 8_000),
        # 49 frames for 49 targets: a speed of 0.9 gives it more.
        ({}, "ab" * 24 + "a", 0.9, 17_778),
    ],
)
def test_a_row_that_would_break_a_rule_keeps_its_own_speed(
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


@pytest.mark.parametrize("done", [0, 3, 9, 14])
@pytest.mark.parametrize("world", [1, 2])
def test_a_resumed_reader_plays_the_rest_as_it_would_have(
    root: Path, tokenizer: Tokenizer, tmp_path: Path, done: int, world: int
) -> None:
    def fresh() -> PlannedReader:
        return reader(
            root,
            tokenizer,
            world=world,
            speed_factors=FACTORS,
            task_config=task(spec_aug_p=0.5, max_num_elements=60_000),
        )

    def epochs(source: PlannedReader) -> list[Seq2SeqBatch]:
        found = []
        for _ in range(2):
            found += batches(source)
            source.reset()
        return found

    undisturbed = epochs(fresh())
    stopped = fresh()
    for _ in range(done):
        if next(stopped, None) is None:
            stopped.reset()
            next(stopped)
    torch.save(stopped.state_dict(), tmp_path / "state.pt")

    resumed = fresh()
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    rest = epochs(resumed)[: len(undisturbed) - done]

    assert len(rest) > 5
    for mine, theirs in zip(rest, undisturbed[done:], strict=True):
        assert torch.equal(mine.source_seqs, theirs.source_seqs)
        assert mine.example == theirs.example


def test_another_number_of_processes_continues_with_the_rest_of_the_epoch(
    root: Path, tokenizer: Tokenizer
) -> None:
    whole = sizes(batches(reader(root, tokenizer, speed_factors=FACTORS)))
    one = reader(root, tokenizer, speed_factors=FACTORS)
    seen = sizes(next(one) + next(one))

    for rank in range(3):
        resumed = reader(root, tokenizer, rank=rank, world=3, speed_factors=FACTORS)
        resumed.load_state_dict(one.state_dict())
        mine = sizes(batches(resumed))
        assert not mine.keys() & seen.keys()
        seen |= mine

    assert seen == whole


def test_rows_that_are_carried_over_fit_their_batches_at_other_speeds(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    # Two short rows fit a batch at a speed of 1.1 only, so that some batches have two rows.
    rows = [utterance(n, audio_size=29_000 if n < 3 else 16_000) for n in range(7)]
    write_shard(tmp_path, rows)
    carried = 0
    for seed in range(8):
        source = reader(
            tmp_path,
            tokenizer,
            world=4,
            seed=seed,
            speed_factors=[0.9, 1.1],
            task_config=task(max_num_elements=33_000),
        )
        for _ in range(6):
            epoch = batches(source)
            assert all(batch.source_seqs.numel() <= 33_000 for batch in epoch)
            assert not {16_000, 29_000} & set(sizes(epoch).values())
            source.reset()
            carried += len(cast(list[Any], source.state_dict()["carried"])) > 1

    assert carried


@pytest.mark.parametrize("then", [[], FACTORS, [0.9, 1.1]])
def test_a_state_of_other_factors_is_refused(
    root: Path, tokenizer: Tokenizer, then: list[float]
) -> None:
    state = reader(root, tokenizer, speed_factors=then).state_dict()
    now = [] if then else FACTORS

    with pytest.raises(RunError, match=r"speed_factors: (absent|0\.9, .*) then, .* now"):
        reader(root, tokenizer, speed_factors=now).load_state_dict(state)


def test_without_factors_a_state_is_what_it_was_before_there_were_any(
    root: Path, tokenizer: Tokenizer
) -> None:
    fingerprint = reader(root, tokenizer).state_dict()["fingerprint"]

    assert isinstance(fingerprint, dict)
    assert list(fingerprint) == [
        *("utterances", "content", "seed", "batches", "shuffling", "repeats"),
        *("drop_remainder", "max_num_batches"),
    ]


def test_evaluation_hears_what_was_recorded(root: Path, tokenizer: Tokenizer) -> None:
    plain = reader(root, tokenizer, "test", training=False)
    asked = reader(root, tokenizer, "test", training=False, speed_factors=[1.1])

    assert plain.state_dict() == asked.state_dict()
    assert ids_of(asked) == ids_of(plain)
    plain.reset()
    asked.reset()
    for left, right in zip(batches(plain), batches(asked), strict=True):
        assert torch.equal(left.source_seqs, right.source_seqs)
        assert left.source_seq_lens == example(right, "audio_size")


@pytest.mark.parametrize(
    ("factors", "fault"),
    [
        ([0.4, 1.0], r"dataset\.speed_factors: expected factors from 0\.5 to 2, found 0\.4"),
        ([2.1], r"dataset\.speed_factors: expected factors from 0\.5 to 2, found 2\.1"),
        ([math.nan], r"expected factors from 0\.5 to 2, found nan"),
        ([math.inf], r"expected factors from 0\.5 to 2, found inf"),
        ([0.9, 1.0, 0.9], r"expected each factor once, found \[0\.9, 1\.0, 0\.9\]"),
        ([1 + n / 1000 for n in range(256)], r"expected at most 255 factors, found 256"),
    ],
)
def test_impossible_factors_are_refused(
    root: Path, tokenizer: Tokenizer, factors: list[float], fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        reader(root, tokenizer, speed_factors=factors)
