"""A model as Python users load and call it."""

import itertools
import shutil
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from typer.testing import CliRunner

from danish_asr.base.errors import ConfigError, DanishAsrError, RunError, TranscriptionError
from danish_asr.cli.app import app
from danish_asr.decoding.transcript import Transcript, Word
from danish_asr.inference.loose_text import Line, Text
from danish_asr.inference.model import Heard, Model, load_model
from danish_asr.recipe.models.cards import open_model
from tests.builders import encode
from tests.foreign_code import NAME, ForeignCode

RATE = 16_000
FAINT = np.random.default_rng(0).normal(size=20 * RATE) * 1e-4


@pytest.fixture
def sure(model_directory: Path) -> Model:
    """A model that hears one letter in every frame, whatever is said.

    Its segments are where the voice activity finds speech. Those of random weights begin with the
    first frame that happens to have a letter.
    """
    model = load_model(model_directory, device="cpu")
    final = model.module.final_proj
    final.get_parameter("weight").zero_()
    final.get_parameter("bias").zero_()[-1] = 100
    return model


def bounds(transcript: Transcript) -> list[tuple[float, float]]:
    return [(segment.start, segment.end) for segment in transcript.segments]


def test_unknown_models_and_devices_are_refused(tmp_path: Path, model_directory: Path) -> None:
    with pytest.raises(ConfigError, match="omniASR_CTC_300M_v2"):
        load_model("omniASR_CTC_300")
    with pytest.raises(RunError, match=str(tmp_path)):
        load_model(tmp_path)
    with pytest.raises(RunError, match="missing"):
        load_model(tmp_path / "runs" / "none")
    with pytest.raises(RunError, match="tpu"):
        load_model(model_directory, device="tpu")
    with pytest.raises(RunError, match="int8 is for a CPU"):
        load_model(model_directory, device="meta", int8=True)


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
            load_model(tmp_path / "tiny_model", decoder="beam", decoder_config=config)


def test_segments_are_where_somebody_speaks(model: Model, speech: NDArray[np.float32]) -> None:
    transcript = model.transcribe(speech, rate=RATE)
    assert transcript.duration == round(len(speech) / RATE, 3)
    assert len(transcript.segments) == 2
    (one, two), end = transcript.segments, transcript.duration
    assert 0.6 < one.start < one.end < two.start < two.end < end - 0.6
    assert two.start - one.end > 1.3
    words = transcript.words
    assert all(a.end <= b.start + 1e-6 for a, b in itertools.pairwise(words))
    assert transcript.text.split() == [word.text for word in words]


def test_a_stream_has_the_segments_of_a_transcript(
    sure: Model, speech: NDArray[np.float32], tmp_path: Path
) -> None:
    file = tmp_path / "a.wav"
    file.write_bytes(encode(speech, RATE, subtype="FLOAT"))
    transcript = sure.transcribe(file)
    assert transcript.file == str(file)
    assert list(sure.stream(str(file), batch_seconds=0.1)) == transcript.segments


def test_progress_can_end_a_transcription_between_two_windows(
    model: Model, monkeypatch: pytest.MonkeyPatch, speech: NDArray[np.float32]
) -> None:
    passes: list[int] = []

    def count(waveforms: list[NDArray[np.float32]], **_: object) -> list[torch.Tensor]:
        passes.append(len(waveforms))
        return [torch.zeros(50, 1)]

    def stop(_seconds: float, _total: float | None) -> None:
        if passes:
            raise KeyError

    monkeypatch.setattr(model, "log_probs", count)
    with pytest.raises(KeyError):
        model.transcribe(speech, rate=RATE, progress=stop)
    assert passes == [1]


