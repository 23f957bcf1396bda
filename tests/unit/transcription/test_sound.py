import numpy as np
import pytest

from danish_asr.inference.sound import open_sound


@pytest.mark.parametrize("offset", [0.0, 0.3])
def test_channels_that_cancel_each_other_are_not_mixed_whatever_their_dc_offset(
    offset: float,
) -> None:
    wave = 0.2 * np.sin(np.arange(16_000) / 5).astype(np.float32)
    both = np.stack([wave, -wave], axis=1) + np.float32(offset)
    with open_sound(both, rate=16_000) as sound:
        (block,) = sound
    assert block[:, 0].std() == pytest.approx(wave.std(), abs=1e-3)
