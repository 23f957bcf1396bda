"""Where each sample of a file is heard, whatever its container, and what happened to it."""

from __future__ import annotations

import io
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from danish_asr.base.audio import decode
from danish_asr.base.decoders import decode_flac, open_audio
from danish_asr.base.errors import AudioError
from tests.builders import encode
from tests.cells import CELLS, ID3, MORE, REFUSED, Cell, check, plain, table
from tests.media import noise, recording


@table(CELLS)
def test_a_whole_file_is_heard_where_it_is_whatever_its_name(cell: Cell, tmp_path: Path) -> None:
    wave = noise(2, cell.rate)
    path = tmp_path / "10:30.wav"
    path.write_bytes(plain(cell))
    check(path, cell, wave, lag=cell.lag)


@table(CELLS)
def test_half_of_a_file_is_refused_if_its_header_says_more(cell: Cell) -> None:
    file = plain(cell)
    if cell.cut == REFUSED:
        with pytest.raises(AudioError):
            decode(file[: len(file) // 2])
        return
    heard, rate = decode(file[: len(file) // 2])
    assert 0.5 < len(heard) / rate < 1.5


@pytest.mark.parametrize("container", ["WAV", "RF64", "W64", "AU", "AIFF"])
@pytest.mark.parametrize("subtype", ["PCM_16", "FLOAT", "ULAW"])
def test_half_of_a_file_that_seeks_is_refused_and_its_parts_are_heard(
    container: str, subtype: str
) -> None:
    file = encode(noise(2, 16_000), 16_000, format=container, subtype=subtype)
    with pytest.raises(AudioError, match="truncated"):
        decode(file[: len(file) // 2])
    assert len(decode(file[: len(file) // 2], seconds=0.5)[0]) == 8_000
    assert len(decode(file[:-100])[0]) == pytest.approx(32_000, abs=100)


def eight_svx(*waves: NDArray[np.float32], wide: bool = False) -> bytes:
    """An 8SVX, or a 16SV; the channels are one behind the other (Amiga ROM Kernel Manual)."""
    kind, size = (b"16SV", ">i2") if wide else (b"8SVX", "i1")
    full = np.iinfo(size).max
    body = b"".join(np.rint(wave * full).astype(size).tobytes() for wave in waves)
    header = len(waves[0]).to_bytes(4) + bytes(8) + (16_000).to_bytes(2) + b"\1\0\0\1\0\0"
    stereo = (b"CHAN", (6).to_bytes(4)) if len(waves) == 2 else (b"ANNO", b"none")
    chunks = [(b"VHDR", header), stereo, (b"BODY", body)]
    content = kind + b"".join(name + len(data).to_bytes(4) + data for name, data in chunks)
    return b"FORM" + len(content).to_bytes(4) + content


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("channels", [1, 2])
def test_the_channels_of_8svx_are_heard_where_they_are(channels: int, *, wide: bool) -> None:
    waves = [noise(2, 16_000, seed) for seed in range(channels)]
    file = eight_svx(*waves, wide=wide)
    for number, wave in enumerate(waves, 1):
        np.testing.assert_allclose(decode(file, channel=number)[0], wave, atol=0.02)
    for damaged, reason in (
        (file + file, MORE),
        (file[: len(file) // 2], "truncated"),
        (file[:-8_000], "truncated"),
    ):
        with pytest.raises(AudioError, match=reason):
            decode(damaged)
    streamed = file[:4] + b"\x7f\xff\xff\xff" + file[8:]
    assert len(decode(streamed)[0]) == 32_000


@pytest.mark.parametrize("channels", [1, 2])
def test_a_flac_that_was_cut_out_of_another_has_its_own_seconds(channels: int) -> None:
    """Its frames keep their numbers and its header the length, as those of ``ffmpeg -c copy``."""
    wave = noise(4, 16_000)
    both = np.stack([wave] * channels, axis=1)
    file = encode(both, 16_000, format="FLAC", subtype="PCM_24")
    with av.open(io.BytesIO(file), "r") as container:
        frames = [bytes(packet) for packet in container.demux()]
    head, later = file[: file.index(frames[0])], 3 * 4_096
    cut = head + b"".join(frames[3:])
    short = encode(both[:1_600], 16_000, format="FLAC", subtype="PCM_24")
    for audio, before in ((cut, 0), (short + cut, 1_600)):
        heard, _ = decode(audio)
        expected = np.concatenate([wave[:before], wave[later:]])
        assert np.allclose(heard, expected, atol=1e-6)
    part, _ = decode(cut, start=1.5, seconds=0.5)
    assert np.allclose(part, wave[later + 24_000 :][: len(part)], atol=1e-6)
    with pytest.raises(AudioError, match="truncated"):
        decode(head + b"".join(frames[3:-3]))


@pytest.mark.parametrize("codec", ["MP3", "GSM610"])
def test_parts_of_a_wav_with_a_codec_that_does_not_seek_are_those_of_the_whole(codec: str) -> None:
    if codec == "MP3":
        file = recording("wav", "libmp3lame", (0, noise(6, 16_000)), rate=16_000)
    else:
        file = encode(noise(6, 16_000), 16_000, subtype=codec)
    whole, rate = decode(file)
    assert len(whole) / rate == pytest.approx(6, abs=0.2)
    for first in np.random.default_rng(1).integers(0, 5 * rate, 10):
        part, _ = decode(file, start=first / rate, seconds=0.5)
        assert np.allclose(part, whole[first : first + len(part)], atol=1e-4)
    with pytest.raises(AudioError, match="truncated"):
        decode(file[: len(file) // 2])


def test_sphere_is_read_and_its_compressed_form_refused_by_name() -> None:
    sphere = encode(noise(1, 16_000), 16_000, format="NIST", subtype="PCM_16")
    np.testing.assert_allclose(decode(sphere)[0], noise(1, 16_000), atol=1e-4)
    coding = b"sample_coding -s26 pcm,embedded-shorten-v2.00"
    with pytest.raises(AudioError, match="truncated"):
        decode(sphere[: len(sphere) // 2])
    with pytest.raises(AudioError, match="SPHERE"):
        decode(sphere.replace(b"sample_coding -s3 pcm", coding, 1))


def test_flac_behind_an_id3_tag_is_read() -> None:
    wave = noise(1, 16_000)
    heard, _ = decode(ID3 + encode(wave, 16_000, format="FLAC", subtype="PCM_16"))
    np.testing.assert_allclose(heard, wave, atol=1e-4)


def test_amr_is_decoded() -> None:
    # 25 frames of 12.2 kbit/s
    mono, rate = decode(b"#!AMR\n" + (b"\x3c" + bytes(31)) * 25)
    assert (rate, len(mono)) == (8_000, 25 * 160)


def test_a_file_with_a_damaged_beginning_is_decoded_by_its_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """libsndfile prints an error, and decodes 1.7 s."""
    file = encode(noise(6, 16_000), 16_000, format="MP3")
    (tmp_path / "a.mp3").write_bytes(bytes(500) + file[500:])
    wave, rate = decode(tmp_path / "a.mp3")
    assert len(wave) / rate == pytest.approx(6, abs=0.3)
    (tmp_path / "b.mp3").write_bytes(b"<html>" * 500)
    with pytest.raises(AudioError, match="undecodable audio"):
        decode(tmp_path / "b.mp3")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("container", ["AU", "W64", "NIST", "CAF", "VOC", "AIFF", "RF64"])
@pytest.mark.parametrize("seconds", [0.5, 4])
def test_a_file_of_libsndfile_behind_another_is_refused(container: str, seconds: float) -> None:
    first = encode(noise(2, 16_000), 16_000, format=container, subtype="PCM_16")
    second = encode(noise(seconds, 16_000), 16_000, format=container, subtype="PCM_16")
    with pytest.raises(AudioError, match=MORE):
        decode(first + second)


@pytest.mark.parametrize("container", ["WAV", "RF64", "AU", "NIST", "CAF", "VOC", "AIFF", "SVX"])
@pytest.mark.parametrize("tail", [b"TAG" + bytes(125), bytes(1_000)], ids=["tag", "padding"])
def test_a_tag_or_padding_behind_a_file_of_libsndfile_is_no_sound(
    container: str, tail: bytes
) -> None:
    wave = noise(2, 16_000)
    subtype = "PCM_S8" if container == "SVX" else "PCM_16"
    heard, _ = decode(encode(wave, 16_000, format=container, subtype=subtype) + tail)
    assert np.allclose(heard[:32_000], wave, atol=0.02)
    assert len(heard) <= 32_000 + len(tail) * (container == "NIST") // 2


def test_a_w64_that_was_written_into_a_pipe_is_heard() -> None:
    """SoX writes the header, without a length, two times; the second one is 6.5 ms of sound."""
    file = encode(noise(2, 16_000), 16_000, format="W64", subtype="PCM_16")
    data = file.index(b"data") + 16
    header = file[:16] + bytes(8) + file[24:data] + (24).to_bytes(8, "little")
    heard, _ = decode(header + header + file[data + 8 :])
    assert np.allclose(heard[-32_000:], noise(2, 16_000), atol=1e-4)
    assert len(heard) <= 32_000 + 104


def test_the_length_of_an_au_may_be_unknown_and_too_small_is_refused() -> None:
    file = encode(noise(2, 16_000), 16_000, format="AU", subtype="PCM_16")
    assert len(decode(file[:8] + b"\xff\xff\xff\xff" + file[12:])[0]) == 32_000
    with pytest.raises(AudioError, match=MORE):
        decode(file[:8] + (32_000).to_bytes(4) + file[12:])


def test_a_file_that_seeks_is_read_anywhere_and_closed_after_a_failure() -> None:
    wave = noise(1, 16_000)
    file = open_audio(encode(wave, 16_000, format="WAV", subtype="FLOAT"))
    for first, count in ((500, 100), (100, 300), (400, 10), (15_990, 100), (0, 16_000)):
        samples = file.read(first, count)
        assert samples.dtype == np.float32
        assert np.array_equal(samples[:, 0], wave[first : first + count])
    with pytest.raises(AudioError, match="undecodable"):
        file.read(1_000_000, 1)
    assert file.closed


def test_a_flac_of_one_channel_is_decoded_whole_or_left_to_others() -> None:
    wave = noise(1, 16_000)
    file = encode(wave, 16_000, format="FLAC", subtype="PCM_24")
    for out in (None, np.empty(16_000, np.float32), np.empty(1, np.float32)):
        decoded = decode_flac(file, out=out)
        assert decoded is not None
        assert decoded[1] == 16_000
        assert np.allclose(decoded[0], wave, atol=1e-6)
        assert (decoded[0] is out) == (out is not None and len(out) == 16_000)
    stereo = encode(np.stack([wave, wave], axis=1), 16_000, format="FLAC", subtype="PCM_24")
    streamed = file[:21] + bytes([file[21] & 0xF0]) + bytes(4) + file[26:]  # without a length
    for other in (b"", b"RIFF", file[:60], file[:-500], stereo, file + file, streamed):
        assert decode_flac(other) is None
    assert decode_flac(file, max_seconds=0.9) is None
    assert decode_flac(file, max_seconds=1) is not None
