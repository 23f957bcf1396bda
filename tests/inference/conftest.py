from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray

from danish_asr.base.schema import SAMPLE_RATE
from danish_asr.corpus.sources.voices import draw_speaker
from danish_asr.decoding.transcript import Transcript, Word
from danish_asr.inference.export import export_model
from danish_asr.inference.formats import FORMATS
from danish_asr.inference.model import Model
from tests.random_models import build_model
from tests.speech import speak


@pytest.fixture(scope="session")
def speech() -> NDArray[np.float32]:
    """Two spoken sentences: silence until 1 s, a pause of 2 s between them, 1 s at the end.

    They begin and end with plosives, so that voice activity is clear to one chunk of 32 ms.
    """
    speaker = draw_speaker(Random(1), "1", "Østjysk", 1)
    first, second = speak(("kun to katte kan", speaker), ("på taget", speaker))
    silence = np.zeros(SAMPLE_RATE, np.float32)
    parts = [silence, first, silence, silence, second, silence]
    joined: NDArray[np.float32] = np.concatenate(parts).astype(np.float32)
    return joined


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server of a stand-in for a model."""
    served = pytest.importorskip("tests.served")
    with served.serving(served.make_app()) as address:
        yield address


@pytest.fixture(scope="module")
def radio(tmp_path_factory: pytest.TempPathFactory, model: Model) -> Path:
    """Recordings with what the model writes as subtitles: the first cue false, the second missing.

    The last recording has no text.
    """
    folder = tmp_path_factory.mktemp("radio")
    random = Random(1)
    speakers = [draw_speaker(random, "speaker", "Østjysk", None) for _ in range(20)]
    spoken = speak(*(("Bo køber femogtyve røde æbler på Fyn", speaker) for speaker in speakers))
    silence = np.zeros(SAMPLE_RATE, np.float32)
    for number in range(4):
        parts = [part for own in spoken[5 * number :][:5] for part in (own, silence)]
        path = folder / f"programme-{number}.wav"
        soundfile.write(path, np.concatenate(parts), SAMPLE_RATE)
        if number == 3:
            continue
        transcript = model.transcribe(path)
        first, _, *others = transcript.segments
        wrong = replace(first, words=[Word("helt forkerte undertekster", first.start, first.end)])
        shifted = [replace(own, start=own.start + 4, end=own.end + 4) for own in others]
        cues = Transcript(transcript.duration, [wrong, *shifted])
        path.with_suffix(".srt").write_text(FORMATS["srt"](cues), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def special(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose best symbols are also <pad>, </s>, and two spaces in a row."""
    folder = build_model(tmp_path_factory.mktemp("special") / "random")
    weights = folder / "cards" / "model.pt"
    state = torch.load(weights)
    for name in ("final_proj.weight", "final_proj.bias"):
        state[name][[1, 2, 4, 7, 9, 18]] = state[name][[18, 7, 9, 2, 4, 1]]
    torch.save(state, weights)
    return folder


@pytest.fixture(scope="session")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sounds as FLAC files: of usual level, quiet, silent, and shorter than a frame."""
    folder = tmp_path_factory.mktemp("sounds")
    rng = np.random.default_rng(0)
    for number, (seconds, level) in enumerate([(0.6, 0.1), (2.9, 0.003), (4, 0.2), (1, 0)]):
        times = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
        syllables = np.clip(np.sin(2 * np.pi * 4 * times), 0.05, None)
        sound = level * syllables * rng.standard_normal(len(times))
        soundfile.write(folder / f"{number}.flac", sound, SAMPLE_RATE, subtype="PCM_24")
    return folder


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory, special: Path, sounds: Path) -> Path:
    """Both forms of the special model."""
    folder = tmp_path_factory.mktemp("exports")
    export_model(str(special), "hf", folder / "hf", audio=[sounds])
    export_model(str(special), "onnx", folder / "onnx", int8=True, audio=[sounds])
    return folder
