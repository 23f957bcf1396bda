"""Puts a region together from its windows, and separates words in its pauses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from danish_asr.decoding.greedy import BLANK
from danish_asr.inference.levels import FRAME
from danish_asr.inference.windows import Window

_AGREEMENT: Final = 10
"""Frames on either side of a seam that should have the same best symbol; more count no more."""

_SILENT: Final = 2
"""Frames on either side of a separator that have to be blank too."""

_SURE: Final = 0.99
"""How probable a separator becomes in a pause."""

_POSSIBLE: Final = 0.1
"""How probable it becomes at least in a doubtful one: greedy decoding leaves it out, and a language
model can choose it."""


def join(region: Sequence[tuple[Window, Tensor]]) -> Tensor:
    """Return the log-probabilities of a region, (S, V), from its windows and theirs.

    Each frame is taken from one window. The frames of two windows stand at the same times, but near
    a cut the models' outputs can differ by a frame, which could double or lose a symbol. So the
    seam is put where both windows agree, see `seam`. A window that ends in a short pause may give a
    frame less than the pause needs, with a wide front end; blanks take their place, so that later
    frames keep their times.
    """
    parts, begin = [], 0  # in frames of the region
    for number, (window, log_probs) in enumerate(region):
        start = (window.start - window.region) // FRAME
        end = start + len(log_probs)
        if number + 1 < len(region):
            next_window, next_log_probs = region[number + 1]
            common = (next_window.start - window.region) // FRAME
            overlap = min(end - common, len(next_log_probs))
            centre = (window.cut - window.region) // FRAME - common
            end = common
            if overlap > 0:
                ours = log_probs[common - start : common - start + overlap]
                end += seam(ours, next_log_probs[:overlap], centre)
        part = log_probs[begin - start : end - start]
        parts.append(part)
        if missing := end - begin - len(part):
            parts.append(_blanks(missing, log_probs))
        begin = end
    return torch.cat(parts)


def _blanks(count: int, like: Tensor) -> Tensor:
    """Return so many frames of certain blanks, (count, V)."""
    frames = like.new_full((count, like.shape[-1]), math.log(1e-8))
    frames[:, BLANK] = 0.0
    return frames


def separate(log_probs: Tensor, region: Sequence[tuple[Window, Tensor]], separator: int) -> Tensor:
    """Write the separator of words into the short pauses of a region, (S, V), in place.

    A model that was trained on single sentences writes none there. A pause that ends no window gets
    one only where the model writes nothing at all: it may be a quiet sound within a word. Otherwise
    the separator becomes possible, as in doubtful pauses.
    """
    silent = log_probs.argmax(dim=-1) == BLANK
    cuts = {window.cut for window, _ in region}
    for window, _ in region:
        for pause in (*window.breaths, *window.doubts):
            frame = (pause - window.region) // FRAME
            blanks = int(silent[frame - _SILENT : frame + _SILENT + 1].sum())
            if pause in cuts or (pause in window.breaths and blanks == 2 * _SILENT + 1):
                share = _SURE
            elif silent[frame : frame + 1].any() and log_probs[frame, separator] < math.log(
                _POSSIBLE
            ):
                share = _POSSIBLE
            else:
                continue
            both = log_probs[frame, [BLANK, separator]].logsumexp(dim=0)
            log_probs[frame, BLANK] = both + math.log(1 - share)
            log_probs[frame, separator] = both + math.log(share)
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
        nearest = min((abs(frame - other) for other in differ), default=_AGREEMENT)
        blank = int(first[frame]) == int(second[frame]) == BLANK
        return -min(nearest, _AGREEMENT), not blank, abs(frame - centre)

    return min(range(quarter, max(len(one) - quarter, quarter + 1)), key=rank)
