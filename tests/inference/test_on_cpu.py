from pathlib import Path

import numpy as np
import torch
from fairseq2.models.wav2vec2.asr import create_wav2vec2_asr_model
from fairseq2.nn import BatchLayout
from numpy.typing import NDArray

from danish_asr.inference.model import Model, load_model
from danish_asr.inference.on_cpu import prepare_for_cpu
from danish_asr.recipe.extension import tiny


def test_the_forward_pass_of_a_cpu_gives_the_same_as_that_of_fairseq2() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        module = create_wav2vec2_asr_model(tiny()).eval()
        waveforms = torch.randn(2, 30_000)
    layout = BatchLayout.of(waveforms, [30_000, 11_111])
    with torch.inference_mode():
        expected, _ = module(waveforms, layout)
        names = module.state_dict().keys()
        prepare_for_cpu(module, int8=False)
        computed, _ = module(waveforms, layout)
    assert torch.allclose(computed, expected, atol=1e-4)
    assert module.state_dict().keys() == names


def test_a_model_in_int8_hears_nearly_the_same_whatever_else_is_in_the_batch(
    model: Model, model_directory: Path, speech: NDArray[np.float32]
) -> None:
    int8 = load_model(model_directory, device="cpu", int8=True)
    waveforms = [speech, speech[:32_000], speech[::-1]]
    expected, rounded = model.log_probs(waveforms), int8.log_probs(waveforms)
    best = [log_probs.argmax(dim=-1) for log_probs in expected]
    for right, log_probs, waveform in zip(best, rounded, waveforms, strict=True):
        assert (log_probs.argmax(dim=-1) == right).float().mean() > 0.9
        assert torch.equal(log_probs, int8.log_probs([waveform])[0])
    assert not torch.equal(expected[0], rounded[0])
    assert (int8.about["int8"], "int8" in model.about) == (True, False)
