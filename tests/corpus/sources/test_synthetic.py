"""The synthetic corpus, made by the real synthesiser once for all tests, and its parts."""

import shutil
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danish_asr.base.schema import SPLITS
from danish_asr.corpus.sources.synthetic import (
    OPENERS,
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
