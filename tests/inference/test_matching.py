from random import Random

import pytest

from danish_asr.inference.matching import Stretch, match

TEXT = "i dag skal vi tale om vejret og bagefter spiller vi noget musik fra fyn".split()  # noqa: SIM905


@pytest.mark.parametrize(
    ("hypotheses", "expected"),
    [
        (["i dag skal vi tale om vejret", "og bagefter spiller vi"], [(0, 7), (7, 11)]),
        (["idag skl vi tale m vejrt", "bagefer spilr vi noget"], [(0, 7), (8, 12)]),
        # What the text lacks has no words of it, and takes none of the next piece.
        (["skal vi tale om vejret", "zzzz xxxx", "noget musik fra fyn"], [(2, 7), (11, 15)]),
        # What is not spoken belongs to no piece.
        (["i dag skal vi", "noget musik fra fyn"], [(0, 4), (11, 15)]),
    ],
)
def test_a_piece_of_speech_finds_its_words_in_a_text_that_lacks_and_adds_some(
    hypotheses: list[str], expected: list[tuple[int, int]]
) -> None:
    good = [stretch for stretch in match(hypotheses, TEXT) if stretch and stretch.is_good]
    assert [stretch[:2] for stretch in good] == expected


def sentences(count: int) -> list[list[str]]:
    """Sentences of words that recur, as those of a language do."""
    random = Random(1)
    syllables = [first + last for first in "bdfghklmnprstv" for last in ("a", "en", "i", "or", "æ")]
    words = ["".join(random.choices(syllables, k=random.randint(1, 3))) for _ in range(300)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    return [random.choices(words, weights, k=random.randint(5, 12)) for _ in range(count)]


def heard(words: list[str], *, wrong: float) -> str:
    """What a model writes for words, a share of which has a wrong letter."""
    random = Random(" ".join(words))
    return " ".join(f"{word[:-1]}x" if random.random() < wrong else word for word in words)


SAID, OTHER = sentences(60)[:30], sentences(60)[30:]


@pytest.mark.parametrize("wrong", [0, 0.5])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(SAID, 30, id="as it is said"),
        pytest.param(SAID[12:] + OTHER[:12], 18, id="no beginning, and others at the end"),
        pytest.param(OTHER[:12] + SAID, 30, id="more at the beginning"),
        pytest.param(SAID + OTHER, 30, id="more at the end"),
        pytest.param(OTHER[:20] + SAID[:10] + OTHER[20:], 10, id="a third"),
        pytest.param(SAID[15:] + SAID[:15], 30, id="halves swapped"),
        pytest.param(SAID[20:] + SAID[10:20] + SAID[:10], 30, id="thirds in the other order"),
        pytest.param(OTHER, 0, id="another text"),
    ],
)
def test_sentences_are_found_wherever_the_text_has_them(
    text: list[list[str]], found: int, *, wrong: float
) -> None:
    stretches = match(
        [heard(sentence, wrong=wrong) for sentence in SAID],
        [word for sentence in text for word in sentence],
    )
    starts, place = {}, 0
    for sentence in text:
        starts[" ".join(sentence)] = place
        place += len(sentence)
    claimed: list[int] = []
    for sentence, stretch in zip(SAID, stretches, strict=True):
        if stretch is None or stretch.cer > 0.35:
            continue
        start = starts[" ".join(sentence)]  # KeyError: found in a text that lacks it
        assert abs(stretch.first - start) + abs(stretch.last - start - len(sentence)) <= 2 * wrong
        claimed += range(stretch.first, stretch.last)
        found -= 1
    assert found == 0
    assert len(claimed) == len({*claimed})


def test_the_rate_counts_wrong_characters_of_the_text() -> None:
    assert match(["ja nej"], ["ja", "nej"]) == [Stretch(0, 2, 0.0)]
    assert match(["ja nwj"], ["ja", "nej"]) == [Stretch(0, 2, 1 / 6)]
    assert match(["xyz"], ["ja", "nej"]) == [None]
    assert match(["i"], ["i", "hjem", "dag"]) == [Stretch(0, 1, 0.0)]


def test_the_words_of_a_good_piece_are_not_those_of_a_later_one() -> None:
    good, poor = match(["hjem ja", "i er vi"], ["hjem", "i", "er"])
    assert good == Stretch(0, 2, 2 / 6)
    assert poor is not None
    assert (poor.first, poor.last) == (2, 3)
