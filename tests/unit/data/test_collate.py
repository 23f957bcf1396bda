import io

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from danish_asr.recipe.data.audio import decode
from tests.shards import flac, waveform


def encode(sound: NDArray[np.float32], form: str, subtype: str | None) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, sound, 16_000, format=form, subtype=subtype)
    return file.getvalue()


@pytest.mark.parametrize(
    ("form", "subtype"),
    [("FLAC", "PCM_16"), ("FLAC", "PCM_24"), ("WAV", "PCM_16"), ("WAV", "FLOAT"), ("OGG", None)],
)
def test_a_waveform_is_what_libsndfile_makes_of_it(form: str, subtype: str | None) -> None:
    encoded = encode(waveform(12_345, 3), form, subtype)

    expected = soundfile.read(io.BytesIO(encoded), dtype="float32")[0]
    np.testing.assert_array_equal(decode(encoded, 12_345), expected)


def test_channels_are_averaged() -> None:
    left, right = waveform(9_000, 1), waveform(9_000, 2)

    mean = decode(encode(np.stack([left, right], axis=1), "FLAC", "PCM_24"), 9_000)

    np.testing.assert_allclose(mean, (left + right) / 2, atol=1e-6)


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (b"no audio", "cannot be decoded"),
        (flac(12_345, 3)[:10_000], "cannot be decoded"),
        (flac(12_344, 3), "audio_size is 12345, the audio has 12344 samples"),
        # Trains silently wrong upstream (TRAPS).
        (flac(12_345, 3, 48_000), "expected audio at 16000 Hz, found 48000 Hz"),
    ],
)
def test_unexpected_audio_is_refused(encoded: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(encoded, 12_345)
