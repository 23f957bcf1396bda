from itertools import accumulate

import pytest

from danish_asr.decoding.transcript import Segment, Transcript, Word, divide


def spoken(pauses: list[float], seconds: float = 1.0) -> list[Word]:
    """Words of as many seconds, with these pauses between them."""
    starts = accumulate((seconds + pause for pause in pauses), initial=10.0)
    return [Word(str(n), start, start + seconds) for n, start in enumerate(starts)]


@pytest.mark.parametrize(
    ("pauses", "most", "parts"),
    [
        ([0.0], 2, [2]),
        ([0.0], 0, [1, 1]),  # a word is not cut
        ([0.1, 0.2, 0.1, 0.0], 3, [2, 3]),
        ([0.0, 0.0, 0.2, 0.0, 0.3, 0.0], 3, [3, 2, 2]),  # where a pause is longest, and again
        ([0.5, *[0.0] * 6], 6, [4, 4]),  # not in the first quarter
        ([*[0.0] * 6, 0.5], 6, [4, 4]),  # nor in the last one
        ([1.0, *[0.0] * 5], 6, [1, 6]),  # but at its end
        ([*[0.0] * 4, 1.0, 0.0], 6, [5, 2]),  # and at the other's beginning
        ([0.0, 0.0, 0.004, 0.0, 0.0, 0.0, 0.0], 6, [4, 4]),  # a hundredth is the same pause
    ],
    ids=str,
)
def test_words_that_do_not_fit_are_cut_at_the_longest_pause_around_their_middle(
    pauses: list[float], most: int, parts: list[int]
) -> None:
    words = spoken(pauses)
    cut = divide(words, lambda part: len(part) <= most)
    assert [len(part) for part in cut] == parts
    assert [word for part in cut for word in part] == words


def test_two_words_of_which_one_is_long_are_cut() -> None:
    short, long = Word("a", 0.0, 0.5), Word("b", 0.5, 9.0)
    assert divide([short, long], lambda part: len(part) < 2) == [[short], [long]]


@pytest.mark.parametrize(
    ("channel", "speaker", "name"),
    [(None, None, None), (0, None, "Speaker 1"), (1, "bo", "bo"), (None, "bo", "bo")],
)
def test_a_segment_has_the_name_of_its_speaker_or_of_its_channel(
    channel: int | None, speaker: str | None, name: str | None
) -> None:
    segment = Segment.of(spoken([0.5, 1.0]), channel, speaker)
    assert (segment.start, segment.end, segment.text) == (10.0, 14.5, "0 1 2")
    assert segment.speaker_name == name
    transcript = Transcript(20.0, [segment, segment])
    assert transcript.text == "0 1 2\n0 1 2"
    assert transcript.words == [*segment.words] * 2
    assert transcript.to_dict()["segments"][1]["text"] == "0 1 2"