def test_a_segment_ends_at_a_long_pause_and_after_30_s(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = [
        Heard(at, at not in {0, 60}, torch.empty(0), [Word("a", at, at + 10)] if at != 40 else [])
        for at in (0, 10, 20, 30, 40, 60)
    ]
    monkeypatch.setattr(model, "hear", lambda _, **__: iter(heard))
    assert [(s.start, s.end) for s in model.stream(FAINT, rate=RATE)] == [
        (0, 30),
        (30, 40),
        (60, 70),
    ]


@pytest.mark.parametrize(("trained_on", "longest"), [(3, 6.0), (12, 12.0), (40, 30.0)])
def test_a_window_is_as_long_as_the_utterances_of_the_training_within_6_and_30_s(
    model_directory: Path, monkeypatch: pytest.MonkeyPatch, trained_on: int, longest: float
) -> None:
    opened = open_model(model_directory)._replace(max_audio_len=trained_on * RATE)
    monkeypatch.setattr("danish_asr.inference.model.open_model", lambda _: opened)
    assert load_model(model_directory, device="cpu").longest == longest


def test_channels_are_transcribed_apart_and_merged_by_time(
    sure: Model, speech: NDArray[np.float32]
) -> None:
    split = np.zeros((len(speech), 2), np.float32)
    half = len(speech) // 2
    split[half:, 0], split[:half, 1] = speech[half:], speech[:half]
    transcript = sure.transcribe(split, rate=RATE, channels="split")
    assert [segment.channel for segment in transcript.segments] == [1, 0]
    mixed = sure.transcribe(split, rate=RATE)
    assert [segment.channel for segment in mixed.segments] == [None, None]
    # Three chunks of voice activity.
    assert np.allclose(bounds(mixed), bounds(transcript), atol=0.1)


@pytest.mark.parametrize(
    "samples",
    [np.zeros(160), np.zeros(RATE * 70), np.full(RATE, 0.3), FAINT],
    ids=["10ms", "70s", "dc", "faint"],
)
def test_audio_without_speech_has_no_segments(model: Model, samples: NDArray[np.float64]) -> None:
    done: list[tuple[float, float | None]] = []
    transcript = model.transcribe(
        samples, rate=RATE, progress=lambda seconds, total: done.append((seconds, total))
    )
    assert not transcript.segments
    assert not transcript.text
    assert done[-1] == (len(samples) / RATE,) * 2


def test_a_stream_takes_blocks_of_samples(sure: Model, speech: NDArray[np.float32]) -> None:
    blocks = iter(np.array_split(np.stack([speech, speech], axis=1), 7))
    segments = list(sure.stream(blocks, rate=RATE))
    assert segments == sure.transcribe(speech, rate=RATE).segments
    with pytest.raises(TranscriptionError):
        list(sure.stream(iter(list[NDArray[np.float32]]()), rate=RATE))


def test_silence_and_speech_without_a_text_are_told_apart(
    model: Model, speech: NDArray[np.float32]
) -> None:
    silent, spoken = encode(np.zeros(RATE), RATE), encode(speech, RATE)
    assert model.why_empty(silent) != model.why_empty(spoken)
    assert "no speech" in model.why_empty(silent)


def test_options_that_do_not_fit_are_refused(model: Model) -> None:
    with pytest.raises(TypeError, match="chanels"):
        list(model.stream(np.zeros(100), rate=RATE, chanels="split"))
    with pytest.raises(TranscriptionError, match="batch_seconds"):
        model.transcribe(np.zeros(100), rate=RATE, batch_seconds=0)


def test_memory_does_not_grow_with_the_recording(model: Model, speech: NDArray[np.float32]) -> None:
    long = np.tile(speech, 16)
    peaks = []
    tracemalloc.start()
    for _ in model.stream(long, rate=RATE, batch_seconds=8.0):
        peaks.append(tracemalloc.get_traced_memory()[1])  # noqa: PERF401 - of this moment
    tracemalloc.stop()
    assert len(peaks) == 32
    assert peaks[-1] < peaks[8] + speech.nbytes


def test_the_card_of_a_model_names_no_code(
    model_directory: Path, foreign_code: ForeignCode, tmp_path: Path
) -> None:
    """Not for hotwords, a text to align or a language model; the user may name a profile."""
    folder = shutil.copytree(model_directory, tmp_path / "tiny_model")
    with (folder / "cards" / "tiny_model.yaml").open("a", encoding="utf-8") as card:
        card.write(f"danish_asr: {{text_profile: '{NAME}'}}\n")
    beam = partial(load_model, folder, device="cpu", decoder="beam")
    assert beam().text_profile == NAME
    with pytest.raises(ConfigError, match=r"tiny_model(?s:.*)decoder_config=.*text_profile"):
        beam(decoder_config={"hotwords": ["kat"]})
    beam(decoder_config={"hotwords": ["kat"], "text_profile": "coral"})
    with pytest.raises(ConfigError, match=r"tiny_model(?s:.*)card"):
        Text([Line("en kat")], load_model(folder, device="cpu"))
    (tmp_path / "a.txt").write_text("en kat og en ko\n" * 3)
    words = ["lm", "build", str(tmp_path / "a.txt"), "--out", str(tmp_path / "lm")]
    result = CliRunner().invoke(app, [*words, "--model", str(folder)])
    assert "--profile" in str(result.exception)
    assert not foreign_code.ran
    assert not (tmp_path / "lm").exists()
