from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from danish_asr.schema import SPLITS
from danish_asr.sources.sentences import OPENERS, draw_sentence, split_of_sentence
from danish_asr.text.profiles import normalize


@given(st.integers(), st.sampled_from(SPLITS), st.booleans())
def test_written_and_spoken_text_are_equal_for_scoring(
    seed: int, split: str, conversation: bool
) -> None:
    sentence = draw_sentence(Random(seed), split, conversation=conversation)
    assert normalize(sentence.spoken, "coral") == normalize(sentence.written, "coral")
    assert not any(letter.isdigit() or letter == "%" for letter in sentence.spoken)


@given(st.integers(), st.sampled_from(SPLITS), st.booleans())
def test_a_sentence_belongs_to_one_split_with_and_without_its_opener(
    seed: int, split: str, conversation: bool
) -> None:
    written = draw_sentence(Random(seed), split, conversation=conversation).written
    assert split_of_sentence(written) == split
    bare = next(
        (written.removeprefix(f"{o} ") for o in OPENERS if written.startswith(f"{o} ")), written
    )
    assert {split_of_sentence(f"{opener} {bare}") for opener in OPENERS} == {split}


def test_the_texts_have_danish_letters_numerals_and_fillers() -> None:
    random = Random(1)
    text = " ".join(
        draw_sentence(random, "train", conversation=n % 2 == 0).written for n in range(200)
    )
    assert {"æ", "ø", "å", "%", "Å", "1"} <= set(text)
    assert "øh" in text.split()
