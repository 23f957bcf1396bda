from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from danish_asr.base.audio import AudioError, decode

SECONDS = 6.0


def mp3(rate: int, *, channels: int = 1, mode: str = "VARIABLE") -> bytes:
    """An MP3 of 2 s of noise and 4 s of silence."""
    wave = np.random.default_rng(1).standard_normal((round(SECONDS * rate), channels)) * 0.2
    wave[len(wave) // 3 :] = 0
    file = io.BytesIO()
    soundfile.write(file, wave, rate, format="MP3", bitrate_mode=mode, compression_level=0.3)
    return file.getvalue()


def without_tag(data: bytes) -> bytes:
    """The file without its first frame, which holds only the length tag."""
    return data[data.index(data[:2], 100) :]


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
@pytest.mark.parametrize("mode", ["VARIABLE", "CONSTANT"])
def test_an_mp3_without_a_length_tag_is_decoded_to_its_end(
    rate: int, channels: int, mode: str
) -> None:
    wave, found = decode(without_tag(mp3(rate, channels=channels, mode=mode)))
    assert found == rate
    assert len(wave) / rate == pytest.approx(SECONDS, abs=0.3)


def test_a_tagged_mp3_has_libsndfiles_samples_within_one_step_of_16_bits() -> None:
    data = mp3(48_000)
    expected, _ = soundfile.read(io.BytesIO(data), dtype="float32")
    wave, _ = decode(data)
    assert wave == pytest.approx(expected, abs=2 / 32768)
    part, _ = decode(data, start=1.0, seconds=0.5)
    assert part == pytest.approx(expected[48_000:72_000], abs=2 / 32768)


def test_a_file_with_a_damaged_beginning_is_decoded_by_its_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """libsndfile prints an error, and decodes 1.7 s."""
    (tmp_path / "a.mp3").write_bytes(bytes(500) + mp3(16_000)[500:])
    wave, rate = decode(tmp_path / "a.mp3")
    assert len(wave) / rate == pytest.approx(SECONDS, abs=0.3)
    (tmp_path / "b.mp3").write_bytes(b"<html>" * 500)
    with pytest.raises(AudioError, match="undecodable audio"):
        decode(tmp_path / "b.mp3")
    assert capfd.readouterr().err == ""
