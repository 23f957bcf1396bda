"""Word alignments: what stands against what in a reference and a hypothesis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rapidfuzz.distance import Levenshtein, Opcode

Tag = Literal["hit", "substitution", "deletion", "insertion"]


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """One column of an alignment; the side that has no word is the empty string."""

    tag: Tag
    reference: str
    hypothesis: str


def align_words(reference: Sequence[str], hypothesis: Sequence[str]) -> list[AlignedWord]:
    """Return an alignment with the fewest errors, in which like words stand against like words.

    Several alignments have the fewest errors, and `danish_asr.metrics.align_counts` counts one of
    them. For people the one is taken whose substituted words have the most letters in common, so
    substitutions, deletions and insertions have the same sum as there, and may be split otherwise.
    """
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


def join_compounds(
    reference: Sequence[str], hypothesis: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return both sides with compounds written alike: "rød grød" against "rødgrød" is no error.

    Wherever words of one side, written together, are one or several words of the other, both
    sides get the joined word. Only whole stretches between hits are looked at.
    """
    said: list[str] = []
    heard: list[str] = []
    for block in _blocks(Levenshtein.opcodes(reference, hypothesis)):
        left, right = reference[block.said], hypothesis[block.heard]
        one, other = (left, right) if block.is_equal else _joined(left, right)
        said += one
        heard += other
    return said, heard


@dataclass(frozen=True, slots=True)
class _Block:
    is_equal: bool
    said: slice
    heard: slice


def _blocks(opcodes: Iterable[Opcode]) -> list[_Block]:
    """Merge neighbouring edits, so that a stretch between two hits is one block."""
    blocks: list[_Block] = []
    for step in opcodes:
        is_equal = step.tag == "equal"
        said = slice(step.src_start, step.src_end)
        heard = slice(step.dest_start, step.dest_end)
        if blocks and not is_equal and not blocks[-1].is_equal:
            before = blocks.pop()
            said = slice(before.said.start, said.stop)
            heard = slice(before.heard.start, heard.stop)
        blocks.append(_Block(is_equal, said, heard))
    return blocks


def _joined(said: Sequence[str], heard: Sequence[str]) -> tuple[list[str], list[str]]:
    """Join runs of words of both sides that are the same letters without the spaces."""
    left, right = list(said), list(heard)
    at = 0
    while at < len(left):
        found = _run_pair(left, right, at)
        if found:
            (begin, end), (from_, to) = found
            word = "".join(left[begin:end])
            left[begin:end] = [word]
            right[from_:to] = [word]
        at += 1
    return left, right


_LONGEST_RUN: Final = 4
"""Words; Danish compounds rarely have more parts."""


def _run_pair(
    left: Sequence[str], right: Sequence[str], begin: int
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Find a run that starts at ``begin`` and a run of the other side that joins to the same."""
    runs = {
        "".join(right[from_:to]): (from_, to)
        for from_ in range(len(right))
        for to in range(from_ + 1, min(from_ + _LONGEST_RUN, len(right)) + 1)
    }
    for end in range(begin + 1, min(begin + _LONGEST_RUN, len(left)) + 1):
        other = runs.get("".join(left[begin:end]))
        if other and (end - begin, other[1] - other[0]) != (1, 1):
            return (begin, end), other
    return None
