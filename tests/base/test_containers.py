"""Files that were joined are heard to their end or refused, and nothing else is taken for them."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from danish_asr.base.audio import Recording, decode
from danish_asr.base.containers import (
    begins_late,
    behind_tag,
    has_no_end,
    head_of,
    is_half_a_frame,
    joints,
    missing_share,
    stated_in_mp3,
)
from danish_asr.base.errors import AudioError
from tests.builders import encode
from tests.cells import CELLS, ID3, MORE, Cell, check, plain, table
from tests.media import lags, noise, recording, several_streams


@table(CELLS)
def test_two_files_that_were_joined_are_heard_to_the_end_or_refused(cell: Cell) -> None:
    first, second = noise(2, cell.rate), noise(2, cell.rate, 2)
    joined = plain(cell) + plain(cell, 2)
    if isinstance(cell.joined, str):
        with pytest.raises(AudioError, match=cell.joined):
            decode(joined)
    else:
        check(joined, cell, first, second, lag=cell.joined)


UNTAGGED = {"wv": "its own tag is at the end", "ac3": "all bytes are of frames"}


@table(c for c in CELLS if c.container not in UNTAGGED)
def test_a_tag_behind_a_file_is_no_more_audio(cell: Cell) -> None:
    check(plain(cell) + b"TAG" + bytes(125), cell, noise(2, cell.rate), lag=cell.lag)


@pytest.mark.parametrize(
    ("container", "codec", "late"),
    [("matroska", "flac", 1.5), ("flv", "pcm_s16le", 1.5), ("avi", "pcm_s16le", 0)],
)
def test_joined_files_with_other_streams_and_rates_keep_their_clocks(
    container: str, codec: str, late: float
) -> None:
    """FFmpeg would read the second one with the tracks, the codec and the rate of the first."""
    waves = [noise(2, 44_100, seed) for seed in range(3)]
    film = recording(container, codec, (late, waves[0]), rate=44_100, picture=True)
    sound = recording(container, codec, (0, waves[1]), rate=44_100)
    low = recording(container, codec, (0, noise(2, 22_050, 2)), rate=22_050)
    silence = np.zeros(round(late * 44_100), np.float32)
    for joined, expected in (
        (film + sound + low, [silence, waves[0], waves[1], waves[2]]),
        (sound + film + low, [waves[1], silence, waves[0], waves[2]]),
    ):
        heard, rate = decode(joined)
        found = lags(heard, np.concatenate(expected), rate)
        assert len(heard) / rate == pytest.approx(6 + late, abs=0.05)
        assert max(map(abs, found)) <= 0.01 * rate


@pytest.mark.parametrize("container", ["matroska", "flv"])
def test_half_of_a_file_behind_another_is_refused(container: str) -> None:
    file = recording(container, "aac", (0, noise(2, 44_100)), rate=44_100)
    with pytest.raises(AudioError, match=r"truncated|undecodable"):
        decode(file + file[: len(file) // 2])


def test_a_joined_webm_may_have_other_codecs() -> None:
    first, second = noise(2, 48_000), noise(2, 48_000, 2)
    opus = recording("matroska", "libopus", (0, first), rate=48_000)
    flac = recording("matroska", "flac", (0, second), rate=48_000)
    cell = Cell("matroska", "both", 48_000, 1)
    check(opus + flac, cell, first, second, lag=1)
    check(flac + opus, cell, second, first, lag=1)


@pytest.mark.parametrize("tag", [b"", ID3])
@pytest.mark.parametrize("lengths", [(6_000, 6_345, 500), (16_000, 100), (8_192, 5_000)])
def test_flacs_of_any_length_that_were_joined_have_all_their_samples(
    tmp_path: Path, lengths: tuple[int, ...], tag: bytes
) -> None:
    """The blocks of other encoders than FFmpeg's are lost before a joint unless it is opened."""
    parts = [noise(length / 16_000, 16_000, length) for length in lengths]
    file = b"".join(tag + encode(part, 16_000, format="FLAC", subtype="PCM_24") for part in parts)
    path = tmp_path / "joined.flac"
    path.write_bytes(file)
    for audio in (file, path):
        heard, _ = decode(audio)
        assert np.allclose(heard, np.concatenate(parts), atol=1e-6)
    later = lengths[0] + 50
    with Recording(path) as opened:
        for start in (later, 0, later):
            heard, _ = opened.part(start / 16_000, 40 / 16_000)
            assert np.allclose(heard, np.concatenate(parts)[start : start + 40], atol=1e-6)
    slower = encode(noise(1, 8_000), 8_000, format="FLAC", subtype="PCM_24")
    assert len(decode(file + slower)[0]) == pytest.approx(sum(lengths) + 16_000, abs=20)


