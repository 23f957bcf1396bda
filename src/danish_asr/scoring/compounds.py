"""Compounds written apart: "rød grød" for "rødgrød", in either direction (Danish: særskrivning)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rapidfuzz.distance import Levenshtein, Opcode

LONGEST_COMPOUND: Final = 4
"""Words; Danish compounds rarely have more parts."""

LARGEST_TABLE: Final = 2_500
"""Cells of the table for a stretch without a word heard right: 50 words on either side. In a longer
one no compounds are looked for, because the table grows with the product of both sides."""

_Place = tuple[int, int]
"""A number of words of the reference, and one of the hypothesis."""


def errors_without_compounds(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Count the word errors where compounds written apart are none: "rød grød" for "rødgrød".

    Up to ``LONGEST_COMPOUND`` words of one side stand for as many of the other if they are the same
    letters, parted elsewhere. Only whole stretches between words heard right are looked at.
    """
    return sum(
        _block_errors(reference[said], hypothesis[heard])
        for said, heard in _stretches(Levenshtein.opcodes(reference, hypothesis))
    )


def _stretches(opcodes: Iterable[Opcode]) -> Iterator[tuple[slice, slice]]:
    """Yield what stands on either side between two hits."""
    said = heard = 0
    for step in opcodes:
        if step.tag == "equal":
            yield slice(said, step.src_start), slice(heard, step.dest_start)
            said, heard = step.src_end, step.dest_end
    yield slice(said, None), slice(heard, None)


def _block_errors(said: Sequence[str], heard: Sequence[str]) -> int:
    """Count the errors of a stretch without hits, every word being one but for compounds."""
    errors = max(len(said), len(heard))
    if not said or not heard or len(said) * len(heard) > LARGEST_TABLE:
        return errors
    compounds = _compounds(said, heard)
    return _least_errors(said, heard, compounds) if compounds else errors


def _compounds(said: Sequence[str], heard: Sequence[str]) -> Mapping[_Place, list[_Place]]:
    """Return for each place in both texts the compounds that end there: where they begin."""
    runs: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for begin, end in _runs(len(heard)):
        runs["".join(heard[begin:end])].append((begin, end))
    found: defaultdict[_Place, list[_Place]] = defaultdict(list)
    for begin, end in _runs(len(said)):
        for other_begin, other_end in runs.get("".join(said[begin:end]), ()):
            if _parted_elsewhere(said[begin:end], heard[other_begin:other_end]):
                found[end, other_end].append((begin, other_begin))
    return found


def _runs(words: int) -> Iterator[tuple[int, int]]:
    for begin in range(words):
        for end in range(begin + 1, min(begin + LONGEST_COMPOUND, words) + 1):
            yield begin, end


def _parted_elsewhere(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two runs of the same letters are no two shorter ones: no space stands in both."""
    return max(len(one), len(other)) > 1 and not _spaces(one) & _spaces(other)


def _spaces(words: Sequence[str]) -> set[int]:
    """Return how many letters stand before each space."""
    return {sum(map(len, words[:count])) for count in range(1, len(words))}


def _least_errors(
    said: Sequence[str], heard: Sequence[str], compounds: Mapping[_Place, list[_Place]]
) -> int:
    """Return the edit distance (Wagner and Fischer 1974) with compounds as steps that cost nothing.

    Sides are not empty. A cell is the least number of errors up to a place.
    """
    table = [list(range(len(heard) + 1))]
    for row, word in enumerate(said, start=1):
        above, line = table[-1], [row]
        for column, other in enumerate(heard, start=1):
            least = min(above[column] + 1, line[-1] + 1, above[column - 1] + (word != other))
            for from_row, from_column in compounds.get((row, column), ()):
                least = min(least, table[from_row][from_column])
            line.append(least)
        table.append(line)
    return table[-1][-1]
