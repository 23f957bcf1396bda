"""``evaluation.json``, which the evaluation recipe leaves beside the predictions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from danish_asr.errors import PredictionsError
from danish_asr.scoring.scored_rows import RowsUsed

_FILE: Final = "evaluation.json"
_ABOUT: Final = ("dataset", "model", "checkpoint")
"""Keys of it that say what was scored."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How many rows the evaluated split has, None where nothing tells, and what was evaluated."""

    rows_in_split: int | None
    about: Mapping[str, str]


def evaluation_file(predictions: Path) -> Path:
    """Where the file is looked for."""
    return predictions.parent / _FILE


def read_evaluation(predictions: Path) -> Evaluation:
    """Return what the file beside ``predictions`` says; where there is none, that nothing is known.

    Raises:
        PredictionsError: The file cannot be read.
    """
    path = evaluation_file(predictions)
    if not path.is_file():
        return Evaluation(None, {})
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        rows = sum(_count(count) for count in document["rows_in_split"].values())
        about = {key: _text(document[key]) for key in _ABOUT if document.get(key)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise PredictionsError(
            f'{path}: expected a JSON object with "rows_in_split": {{"<split>": rows}}; '
            "evaluate again, or remove the file to score without it"
        ) from None
    return Evaluation(rows, about)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError
    return value


def _text(value: Any) -> str:
    text = str(value)
    text.encode()  # half a surrogate pair is no text, and a ValueError
    return text


def require_rows_of_split(predictions: Path, rows: RowsUsed) -> None:
    """Refuse a file with more rows than its split.

    Raises:
        PredictionsError: It has more.
    """
    if rows.in_split is not None and rows.in_file > rows.in_split:
        raise PredictionsError(
            f"{predictions}: has {rows.in_file} rows, but the split has {rows.in_split} ({_FILE}); "
            "evaluate again"
        )
