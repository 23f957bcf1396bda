"""Which pieces of a recording become utterances, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

from danish_asr.inference.harvest.limits import Limits
from danish_asr.inference.harvest.pieces import Candidate, Piece

Kind = Literal["text", "pseudo"]

TEXT: Final = "text"
PSEUDO: Final = "pseudo"

_PAUSE: Final = 1.0
"""Seconds between two pieces of an utterance, at most."""


class Selected(NamedTuple):
    """The utterances of a recording by kind, and a row for each piece of it that is none."""

    utterances: dict[Kind, list[Candidate]]
    left_out: list[dict[str, Any]]


def select(pieces: Sequence[Piece], words: Sequence[str], limits: Limits) -> Selected:
    """Apply the limits to the pieces of a recording and to the words of its text.

    Neighbours of a kind become one utterance if no word of the text is between them.
    """
    utterances: dict[Kind, list[Candidate]] = {TEXT: [], PSEUDO: []}
    left_out = []
    chosen: list[tuple[Kind, Candidate]] = []
    for piece in pieces:
        own = _choice(piece, limits)
        if isinstance(own, dict):
            left_out.append(own)
        elif chosen and chosen[-1][0] == own[0] and _continues(chosen[-1][1], own, limits):
            chosen[-1] = own[0], _joined(chosen[-1][1], own[1])
        else:
            chosen.append(own)
    for kind, utterance in chosen:
        seconds = utterance.end - utterance.start
        if limits.min_seconds <= seconds <= limits.max_seconds:
            utterances[kind].append(utterance)
            continue
        least, most = limits.min_seconds, limits.max_seconds
        reason = f"shorter than {least:g} s" if seconds < least else f"longer than {most:g} s"
        left_out.append(_row(utterance.start, utterance.end, reason, text=utterance.text))
    left_out += _unused(words, utterances[TEXT])
    return Selected(utterances, left_out)


def _choice(piece: Piece, limits: Limits) -> tuple[Kind, Candidate] | dict[str, Any]:
    """Return the transcript of a piece, or its row among what is left out."""
    matched, labelled = piece.matched, piece.labelled
    if matched is not None and matched.cer <= limits.max_cer:
        return TEXT, matched
    unsure = labelled is not None and labelled.confidence < limits.min_confidence
    if labelled is not None and not unsure and labelled.cer <= limits.max_disagreement:
        return PSEUDO, labelled
    if not piece.hypothesis:
        return _row(piece.start, piece.end, "the model writes no word")
    values: dict[str, Any] = {"hypothesis": piece.hypothesis}
    reasons = []
    if matched is not None:
        reasons.append("text and speech differ")
        values |= {"text": matched.text, "cer": matched.cer, "max_cer": limits.max_cer}
    elif labelled is None:
        reasons.append("no text")
    if labelled is not None:
        reasons.append("the model is unsure" if unsure else "the models differ")
        values |= {
            "disagreement": labelled.cer,
            "max_disagreement": limits.max_disagreement,
            "confidence": labelled.confidence,
            "min_confidence": limits.min_confidence,
        }
    return _row(piece.start, piece.end, ", ".join(reasons), **values)


def _row(start: float, end: float, reason: str, **values: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "reason": reason, **values}


def _continues(before: Candidate, own: tuple[Kind, Candidate], limits: Limits) -> bool:
    kind, after = own
    return (
        after.start - before.end <= _PAUSE
        and after.end - before.start <= limits.max_seconds
        and before.speaker == after.speaker
        and (kind == PSEUDO or before.last == after.first)
    )


def _joined(before: Candidate, after: Candidate) -> Candidate:
    a, b = len(before.text), len(after.text)
    return replace(
        before,
        text=f"{before.text} {after.text}",
        end=after.end,
        last=after.last,
        cer=(a * before.cer + b * after.cer) / (a + b),
        confidence=(before.confidence**a * after.confidence**b) ** (1 / (a + b)),
    )


def _unused(words: Sequence[str], utterances: Sequence[Candidate]) -> Iterator[dict[str, Any]]:
    """Yield the stretches of a text that no utterance has."""
    used = {word for own in utterances for word in range(own.first, own.last)}
    for is_used, group in groupby(range(len(words)), used.__contains__):
        if not is_used:
            text = " ".join(words[number] for number in group)
            yield {"reason": "in the text only", "text": text}
