"""What FFmpeg decodes stands where its container says: late starts, gaps, parts, changes, ends."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from danish_asr.base.audio import Recording, decode
from danish_asr.base.errors import AudioError
from danish_asr.base.ffmpeg import ForwardDecoder
from tests.builders import encode
from tests.cells import CELLS, REFUSED, Cell, check, made, table
from tests.media import lags, noise, openings, recording, several_streams


@table(c for c in CELLS if not c.late)
def test_a_late_start_is_silence_and_a_quarter_of_the_film_is_refused(cell: Cell) -> None:
    wave, silence = noise(2, cell.rate), np.zeros(3 * cell.rate // 2, np.float32)
    film = made(cell, (1.5, wave), picture=True)
    check(film, cell, silence, wave, lag=1)
    if cell.cut == REFUSED:
        with pytest.raises(AudioError):
            decode(film[: len(film) // 4])


@table(c for c in CELLS if not c.gap)
def test_a_gap_is_silence_and_counted_in_the_part_that_has_it(cell: Cell, tmp_path: Path) -> None:
    first, second = noise(2, cell.rate), noise(2, cell.rate, 2)
    silence = np.zeros(3 * cell.rate // 2, np.float32)
    file = tmp_path / "gap"
    file.write_bytes(made(cell, (0, first), (3.5, second)))
    check(file, cell, first, silence, second, lag=cell.lag)
    with Recording(file) as opened:
        seconds = []
        for start, length in ((0, 1), (1, 1.5), (3, 2), (4, 1), (0, 5)):
            opened.part(start, length)
            seconds.append(opened.filled)
    assert seconds == pytest.approx([0, 0.5, 0.5, 0, 1.5], abs=0.06)


def test_a_gap_of_more_than_a_minute_refuses_the_file() -> None:
    pieces = (0, noise(1, 16_000)), (62.5, noise(1, 16_000))
    with pytest.raises(AudioError, match="60 s"):
        decode(recording("matroska", "flac", *pieces, rate=16_000))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_of_several_audio_streams_the_first_is_read_and_they_are_counted(count: int) -> None:
    file = several_streams("matroska", count)
    with Recording(file) as opened:
        heard, _ = opened.part()
        assert np.allclose(heard, noise(2, 16_000), atol=1e-4)
        assert opened.streams == count


@pytest.mark.parametrize(
    ("container", "codec", "rates", "layouts"),
    [
        ("adts", "aac", (44_100, 22_050), ("mono", "mono")),
        ("mp3", "libmp3lame", (22_050, 44_100), ("mono", "mono")),
        ("adts", "aac", (44_100, 44_100), ("mono", "stereo")),
        ("adts", "aac", (44_100, 44_100), ("stereo", "mono")),
        ("ac3", "ac3", (48_000, 48_000), ("stereo", "5.1")),
    ],
)
def test_a_change_of_rate_or_channels_is_brought_to_the_first_of_them(
    container: str, codec: str, rates: tuple[int, int], layouts: tuple[str, str]
) -> None:
    pieces = [noise(2, rates[0]), noise(2, rates[0], 2)]
    own = [noise(2, rates[0]), noise(2, rates[1], 2)]
    joined = b"".join(
        recording(container, codec, (0, wave), rate=rate, layout=layout)
        for wave, rate, layout in zip(own, rates, layouts, strict=True)
    )
    heard, rate = decode(joined)
    assert rate == rates[0]
    assert len(heard) / rate == pytest.approx(4, abs=0.2)
    assert max(map(abs, lags(heard, np.concatenate(pieces), rate))) < 0.1 * rate
    loud = [np.sqrt(np.mean(np.square(half))) for half in np.array_split(heard, 2)]
    assert 0.5 < loud[1] / loud[0] < 2.5  # channels that are alike add up where 5.1 are mixed to 2


LONG = ("mp4", "ipod", "matroska-flac", "webm", "mpegts-mp2", "ogg-libopus", "mp3", "adts", "wav")


@table(c for c in CELLS if "-".join(c[:2]).startswith(LONG))
def test_random_parts_of_a_long_file_are_where_they_are(tmp_path: Path, cell: Cell) -> None:
    wave, chance = noise(12, cell.rate), np.random.default_rng(1)
    file = tmp_path / "long"
    file.write_bytes(made(cell, (0, wave)))
    found = set()
    with Recording(file) as opened:
        for start in (*np.sort(chance.uniform(0, 10, 8)), *chance.uniform(0, 10, 2)):
            part, _ = opened.part(start, 1.5)
            found |= lags(part, wave[round(start * cell.rate) :][: len(part)], cell.rate)
    assert max(found) - min(found) <= 1
    assert max(map(abs, found)) <= max(1, cell.lag * cell.rate / 1_000)


def test_parts_behind_the_end_open_a_file_once_and_each_has_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = recording("mp3", "libmp3lame", (0, noise(4, 16_000)), rate=16_000)
    opened = openings(monkeypatch)
    for content, reason in ((whole, "past the end"), (whole[: len(whole) // 2], "truncated")):
        (tmp_path / "cut").write_bytes(content)
        with Recording(tmp_path / "cut") as cut:
            assert len(cut.part(0, 1)[0]) == 16_000
            for start in (3.8, 5, 9):
                with pytest.raises(AudioError, match=reason):
                    cut.part(start, 1)
    assert len(opened) == 2


def test_what_is_read_in_blocks_stays_in_bounds(tmp_path: Path) -> None:
    file = tmp_path / "long.mka"
    file.write_bytes(recording("matroska", "flac", (0, noise(60, 16_000)), rate=16_000))
    place, opened = 0, ForwardDecoder(file)
    while count := len(opened.read(place, 16_000)):
        assert sum(map(len, opened._held)) < 3 * 16_000
        place += count
    assert place == 60 * 16_000
    opened.close()


@pytest.mark.parametrize(
    ("container", "subtype", "rate"),
    [
        *(("OGG", subtype, 48_000) for subtype in ("VORBIS", "OPUS")),
        *(("MP3", None, rate) for rate in (8_000, 24_000, 44_100)),
    ],
)
def test_sound_that_ends_without_a_mark_or_in_a_frame_may_be_cut(
    container: str, subtype: str | None, rate: int
) -> None:
    file = encode(noise(4, rate), rate, format=container, subtype=subtype)
    if container == "OGG":
        page = file.index(b"OggS", len(file) // 2)
        ends = [file[:page], file[: page + 20], file[:-1]]
    else:
        file = without_tag(file)
        ends = [file[:-1], file[:-30]]
    for audio in (file, *ends):
        with Recording(audio) as opened:
            mono, _ = opened.part()
            assert opened.may_be_cut == (audio != file)
            assert len(mono) / rate == pytest.approx(4, abs=0.3) or container == "OGG"
            opened.part(0, 0.5)
            assert not opened.may_be_cut


def test_a_long_media_file_is_refused_like_any_other() -> None:
    content = recording("ipod", "aac", (0, noise(1, 44_100)), rate=44_100)
    with pytest.raises(AudioError, match=r"^longer than 0\.5 s$"):
        decode(content, max_seconds=0.5)


def without_tag(data: bytes) -> bytes:
    """The file without its first frame, which holds only the length tag."""
    return data[data.index(data[:2], 100) :]


def test_a_tagged_mp3_has_libsndfiles_samples_within_one_step_of_16_bits() -> None:
    data = encode(noise(6, 48_000), 48_000, format="MP3")
    expected, _ = soundfile.read(io.BytesIO(data), dtype="float32")
    wave, _ = decode(data)
    np.testing.assert_allclose(wave, expected, rtol=0, atol=2 / 32768)
    part, _ = decode(data, start=1.0, seconds=0.5)
    np.testing.assert_allclose(part, expected[48_000:72_000], rtol=0, atol=2 / 32768)