@pytest.mark.parametrize("subtype", ["FLAC", "VORBIS"])
@pytest.mark.parametrize("rates", [(8_000, 16_000), (16_000, 22_050)])
def test_oggs_with_two_rates_that_were_joined_have_all_their_samples(
    subtype: str, rates: tuple[int, int]
) -> None:
    """A decoder of the first one would leave out the longer frames of the second in silence."""
    joined = b"".join(
        recording("ogg", "flac", (0, noise(2, rate, seed)), rate=rate)
        if subtype == "FLAC"
        else encode(noise(2, rate, seed), rate, format="OGG", subtype=subtype)
        for seed, rate in enumerate(rates, 1)
    )
    heard, rate = decode(joined)
    assert rate == rates[0]
    assert len(heard) == pytest.approx(4 * rate, abs=0.02 * rate)
    expected = np.concatenate([noise(2, rate), noise(2, rate, 2)])
    assert max(map(abs, lags(heard, expected, rate))) <= 0.01 * rate


def test_the_streams_of_one_ogg_are_no_oggs_that_were_joined() -> None:
    heard, _ = decode(several_streams("ogg", 2))
    assert np.allclose(heard, noise(2, 16_000), atol=1e-4)


def test_amrs_that_were_joined_are_heard_to_the_end() -> None:
    file, rest = (
        recording("amr", "libopencore_amrnb", (0, noise(2, 8_000, seed)), rate=8_000)
        for seed in (1, 2)
    )
    heard, rate = decode(file + rest)
    found = lags(heard, np.concatenate([noise(2, 8_000), noise(2, 8_000, 2)]), rate)
    assert len(heard) / rate == pytest.approx(4, abs=0.05)
    assert max(map(abs, found)) <= 0.03 * rate


def box(kind: bytes, content: bytes = b"", *, wide: bool = False) -> bytes:
    size = len(content) + 8
    return (
        b"\0\0\0\1" + kind + (size + 8).to_bytes(8) if wide else size.to_bytes(4) + kind
    ) + content


def fragment(time: int, version: int = 1) -> bytes:
    clock = box(b"tfdt", bytes([version, 0, 0, 0]) + time.to_bytes(8 if version else 4) + b"trun")
    return box(b"sidx") + box(b"moof", box(b"traf", clock)) + box(b"mdat", bytes(50))


START, MOOV, MDAT = box(b"ftyp", b"isom"), box(b"moov", b"mvhd"), box(b"mdat", b"moov" * 50)
FREE = box(b"free", MOOV) + box(b"skip", MOOV)


@pytest.mark.parametrize(
    ("file", "is_joined"),
    [
        (START + MOOV + MDAT, False),
        (START + MDAT + FREE + MOOV + FREE, False),
        (START + box(b"mdat", START + MOOV + MDAT, wide=True) + MOOV, False),  # as OBS writes it
        (box(b"wide") + MDAT + MOOV, False),  # QuickTime
        (START + MOOV + MDAT + MDAT + box(b"uuid", MOOV) + bytes(5_000), False),
        (START + MDAT + MOOV + MOOV, False),  # the same table twice
        (START + MDAT + MOOV + b"TAG" + bytes(125), False),
        (START + MDAT + MOOV[:-2], False),
        (START + MOOV + b"\0\0\0\0mdat" + START + MOOV + MDAT, False),  # to the end
        (START + MOOV + fragment(0) + fragment(9), False),
        (START + MOOV + fragment(0) + START + MOOV + fragment(9), False),
        (START + MOOV + fragment(3, 0) + MOOV + fragment(9, 0), False),
        ((START + MOOV + MDAT) * 2, True),
        ((START + MDAT + FREE + MOOV) * 2, True),
        ((START + box(b"mdat", bytes(9), wide=True) + MOOV) * 2, True),
        ((box(b"wide") + MDAT + MOOV) * 2, True),
        ((START + MOOV + fragment(0) + fragment(9)) * 2, True),
        ((START + MOOV + fragment(3, 0) + fragment(9, 0)) * 2, True),
        (START + MOOV + fragment(0) + fragment(9) + START + MOOV + MDAT, True),
    ],
)
def test_an_mp4_is_joined_if_it_has_two_tables_of_two_sounds(
    tmp_path: Path, file: bytes, *, is_joined: bool
) -> None:
    (tmp_path / "a.mp4").write_bytes(file)
    for audio in (file, tmp_path / "a.mp4"):
        if is_joined:
            with pytest.raises(AudioError, match=MORE):
                joints(audio, file[:1_024])
        else:
            assert joints(audio, file[:1_024]) == []


