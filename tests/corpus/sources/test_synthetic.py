"""The synthetic corpus, made by the real synthesiser once for all tests, and its parts."""

import hashlib
import io
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.base.errors import SourceError
from danish_asr.base.schema import SPLITS
from danish_asr.corpus.sources import synthetic
from danish_asr.corpus.sources.synthetic import (
    OPENERS,
    _File,
    _plan,
    _row,
    draw_sentence,
    speak,
    split_of_sentence,
    synthesise,
)
from danish_asr.corpus.sources.voices import Espeak, draw_speaker
from danish_asr.text.profiles import normalize
from tests.builders import tree

SIZES = {"train": 20, "dev": 10, "test": 10}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("synthetic")
    synthesise(folder, sizes=SIZES, workers=2)
    return folder


def test_who_says_what_is_fixed() -> None:
    """A model is measured on the same corpus, also after an update."""
    said: list[Any] = [
        draw_sentence(Random(seed), split, conversation=seed % 3 == 0)
        for seed in range(200)
        for split in SPLITS
    ]
    for path, *place, utterances in _plan(Path("x"), synthetic.SIZES | {"dev": 700}):
        said += [path.as_posix(), place, utterances]
    assert hashlib.sha256(str(said).encode()).hexdigest()[:16] == "cfbe7a9466923f10"


def test_an_utterance_has_the_level_and_the_noise_of_its_speaker() -> None:
    voice = replace(draw_speaker(Random(1), "1", "Fynsk", 0), noise_db=20.0, gain_db=6.0)
    tone = np.sin(np.arange(22_050)).astype(np.float32)
    espeak: Any = SimpleNamespace(sample_rate=22_050, speak=lambda *_: tone)
    places = (_File(Path(), subset, "test", []) for subset in ("read_aloud", "conversation"))
    read, said = (_row(espeak, place, 21, voice) for place in places)
    assert read["id_recording"] == "rec_test_000021"
    assert (said["id_conversation"], said["id_segment"]) == ("con_test_00001", 1)
    samples, rate = soundfile.read(io.BytesIO(said["audio"]["bytes"]))
    assert rate == 48_000
    assert len(samples) == pytest.approx(50_924, abs=2)  # 0.06 s of silence
    assert abs(samples).max() == pytest.approx(0.95 * 10**-0.3, rel=0.01)
    assert samples[-2_000:].std() / samples[:9_000].std() == pytest.approx(0.1, rel=0.1)


def test_without_the_synthesiser_no_process_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise SourceError("no eSpeak NG")

    monkeypatch.setattr(synthetic, "find_espeak", missing)
    monkeypatch.setattr(synthetic, "run_in_processes", lambda *_, **__: [])
    with pytest.raises(SourceError, match="no eSpeak NG"):
        synthesise(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("column", ["id_speaker", "text"])
def test_speakers_and_sentences_are_disjoint_between_splits(corpus: Path, column: str) -> None:
    values: dict[str, set[str]] = {"train": set(), "val": set(), "test": set()}
    for path in corpus.rglob("*.parquet"):
        values[path.name.split("-")[0]] |= {*pq.read_table(path)[column].to_pylist()}
    assert all(values.values())
    assert len(set.union(*values.values())) == sum(map(len, values.values()))


@pytest.mark.slow
def test_a_file_that_is_missing_is_made_with_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    """Also after other sentences, as eSpeak NG has state; what was left unfinished is removed."""
    Espeak().speak("hej", draw_speaker(Random(1), "1", "Fynsk", None))
    copy = shutil.copytree(corpus, tmp_path / "copy")
    (copy / "read_aloud" / "val-00000-of-00001.parquet").unlink()
    (copy / "read_aloud" / ".test-00000-of-00001.parquet.17.partial").write_bytes(b"half")
    synthesise(copy, sizes=SIZES, workers=1)
    assert tree(copy) == tree(corpus)


@given(st.integers(), st.sampled_from(SPLITS), st.booleans())
def test_a_sentence_is_in_one_split_and_in_words(seed: int, split: str, conversation: bool) -> None:
    written = draw_sentence(Random(seed), split, conversation=conversation)
    assert split_of_sentence(written) == split
    bare = next(
        (written.removeprefix(f"{o} ") for o in OPENERS if written.startswith(f"{o} ")), written
    )
    assert {split_of_sentence(f"{opener} {bare}") for opener in OPENERS} == {split}
    assert normalize(speak(written), "coral") == normalize(written, "coral")
    assert not any(letter.isdigit() or letter == "%" for letter in speak(written))
