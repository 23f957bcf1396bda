"""A model as Python users load and call it."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import soxr
import torch
from fairseq2.models.wav2vec2.asr import create_wav2vec2_asr_model
from fairseq2.nn import BatchLayout
from numpy.typing import NDArray

from danish_asr.base.errors import ConfigError, DanishAsrError, RunError, TranscriptionError
from danish_asr.base.files import to_yaml
from danish_asr.corpus.sources.voices import Espeak, draw_speaker
from danish_asr.decoding.decoders import make_decoder
from danish_asr.decoding.transcript import Transcript
from danish_asr.inference.forward_pass import prepare_for_cpu
from danish_asr.inference.model import Model, load_model
from danish_asr.inference.sound import Sound
from danish_asr.inference.streaming import recognise
from danish_asr.recipe.extension import tiny
from danish_asr.recipe.run.run_directory import CONFIG_FILE
from tests.builders import encode, tone

RATE = 16_000


@pytest.fixture(scope="module")
def speech() -> NDArray[np.float32]:
    """Two spoken sentences: silence until 1 s, a pause of 2 s between them, 1 s at the end."""
    espeak, speaker = Espeak(), draw_speaker(Random(1), "1", "Østjysk", 1)
    first, second = (
        soxr.resample(espeak.speak(text, speaker), espeak.sample_rate, RATE)
        for text in ("mette læser en lang avis", "så jonas maler små både")
    )
    silence = np.zeros(RATE, np.float32)
    parts = [silence, first, silence, silence, second, silence]
    whole: NDArray[np.float32] = np.concatenate(parts).astype(np.float32)
    return whole


def bounds(transcript: Transcript) -> list[tuple[float, float]]:
    return [(segment.start, segment.end) for segment in transcript.segments]


def test_the_result_of_a_waveform_does_not_depend_on_its_batch(model: Model) -> None:
    rng = np.random.default_rng(0)
    sizes = (48_000, 160, 80_077, 0, 400, 31_999)
    waveforms = [rng.normal(size=size).astype(np.float32) for size in sizes]
    together = model.log_probs(waveforms, batch_seconds=100)
    for waveform, found in zip(waveforms, together, strict=True):
        (alone,) = model.log_probs([waveform])
        assert found.shape == alone.shape
        assert len(found) == max(model.frames(len(waveform)), min(len(waveform), 1))
        assert torch.allclose(found, alone, atol=1e-4)
        assert torch.allclose(found.exp().sum(dim=1), torch.ones(len(found)), atol=1e-4)


def test_the_forward_pass_of_a_cpu_gives_the_same_as_that_of_fairseq2() -> None:
    module = create_wav2vec2_asr_model(tiny()).eval()
    waveforms = torch.randn(2, 30_000)
    layout = BatchLayout.of(waveforms, [30_000, 11_111])
    with torch.inference_mode():
        expected, _ = module(waveforms, layout)
        names = module.state_dict().keys()
        prepare_for_cpu(module, int8=False)
        found, _ = module(waveforms, layout)
    assert torch.allclose(found, expected, atol=1e-4)
    assert module.state_dict().keys() == names


def test_a_model_in_int8_hears_nearly_the_same_whatever_else_is_in_the_batch(
    model: Model, model_directory: Path, speech: NDArray[np.float32]
) -> None:
    int8 = load_model(model_directory, device="cpu", int8=True)
    waveforms = [speech, speech[: 2 * RATE], speech[::-1]]
    expected, found = model.log_probs(waveforms), int8.log_probs(waveforms)
    best = [log_probs.argmax(dim=-1) for log_probs in expected]
    for right, log_probs, waveform in zip(best, found, waveforms, strict=True):
        assert (log_probs.argmax(dim=-1) == right).float().mean() > 0.9
        assert torch.equal(log_probs, int8.log_probs([waveform])[0])
    assert not torch.equal(expected[0], found[0])
    assert int8.transcribe(speech, rate=RATE).about["int8"] is True


def test_int8_is_refused_where_it_cannot_work(
    model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunError, match="CPU"):
        load_model(model_directory, device="meta", int8=True)
    monkeypatch.setattr(torch.backends.quantized, "engine", "none")
    with pytest.raises(RunError, match="fbgemm"):
        load_model(model_directory, device="cpu", int8=True)


def test_unknown_models_and_devices_are_refused(tmp_path: Path, model_directory: Path) -> None:
    with pytest.raises(ConfigError, match="omniASR_CTC_300M_v2"):
        load_model("omniASR_CTC_300")
    with pytest.raises(RunError, match="no model in this directory"):
        load_model(tmp_path)
    with pytest.raises(RunError, match="missing"):
        load_model(tmp_path / "runs" / "none")
    with pytest.raises(RunError, match="tpu"):
        load_model(model_directory, device="tpu")


def test_faults_of_the_decoder_are_found_before_the_weights_are_read(
    tmp_path: Path, model_directory: Path
) -> None:
    (tmp_path / "broken.arpa").write_text("not a language model")
    shutil.copytree(model_directory, tmp_path / "tiny_model")
    (tmp_path / "tiny_model" / "model.pt").write_bytes(b"")
    for config, message in (
        ({"hotwords": ["ß"]}, "'ß' has characters"),
        ({"lm": tmp_path / "broken.arpa"}, "is no ARPA file"),
    ):
        with pytest.raises(DanishAsrError, match=message):
            load_model(tmp_path / "tiny_model", decoder=("beam", config))


def test_a_model_trained_with_join_needs_fewer_spaces_in_pauses(
    model_directory: Path, tmp_path: Path
) -> None:
    """And a transform of the user, whose code is not here, does not matter."""
    run = shutil.copytree(model_directory, tmp_path / "run")
    transforms = [{"name": "join", "probability": 0.5}, {"name": "not_here:Mine"}]
    (run / CONFIG_FILE).write_text(to_yaml({"dataset": {"transforms": transforms}}))
    cuttings = [load_model(folder, device="cpu").cutting for folder in (run, model_directory)]
    assert [(cutting.gap, cutting.breath) for cutting in cuttings] == [(0.2, 0.19), (0.12, 0.09)]


def test_segments_are_where_somebody_speaks(model: Model, speech: NDArray[np.float32]) -> None:
    transcript = model.transcribe(speech, rate=RATE)
    assert transcript.duration == pytest.approx(len(speech) / RATE)
    assert len(transcript.segments) == 2
    (one, two), end = transcript.segments, transcript.duration
    assert 0.6 < one.start < one.end < two.start < two.end < end - 0.6
    assert two.start - one.end > 1.3
    words = transcript.words
    assert all(a.end <= b.start + 1e-6 for a, b in itertools.pairwise(words))
    assert transcript.text.split() == [word.text for word in words]


def test_paths_bytes_arrays_and_lists_give_the_same(
    model: Model, speech: NDArray[np.float32], tmp_path: Path
) -> None:
    encoded = encode(speech, RATE, subtype="FLOAT")
    (tmp_path / "a.wav").write_bytes(encoded)
    expected = model.transcribe(speech, rate=RATE)
    stereo = np.stack([speech * 1.5, speech * 0.5], axis=1)
    found = model.transcribe([tmp_path / "a.wav", encoded, stereo], rate=RATE)
    streamed = list(model.stream(str(tmp_path / "a.wav"), batch_seconds=0.1))
    assert found[0].file == str(tmp_path / "a.wav")
    for segments in (streamed, *(each.segments for each in found)):
        assert [segment.text for segment in segments] == expected.text.split("\n")
        assert [segment.start for segment in segments] == [s.start for s in expected.segments]


def test_channels_are_transcribed_each_and_merged_by_time(
    model: Model, speech: NDArray[np.float32]
) -> None:
    split = np.zeros((len(speech), 2), np.float32)
    half = len(speech) // 2
    split[half:, 0], split[:half, 1] = speech[half:], speech[:half]
    transcript = model.transcribe(split, rate=RATE, channels="split")
    assert [segment.channel for segment in transcript.segments] == [1, 0]
    mixed = model.transcribe(split, rate=RATE)
    assert [segment.channel for segment in mixed.segments] == [None, None]
    assert np.allclose(bounds(mixed), bounds(transcript), atol=0.1)  # three windows of speech


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
def test_the_times_do_not_depend_on_the_rate(
    model: Model, speech: NDArray[np.float32], rate: int
) -> None:
    expected = model.transcribe(speech, rate=RATE)
    other = np.clip(soxr.resample(speech, RATE, rate) * 32768, -32768, 32767).astype(np.int16)
    found = model.transcribe(other, rate=rate)
    assert found.duration == pytest.approx(expected.duration, abs=0.001)
    assert np.allclose(bounds(found), bounds(expected), atol=0.15)


@pytest.mark.parametrize(
    "samples", [np.zeros(160), np.zeros(RATE * 70), np.full(RATE, 0.3)], ids=["10ms", "70s", "dc"]
)
def test_audio_without_speech_has_no_segments(model: Model, samples: NDArray[np.float64]) -> None:
    done: list[tuple[float, float | None]] = []
    transcript = model.transcribe(
        samples, rate=RATE, progress=lambda seconds, total: done.append((seconds, total))
    )
    assert not transcript.segments
    assert not transcript.text
    assert done[-1] == (len(samples) / RATE,) * 2


def test_what_is_no_audio_is_refused(model: Model, tmp_path: Path) -> None:
    text = tmp_path / "notes.wav"
    text.write_text("only text, no audio at all")
    truncated = tmp_path / "half.flac"
    truncated.write_bytes(tone(20, rate=RATE, format="FLAC")[:40_000])
    (tmp_path / "empty.mp3").touch()
    cases: list[tuple[Any, float | None, str]] = [
        (text, None, "notes.wav: cannot be decoded"),
        (tmp_path / "empty.mp3", None, "empty.mp3: cannot be decoded"),
        (tmp_path / "none.wav", None, "none.wav: audio file missing"),
        (truncated, None, "can only be decoded up to 5.4 s, but its header says 20.0"),
        (None, None, "or a list of these, but is NoneType"),
        ([0.1, 0.2], RATE, "a list of these, but is float"),
        (b"no audio", None, "the audio: cannot be decoded"),
        (tone(0), None, "no samples"),
        (np.zeros(0), RATE, "the array: no samples"),
        (np.zeros(100), None, "rate"),
        (np.zeros((2, 100)), RATE, "(samples, channels)"),
        (np.array([0, np.nan]), RATE, "NaN"),
        (np.zeros(100), 16_000.5, "whole number"),
        (np.zeros(100), np.inf, "whole number"),
        (("a.wav", "b.wav"), None, "(2,) of <U5"),
        (encode(np.zeros(100), RATE), RATE, "is for arrays"),
        (tone(1, rate=RATE)[:20_000], None, "ends at 0.6 s, but its header says 1.0 s"),
        (tone(1, rate=RATE, format="OGG")[:-9], None, "ends within a page of OGG"),
        (io.StringIO("text"), None, "'rb'"),
        (tmp_path, None, "not a regular file"),
    ]
    for audio, rate, message in cases:
        with pytest.raises(TranscriptionError, match=re.escape(message)):
            model.transcribe(audio, rate=rate)
    with pytest.raises(TranscriptionError, match="mix or split"):
        model.transcribe(np.zeros(100), rate=RATE, channels="left")  # type: ignore[call-overload]
    with pytest.raises(TranscriptionError, match="unknown options: chanels; known: rate, channels"):
        list(model.stream(np.zeros(100), rate=RATE, chanels="split"))  # type: ignore[call-arg]
    with pytest.raises(TranscriptionError, match="batch_seconds"):
        model.transcribe(np.zeros(100), rate=RATE, batch_seconds=0)
    with pytest.raises(TranscriptionError, match=r"\[waveform\]"):
        model.log_probs(np.zeros(100, np.float32))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"decoder\.name"):
        model.transcribe(np.zeros(100), rate=RATE, decoder="greedi")


def test_a_transcript_is_json_with_a_path_among_its_settings(model: Model, tmp_path: Path) -> None:
    hotwords = tmp_path / "hotwords.txt"
    hotwords.write_text("mette")
    config = {"hotwords": hotwords}
    found = model.transcribe(np.zeros(RATE), rate=RATE, decoder="beam", decoder_config=config)
    about = json.loads(json.dumps(found.to_dict()))["about"]
    assert about["decoder_config"] == {"hotwords": str(hotwords)}


def test_memory_does_not_grow_with_the_recording(model: Model, speech: NDArray[np.float32]) -> None:
    blocks = (speech[:, None] for _ in range(40))
    sound = Sound(blocks, rate=RATE, total=None, channels=1, split=False, name="long")
    decoder = make_decoder("greedy", {}, model.tokenizer)
    peaks = []
    tracemalloc.start()
    for _ in recognise(model, decoder, [sound], batch_seconds=8.0):
        peaks.append(tracemalloc.get_traced_memory()[1])  # noqa: PERF401 - of this moment
    tracemalloc.stop()
    assert len(peaks) == 80
    assert peaks[-1] < peaks[20] + speech.nbytes


def texts(transcript: Transcript) -> list[str]:
    return [segment.text for segment in transcript.segments]


@pytest.mark.parametrize("level", [-40, -60])
def test_quiet_speech_is_transcribed_like_loud_speech(
    model: Model, speech: NDArray[np.float32], level: float
) -> None:
    quiet = model.transcribe(speech * 10 ** (level / 20), rate=RATE)
    assert np.allclose(bounds(quiet), bounds(model.transcribe(speech, rate=RATE)), atol=0.1)


@pytest.mark.parametrize("kind", ["noise", "tone", "dither"])
def test_faint_noise_is_not_speech(model: Model, kind: str) -> None:
    rng, time = np.random.default_rng(0), np.arange(20 * RATE) / RATE
    samples = {
        "noise": rng.normal(size=len(time)) * 1e-4,
        "tone": np.sin(2 * np.pi * 440 * time) * np.exp(-3 * (time % 0.5)) * 1e-4,
        "dither": np.rint(rng.uniform(-1, 1, len(time))) / 32768,
    }[kind]
    assert not model.transcribe(samples, rate=RATE).segments


def test_channels_in_opposite_phase_are_not_mixed_to_silence(
    model: Model, speech: NDArray[np.float32]
) -> None:
    expected = model.transcribe(speech, rate=RATE)
    opposite = model.transcribe(np.stack([speech, -0.9 * speech], axis=1), rate=RATE)
    assert texts(opposite) == texts(expected)


def test_all_forms_of_a_recording_give_the_same(
    model: Model, speech: NDArray[np.float32], tmp_path: Path
) -> None:
    samples = np.rint(speech * 20_000).astype(np.int16)
    encoded = encode(samples, RATE)
    named = tmp_path / os.fsdecode(b"latin\xe6.wav")
    named.write_bytes(encoded)
    streamed = encoded[:40] + b"\xff" * 4 + encoded[44:]
    expected = texts(model.transcribe(samples, rate=RATE))
    arrays = [samples.astype(np.int32), samples.astype(np.int64), samples.astype(np.int32) << 16]
    found = model.transcribe(
        [*arrays, bytearray(encoded), io.BytesIO(encoded), named, streamed], rate=16_000.0
    )
    assert [texts(transcript) for transcript in found] == [expected] * len(found)
    assert str(found[5].file).encode().endswith("latin\ufffd.wav".encode())