FORMS = {
    "end": "write_colr",
    "parts": "frag_keyframe+empty_moov",
    "dash": "dash",
}


@pytest.mark.parametrize("form", FORMS)
def test_an_mp4_of_any_form_is_heard_and_refused_if_another_one_is_behind(form: str) -> None:
    options = {"movflags": FORMS[form], "strict": "-2"}
    if form != "end":
        options["frag_duration"] = "500000"
    file = recording("mp4", "flac", (0, noise(3, 16_000)), rate=16_000, options=options)
    assert (b"moof" in file) == (form != "end")
    for tail in (b"", box(b"free", bytes(9_000)), box(b"udta", MOOV), b"TAG" + bytes(125)):
        heard, _ = decode(file + tail)
        assert np.allclose(heard, noise(3, 16_000), atol=1e-4)
    for count in (2, 3):
        with pytest.raises(AudioError, match=MORE):
            decode(count * file)


@pytest.mark.parametrize(
    ("head", "is_refused"),
    [
        (b"#!AMR\n", False),
        (b"#!AMR-WB\n", False),
        (b"fLaC\0\0\0\x22", False),
        (b"OggS\0\x02\0\0", False),
        (b"RIFF\1\2\3\4AVI LIST", False),
        (b"FLV\1\5\0\0\0\x09\0\0\0\0", False),
        (bytes.fromhex("1a45dfa3a3428681014282886d6174726f736b61"), False),
        (bytes.fromhex("1a45dfa39f4286810142f7810142f2810442f381084282847765626d"), False),
        (b"caff\0\1\0\0desc", True),
        (bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c"), True),
        (bytes.fromhex("b7d800203749da11a64e0007e95ead8d"), True),
        (b"TTA1\1\0\2\0\x10\0\x44\xac\0\0", True),
        (b"Creative Voice File\x1a", True),
        (b"NIST_1A\n   1024\n", True),
    ],
)
@pytest.mark.parametrize("before", [-40, -3, 0, 5])
def test_a_second_file_is_found_wherever_blocks_that_are_read_end(
    head: bytes, before: int, *, is_refused: bool
) -> None:
    one = head + bytes((1 << 20) - before - len(head))
    kind = one[:1_024]
    assert joints(one, kind) == joints(one + head[:-1], kind) == []
    if is_refused:
        with pytest.raises(AudioError, match=MORE):
            joints(one + head, kind)
    else:
        assert joints(one + head, kind) == [0, len(one)]
        assert joints(one + one + head, kind) == [0, len(one), 2 * len(one)]


BIT_RATES = {
    44_100: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    16_000: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""In kbit/s, that MP3 has at a rate."""


@pytest.mark.parametrize("rate", BIT_RATES)
def test_the_length_of_a_frame_of_mp3_is_known_at_any_bit_rate(rate: int) -> None:
    for kbits in BIT_RATES[rate]:
        encoder: Any = av.CodecContext.create("libmp3lame", "w")
        encoder.sample_rate, encoder.layout, encoder.format = rate, "mono", "fltp"
        encoder.bit_rate = 1_000 * kbits
        frame = av.AudioFrame.from_ndarray(noise(0.4, rate)[None], "fltp", "mono")
        frame.sample_rate = rate
        resampler = av.AudioResampler("fltp", "mono", rate, frame_size=1_152)
        packets = [bytes(own) for part in resampler.resample(frame) for own in encoder.encode(part)]
        assert len(packets) > 3
        assert {packet[2] >> 4 for packet in packets} == {BIT_RATES[rate].index(kbits) + 1}
        for packet in packets:
            assert not is_half_a_frame(packet, rate)
            assert is_half_a_frame(packet[:-1], rate)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_an_ogg_has_an_end_unless_any_of_its_last_page_is_missing(subtype: str) -> None:
    file = encode(noise(3, 16_000), 16_000, format="OGG", subtype=subtype)
    page = len(file) - file.rindex(b"OggS")
    assert not has_no_end(io.BytesIO(file))
    for cut in (*range(1, 60), *range(60, page, 50), page, page + 1, len(file) - 10):
        assert has_no_end(io.BytesIO(file[:-cut])), cut


def test_a_file_that_is_not_there_or_is_empty_or_a_folder_is_no_audio(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name, reason in (("none", "missing"), (".", "missing"), ("empty", "empty")):
        with pytest.raises(AudioError, match=reason):
            head_of(tmp_path / name)


def with_size(kind: bytes, size: int) -> bytes:
    """How a FORM or a RIFF begins that has so many bytes in all."""
    order: Any = "big" if kind == b"FORM" else "little"
    return kind + (size - 8).to_bytes(4, order) + bytes(92)


@pytest.mark.parametrize("kind", [b"FORM", b"RIFF"])
def test_what_is_missing_of_a_file_is_a_share_of_what_is_there(kind: bytes) -> None:
    streamed = 0x7F00_0000  # from here on it is no length
    for size, share in ((100, 0), (50, 0), (150, 0.5), (1_000, 9), (streamed, 0)):
        assert missing_share(io.BytesIO(with_size(kind, size))) == share, size
    assert missing_share(io.BytesIO(with_size(kind, streamed - 100))) > 1e7


def test_what_is_missing_of_an_asf_is_behind_its_header() -> None:
    """Its objects have a name of 16 bytes and their size in 8."""
    header = bytes(16) + (40).to_bytes(8, "little") + bytes(16)
    for size, share in ((60, 0.0), (59, 0.0), (160, 1.0)):
        samples = bytes(16) + size.to_bytes(8, "little") + bytes(36)
        assert missing_share(io.BytesIO(header + samples)) == share
    assert missing_share(io.BytesIO(header[:30])) == 0


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 20_000, 3_000_000])
def test_a_tag_of_any_size_is_passed(size: int) -> None:
    """Seven bits of each byte count (ID3v2.4, section 6.2)."""
    sevens = bytes(size >> 7 * place & 0x7F for place in (3, 2, 1, 0))
    file = io.BytesIO(b"ID3\4\0\0" + sevens + bytes(size) + b"fLaC")
    assert file.getvalue()[behind_tag(file) :] == b"fLaC"
    assert behind_tag(io.BytesIO(b"ID4" + file.getvalue()[3:])) == 0


def test_a_flac_begins_late_if_its_first_frame_has_another_number_than_0() -> None:
    file = encode(noise(2, 16_000), 16_000, format="FLAC", subtype="PCM_16")
    padding = b"\1" + (1_000).to_bytes(3) + bytes(1_000)  # a block that is not the last one
    for whole in (file, file[:42] + padding + file[42:]):
        frames = [match.start() for match in re.finditer(rb"\xff\xf8", whole)]
        assert not begins_late(whole)
        assert begins_late(whole[: frames[0]] + whole[frames[1] :])


@pytest.mark.parametrize("rate", BIT_RATES)
def test_the_seconds_in_the_header_of_an_mp3_are_those_that_are_heard(rate: int) -> None:
    file = encode(noise(5, rate), rate, format="MP3")
    for audio in (file, ID3 + file):
        assert stated_in_mp3(io.BytesIO(audio), rate) == pytest.approx(5, abs=0.1)
        assert stated_in_mp3(io.BytesIO(audio), rate) <= 5
    untagged = file[file.index(file[:2], 100) :]
    assert stated_in_mp3(io.BytesIO(untagged), rate) == 0
