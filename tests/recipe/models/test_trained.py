"""The forward pass: what a batch may not change, and how much audio a pass has."""

from math import inf
from typing import Any

import numpy as np
import pytest
import torch
from fairseq2.models.wav2vec2.asr import create_wav2vec2_asr_model
from fairseq2.nn import BatchLayout
from torch import Tensor

from danish_asr.base.errors import RunError, TranscriptionError
from danish_asr.base.schema import SAMPLE_RATE as RATE
from danish_asr.inference.model import Model
from danish_asr.recipe.extension import tiny
from danish_asr.recipe.models.trained import TrainedModel


def test_the_result_of_a_waveform_does_not_depend_on_its_batch(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "_one_by_one", False)  # as on a GPU
    rng = np.random.default_rng(0)
    sizes = (48_000, 160, 80_077, 0, 400, 31_999)
    waveforms = [rng.normal(size=size).astype(np.float32) for size in sizes]
    together = model.log_probs(waveforms, batch_seconds=100)
    for waveform, row in zip(waveforms, together, strict=True):
        (alone,) = model.log_probs([waveform])
        assert row.shape == alone.shape
        assert len(row) == max(model.frames(len(waveform)), min(len(waveform), 1))
        assert torch.allclose(row, alone, atol=1e-4)
        assert torch.allclose(row.exp().sum(dim=1), torch.ones(len(row)), atol=1e-4)


def test_too_little_memory_of_a_gpu_halves_the_passes_once_and_is_explained(
    model: Model, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    most, sizes = 20, list[int]()

    def forward(waveforms: list[Any]) -> list[Tensor]:
        sizes.append(len(waveforms))
        if len(waveforms) > most:
            raise torch.OutOfMemoryError
        return [torch.zeros(1, 1)] * len(waveforms)

    monkeypatch.setattr(model, "_forward", forward)
    monkeypatch.setattr(model, "_most_seconds", inf)
    monkeypatch.setattr(model, "_one_by_one", False)  # as on a GPU
    seconds = [np.zeros(RATE, np.float32)] * 30
    for _ in range(2):
        assert len(model.log_probs(seconds)) == 30
    assert sizes == [30, 15, 15, 15, 15]
    assert "--batch-seconds 30" in capfd.readouterr().err
    most = 5
    with pytest.raises(RunError, match="--batch-seconds 15"):
        model.log_probs(seconds)


@pytest.fixture(scope="module")
def plain() -> TrainedModel:
    """A model that takes waveforms as they are, in batches of a multiple of 1,000 samples."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        module = create_wav2vec2_asr_model(tiny())
    return TrainedModel(module, tiny(), normalize_audio=False, amp_dtype="float16", step=1_000)


def test_rows_are_padded_to_a_frame_and_the_batch_to_its_step(plain: TrainedModel) -> None:
    waves = [np.full(5, 3.0, np.float32), np.full(1_001, -2.0, np.float32)]
    seqs, lengths = plain._padded(waves)
    assert (seqs.shape, lengths) == ((2, 2_000), [905, 1_001])
    assert seqs.sum(dim=1).tolist() == [15, -2_002]
    plain.normalizes = True
    seqs, _ = plain._padded([np.array([1, 3], np.float32)])
    plain.normalizes = False
    assert seqs[0, :3].tolist() == pytest.approx([-1, 1, 0], abs=1e-4)


def test_a_pass_has_as_much_audio_as_is_wanted_and_similar_lengths_together(
    plain: TrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[list[int]] = []

    def forward(waveforms: list[Any]) -> list[Tensor]:
        passes.append([len(wave) for wave in waveforms])
        return [torch.full((1, 1), float(len(wave))) for wave in waveforms]

    monkeypatch.setattr(plain, "_forward", forward)
    sizes = [RATE, 3 * RATE, 0, RATE, 2 * RATE, 9 * RATE]
    rows = plain.log_probs([np.zeros(n, np.float32) for n in sizes], batch_seconds=4)
    assert passes == [[n * RATE for n in seconds] for seconds in ([9], [3], [2, 1], [1])]
    assert [int(row[0, 0]) if len(row) else 0 for row in rows] == sizes
    assert (plain.seconds_of_batch(None), plain.seconds_of_batch(7)) == (30, 7)
    for wrong in (0, -1):
        with pytest.raises(TranscriptionError, match="batch_seconds"):
            plain.seconds_of_batch(wrong)
    with pytest.raises(TranscriptionError, match=r"\[waveform\]"):
        plain.log_probs(np.zeros(100, np.float32))  # type: ignore[arg-type]


def test_a_model_does_not_learn_and_computes_in_float32_on_a_cpu(plain: TrainedModel) -> None:
    assert not plain.module.training
    assert not any(parameter.requires_grad for parameter in plain.module.parameters())
    waves = torch.sin(torch.arange(1_000.0))[None]
    logits, _ = plain.module(waves, BatchLayout.of(waves, [1_000]))
    (row,) = plain.log_probs([waves[0].numpy()])
    assert (row.shape, row.dtype) == ((1, tiny().target_vocab_size), torch.float32)
    assert torch.allclose(row, logits[0].log_softmax(dim=1), atol=1e-5)
