"""Word alignments: what stands against what in a reference and a hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rapidfuzz.distance import Levenshtein

Tag = Literal["hit", "substitution", "deletion", "insertion"]


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """One column of an alignment; the side that has no word is the empty string."""

    tag: Tag
    reference: str
    hypothesis: str


def align_words(reference: Sequence[str], hypothesis: Sequence[str]) -> list[AlignedWord]:
    """Return an alignment with the fewest errors, in which like words stand against like words.

    Several alignments have the fewest errors, and `scoring.counts.align_counts` counts one of them.
    For people the one is taken whose substituted words have the most letters in common, so
    substitutions, deletions and insertions have the same sum as there, and may be split otherwise.
    """
    begin, end = _same_ends(reference, hypothesis)
    return [
        *(AlignedWord("hit", word, word) for word in reference[:begin]),
        *_align(reference[begin : len(reference) - end], hypothesis[begin : len(hypothesis) - end]),
        *(AlignedWord("hit", word, word) for word in reference[len(reference) - end :]),
    ]


def _same_ends(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[int, int]:
    """Count the words that both sides begin with, and end with. To pair them is never worse."""
    shorter = min(len(reference), len(hypothesis))
    begin = 0
    while begin < shorter and reference[begin] == hypothesis[begin]:
        begin += 1
    end = 0
    while end < shorter - begin and reference[-1 - end] == hypothesis[-1 - end]:
        end += 1
    return begin, end


def _align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[AlignedWord]:
    if len(reference) * len(hypothesis) > _LARGEST_TABLE:
        return _first_alignment(reference, hypothesis)
    costs = _cost_table(reference, hypothesis)
    aligned: list[AlignedWord] = []
    row, column = len(reference), len(hypothesis)
    while row or column:
        said = reference[row - 1] if row else ""
        heard = hypothesis[column - 1] if column else ""
        here = costs[row][column]
        if row and column and here == costs[row - 1][column - 1] + _cost(said, heard):
            tag: Tag = "hit" if said == heard else "substitution"
            aligned.append(AlignedWord(tag, said, heard))
            row, column = row - 1, column - 1
        elif row and here == costs[row - 1][column] + _ERROR:
            aligned.append(AlignedWord("deletion", said, ""))
            row -= 1
        else:
            aligned.append(AlignedWord("insertion", "", heard))
            column -= 1
    return aligned[::-1]


# Costs are integers, so that the way back through the table compares them exactly. An error weighs
# more than the unlikeness of all the words of an utterance together.
_UNLIKE: Final = 100
_ERROR: Final = 1_000_000
_LARGEST_TABLE: Final = 40_000
"""Cells, i.e. 200 words on either side; beyond that a table takes too long."""


def _cost(said: str, heard: str) -> int:
    if said == heard:
        return 0
    return _ERROR + round(_UNLIKE * Levenshtein.normalized_distance(said, heard))


def _cost_table(reference: Sequence[str], hypothesis: Sequence[str]) -> list[list[int]]:
    """Return the least cost of each pair of beginnings (Wagner and Fischer 1974)."""
    table = [[_ERROR * column for column in range(len(hypothesis) + 1)]]
    for said in reference:
        above = table[-1]
        line = [above[0] + _ERROR]
        for column, heard in enumerate(hypothesis):
            either = min(above[column + 1], line[column]) + _ERROR
            line.append(min(above[column] + _cost(said, heard), either))
        table.append(line)
    return table


def _first_alignment(reference: Sequence[str], hypothesis: Sequence[str]) -> list[AlignedWord]:
    aligned: list[AlignedWord] = []
    for step in Levenshtein.opcodes(reference, hypothesis):
        said = reference[step.src_start : step.src_end]
        heard = hypothesis[step.dest_start : step.dest_end]
        if step.tag == "delete":
            aligned += [AlignedWord("deletion", word, "") for word in said]
        elif step.tag == "insert":
            aligned += [AlignedWord("insertion", "", word) for word in heard]
        else:
            kind: Tag = "hit" if step.tag == "equal" else "substitution"
            pairs = zip(said, heard, strict=True)
            aligned += [AlignedWord(kind, one, other) for one, other in pairs]
    return aligned
