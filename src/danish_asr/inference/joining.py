"""Puts the log-probabilities of overlapping windows together, before CTC merges repeats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from danish_asr.decoding.greedy import BLANK
from danish_asr.inference.windows import FRAME, Window

_AGREEMENT: Final = 10
"""Frames on either side of a seam that should have the same best symbol; more count no more."""

_SILENT: Final = 2
"""Frames on either side of a separator that have to be blank too."""

_SURE: Final = 0.99
"""How probable a separator becomes there."""


def join(region: Sequence[tuple[Window, Tensor]]) -> Tensor:
    """Return the log-probabilities of a region, (S, V), from its windows and theirs.

    Each frame is taken from one window. The frames of two windows stand at the same times, but near
    a cut the models' outputs can differ by a frame, which could double or lose a symbol. So the
    seam is put where both windows agree, see `seam`.
    """
    parts, begin = [], 0  # of the region, in frames
    for number, (window, found) in enumerate(region):
        first = (window.start - window.region) // FRAME
        end = first + len(found)
        if number + 1 < len(region):
            following, theirs = region[number + 1]
            common = (following.start - window.region) // FRAME
            both = min(end - common, len(theirs))
            ours = found[common - first : common - first + both]
            centre = (window.cut - window.region) // FRAME - common
            end = common + (seam(ours, theirs[:both], centre) if both > 0 else 0)
        parts.append(found[begin - first : end - first])
        begin = end
    return torch.cat(parts)


def separate(log_probs: Tensor, region: Sequence[tuple[Window, Tensor]], separator: int) -> Tensor:
    """Write the separator of words into the short pauses of a region, (S, V), in place.

    A model that was trained on single sentences writes none there. A pause that ends no window gets
    one only where the model writes nothing at all: it may be a quiet sound within a word.
    """
    silent = log_probs.argmax(dim=-1) == BLANK
    cuts = {window.cut for window, _ in region}
    for window, _ in region:
        for breath in window.breaths:
            frame = (breath - window.region) // FRAME
            blanks = int(silent[frame - _SILENT : frame + _SILENT + 1].sum())
            if breath in cuts or blanks == 2 * _SILENT + 1:
                both = log_probs[frame, [BLANK, separator]].logsumexp(dim=0)
                log_probs[frame, BLANK] = both + math.log(1 - _SURE)
                log_probs[frame, separator] = both + math.log(_SURE)
    return log_probs


def seam(one: Tensor, other: Tensor, centre: int) -> int:
    """Return the frame from which the second of two overlapping (S, V) counts.

    It has the longest agreement of the best symbols around it, and of such frames it is a blank if
    there is one, and the nearest to ``centre``. A quarter of the overlap at either end is left out,
    as frames there lack context.
    """
    first, second = one.argmax(dim=-1), other.argmax(dim=-1)
    differ = (first != second).nonzero()[:, 0].tolist()
    quarter = len(one) // 4

    def rank(frame: int) -> tuple[int, bool, int]:
        nearest = min((abs(frame - place) for place in differ), default=_AGREEMENT)
        blank = int(first[frame]) == int(second[frame]) == BLANK
        return -min(nearest, _AGREEMENT), not blank, abs(frame - centre)

    return min(range(quarter, max(len(one) - quarter, quarter + 1)), key=rank)
