from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from danish_asr.audio import decode
from danish_asr.mp3 import is_mp3, with_all_frames
from tests.builders import tone

RATES = (8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000)
SECONDS = 6.0


def mp3(rate: int, *, mode: str = "VARIABLE", channels: int = 1, loud_first: bool = True) -> bytes:
    """An MP3 of 2 s of noise and 4 s of silence, or the other way round."""
    count = round(SECONDS * rate)
    wave = np.random.default_rng(1).standard_normal((count, channels)) * 0.2
    wave[count // 3 :] = 0
    file = io.BytesIO()
    with soundfile.SoundFile(
        file, "w", rate, channels, format="MP3", bitrate_mode=mode, compression_level=0.3
    ) as sound:
        sound.write(wave if loud_first else wave[::-1])
    return file.getvalue()


def without_tag(data: bytes) -> bytes:
    """The file without its first frame, which holds the tag alone."""
    return data[data.index(data[:2], 100) :]


def seconds(data: bytes) -> float:
    wave, rate = decode(data)
    return len(wave) / rate


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("mode", ["VARIABLE", "AVERAGE", "CONSTANT"])
@pytest.mark.parametrize("loud_first", [True, False])
def test_all_audio_of_an_mp3_without_a_tag_is_decoded(
    rate: int, channels: int, mode: str, loud_first: bool
) -> None:
    data = without_tag(mp3(rate, mode=mode, channels=channels, loud_first=loud_first))
    assert b"Xing" not in data
    assert seconds(data) == pytest.approx(SECONDS, abs=0.3)


def test_libsndfile_alone_loses_audio_without_a_word() -> None:
    """The symptom. When it is gone, `danish_asr.mp3` can go."""
    sound, rate = soundfile.read(io.BytesIO(without_tag(mp3(48_000))))
    assert len(sound) / rate < SECONDS / 2


def test_joined_files_are_decoded_to_their_end() -> None:
    data = mp3(48_000)
    assert seconds(data * 3) == pytest.approx(3 * SECONDS, abs=0.5)


def test_tags_of_other_kinds_around_the_audio_are_stepped_over() -> None:
    data = without_tag(mp3(44_100))
    id3 = b"ID3\x04\0\0" + bytes([0, 0, 2, 0]) + b"\xff\xfb\x90\x64" * 64
    around = id3 + data[:5000] + b"\xff\xe2junk" * 30 + data[5000:] + b"TAG".ljust(128, b"\xff")
    assert seconds(around) == pytest.approx(SECONDS, abs=0.3)


@pytest.mark.parametrize("mode", ["VARIABLE", "CONSTANT"])
def test_a_file_that_tells_its_length_is_left_as_it_is(mode: str) -> None:
    data = mp3(48_000, mode=mode)
    assert with_all_frames(data) is data
    assert with_all_frames(data[: len(data) // 2]) == data[: len(data) // 2]
    assert seconds(data) == pytest.approx(SECONDS, abs=1e-3)


@pytest.mark.parametrize("container", ["WAV", "FLAC", "OGG"])
def test_other_formats_are_no_mp3(container: str) -> None:
    audio = tone(0.2, format=container)
    assert not is_mp3(audio[:3])
    assert with_all_frames(audio) is audio


@pytest.mark.parametrize("data", [b"", b"ID3", b"\xff\xfb", b"\xff" * 5000, b"ID3" + b"\xff" * 40])
def test_what_only_begins_like_an_mp3_is_left_as_it_is(data: bytes) -> None:
    assert with_all_frames(data) is data
