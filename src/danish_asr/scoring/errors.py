"""Which errors a system makes: confused words and characters, compounds, the worst utterances.

In: the scored rows of `danish_asr.scoring.scores`. Out: lists, the most frequent errors first.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pandas as pd
from rapidfuzz.distance import Levenshtein

from danish_asr.metrics import AlignedWord, Denominator, align_words, split_words
from danish_asr.scoring.intervals import COUNTS, WORD_COUNTS, rates, word_counts

WORST: Final = 50
WORST_WORDS: Final = 5
"""Words of a reference; shorter utterances are not ranked by WER."""

LONGEST_WORD: Final = 1_000  # letters; aligning the characters of longer words takes too long
LONGEST_COMPOUND: Final = 4  # words; Danish compounds rarely have more parts
LARGEST_TABLE: Final = 2_500  # compounds are searched in stretches of up to 50 by 50 words

Pair = tuple[str, str]


class Confusion(NamedTuple):
    """How often a hypothesis was given for a reference; one is empty in insertions, deletions."""

    reference: str
    hypothesis: str
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnalysis:
    """The most frequent errors first; the worst utterances by word errors, then others by WER."""

    rows: int
    rows_with_errors: int
    word_errors: int
    compound_errors: int  # of the word errors: compounds written apart or together
    substitutions: list[Confusion]
    insertions: list[Confusion]
    deletions: list[Confusion]
    character_confusions: list[Confusion]
    worst: list[dict[str, Any]]
    """Rows of the table with ``errors`` and ``words``, ``wer`` and ``alignment`` of the words."""


def analyse_errors(table: pd.DataFrame, denominator: Denominator = "standard") -> ErrorAnalysis:
    """Analyse the errors of scored rows; all confusions are listed."""
    wrong = table[table[[*WORD_COUNTS[1:]]].any(axis=1)]
    pairs: Counter[Pair] = Counter()
    without_compounds = 0
    for texts in wrong[["reference_normalised", "hypothesis_normalised"]].to_numpy():
        words, others = map(split_words, texts)
        pairs.update(_errors(align_words(words, others)))
        without_compounds += errors_without_compounds(words, others)
    substitutions = {pair: count for pair, count in pairs.items() if all(pair)}
    return ErrorAnalysis(
        rows=len(table),
        rows_with_errors=len(wrong),
        word_errors=pairs.total(),
        compound_errors=pairs.total() - without_compounds,
        substitutions=_most_frequent(substitutions),
        insertions=_most_frequent({p: count for p, count in pairs.items() if not p[0]}),
        deletions=_most_frequent({p: count for p, count in pairs.items() if not p[1]}),
        character_confusions=_most_frequent(_confused_characters(substitutions)),
        worst=_worst(wrong, denominator),
    )


def _errors(aligned: Sequence[AlignedWord]) -> Iterator[Pair]:
    return ((reference, hypothesis) for tag, reference, hypothesis in aligned if tag != "hit")


def _worst(wrong: pd.DataFrame, denominator: Denominator) -> list[dict[str, Any]]:
    counts = word_counts(wrong)
    wer, _ = rates(wrong[[*COUNTS]].to_numpy(), denominator)
    ranked = wrong.assign(
        errors=counts.errors.astype(int), words=counts.reference_length.astype(int), wer=wer
    )
    by_errors = ranked.sort_values(["errors", "wer", "id"], ascending=False)[:WORST]
    long = ranked[ranked["words"] >= WORST_WORDS]
    by_wer = long.sort_values(["wer", "errors", "id"], ascending=False)[:WORST]
    chosen = pd.concat([by_errors, by_wer])
    rows: list[Any] = chosen[~chosen.index.duplicated()].to_dict("records")
    for row in rows:
        texts = row["reference_normalised"], row["hypothesis_normalised"]
        row["alignment"] = align_words(*map(split_words, texts))
    return rows


def _most_frequent(counts: Mapping[Pair, int]) -> list[Confusion]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Confusion(*pair, count) for pair, count in ordered]


def _confused_characters(substitutions: Mapping[Pair, int]) -> Counter[Pair]:
    characters: Counter[Pair] = Counter()
    for (reference, hypothesis), count in substitutions.items():
        if max(len(reference), len(hypothesis)) > LONGEST_WORD:
            continue
        for pair in _errors(align_words(reference, hypothesis)):
            characters[pair] += count
    return characters


def errors_without_compounds(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Count word errors, where "rød grød" for "rødgrød" (in either direction) is not an error.

    Only stretches between two hits of jiwer's alignment are searched.
    """
    errors = begin = other_begin = 0
    for block in Levenshtein.opcodes(reference, hypothesis).as_matching_blocks():
        errors += _stretch_errors(reference[begin : block.a], hypothesis[other_begin : block.b])
        begin, other_begin = block.a + block.size, block.b + block.size
    return errors


def _stretch_errors(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Return the edit distance (Wagner and Fischer 1974) with compounds as steps of no cost."""
    rows, columns = len(reference), len(hypothesis)
    errors = max(rows, columns)
    if errors == 1 or not rows * columns or rows * columns > LARGEST_TABLE:
        return errors
    spans_of: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for begin, end in _spans(columns):
        spans_of["".join(hypothesis[begin:end])].append((begin, end))
    # For each pair of ends the beginnings of runs of the same letters.
    same: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for begin, end in _spans(rows):
        for other_begin, other_end in spans_of.get("".join(reference[begin:end]), ()):
            same[end, other_end].append((begin, other_begin))
    if not same:
        return errors
    table = [list(range(columns + 1))]
    for row in range(1, rows + 1):
        above, line = table[-1], [row]
        table.append(line)
        for column in range(1, columns + 1):
            least = 1 + min(above[column], line[-1], above[column - 1])
            matches = [table[begin][other] for begin, other in same.get((row, column), ())]
            line.append(min([least, *matches]))
    return table[-1][-1]


def _spans(words: int) -> Iterator[tuple[int, int]]:
    for begin in range(words):
        for end in range(begin + 1, min(begin + LONGEST_COMPOUND, words) + 1):
            yield begin, end
