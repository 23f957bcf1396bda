"""Divide a transcript into the cues of subtitles."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from danish_asr.decoding.transcript import Transcript, Word

MAX_LINE: Final = 42
"""Characters of a line; with two lines and 7 seconds the usual limits of broadcasters."""

MAX_SECONDS: Final = 7.0

MIN_SECONDS: Final = 1.0
"""A shorter cue stays until then, or until the next cue of its channel."""


@dataclass(frozen=True)
class Cue:
    """One or two lines of text and when they are shown, in seconds."""

    start: float
    end: float
    lines: Sequence[str]
    channel: int | None = None


def speaker(channel: int) -> str:
    """The name of whoever speaks on a channel; channels count from 0, speakers from 1."""
    return f"Speaker {channel + 1}"


def make_cues(transcript: Transcript, *, named: bool = False) -> list[Cue]:
    """Return the cues in the order of their starts.

    A cue has at most two lines of 42 characters and lasts at most 7 s, unless one word exceeds
    that. It ends preferably at a pause or a punctuation mark, and cues are about equally full.
    Cues of one channel do not overlap; speakers of different channels may talk at the same time.

    Args:
        transcript: Its words have the times.
        named: Begin each cue of a channel with the name of its speaker.
    """
    parts: dict[int | None, list[Sequence[Word]]] = {}
    for segment in transcript.segments:
        label = _label(segment.channel, named=named)
        parts.setdefault(segment.channel, []).extend(_divide(segment.words, label))
    cues = []
    for channel, own in parts.items():
        label = _label(channel, named=named)
        limits = [*(part[0].start for part in own[1:]), float("inf")]
        for words, limit in zip(own, limits, strict=True):
            start = words[0].start
            end = min(max(words[-1].end, start + MIN_SECONDS), limit)
            cues.append(Cue(start, end, _wrap(label, words), channel))
    return sorted(cues, key=lambda cue: cue.start)


def _label(channel: int | None, *, named: bool) -> str:
    return f"{speaker(channel)}: " if named and channel is not None else ""


def _divide(words: Sequence[Word], label: str) -> list[Sequence[Word]]:
    # The cheapest division, by dynamic programming: costs[n] is that of the first n words, and
    # begins[n] is where the last cue of it begins.
    costs, begins = [0.0], [0]
    for end in range(1, len(words) + 1):
        options = []
        for begin in range(end - 1, -1, -1):
            cue = words[begin:end]
            if len(cue) > 1 and not _fits(label, cue):
                break  # nor does it with one word more
            options.append((costs[begin] + _cost(label, cue) + _break_cost(words, begin), begin))
        cost, begin = min(options)
        costs.append(cost)
        begins.append(begin)
    ends = [len(words)]
    while ends[-1]:
        ends.append(begins[ends[-1]])
    ends.reverse()
    return [words[begin:end] for begin, end in itertools.pairwise(ends)]


def _fits(label: str, words: Sequence[Word]) -> bool:
    return (
        words[-1].end - words[0].start <= MAX_SECONDS
        and max(map(len, _wrap(label, words))) <= MAX_LINE
    )


def _cost(label: str, words: Sequence[Word]) -> float:
    return (1 - sum(map(len, _wrap(label, words))) / (2 * MAX_LINE)) ** 2


def _break_cost(words: Sequence[Word], begin: int) -> float:
    if not begin:
        return 0.0
    last = words[begin - 1]
    pause = words[begin].start - last.end
    return 1 - 2 * min(max(pause, 0), 1) - (0.5 if last.text[-1:] in ".,:;?!" else 0)


def _wrap(label: str, words: Sequence[Word]) -> Sequence[str]:
    """Return one line, or the two whose lengths differ least."""
    texts = [word.text for word in words]
    texts[0] = label + texts[0]
    if len(whole := " ".join(texts)) <= MAX_LINE or len(texts) == 1:
        return (whole,)
    splits = [(" ".join(texts[:i]), " ".join(texts[i:])) for i in range(1, len(texts))]
    return min(splits, key=lambda lines: max(map(len, lines)))
