"""The files around a report: ``evaluation.json`` beside the predictions, and the outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from danish_asr.errors import ConfigError, PredictionsError
from danish_asr.files import publish_text
from danish_asr.scoring.scored_rows import RowsUsed

_ABOUT: Final = ("dataset", "model", "checkpoint")
"""Keys of ``evaluation.json`` that say what was scored."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The number of rows in the evaluated split, if known, and what was evaluated."""

    rows_in_split: int | None
    about: Mapping[str, str]


def read_evaluation(predictions: Path) -> Evaluation:
    """Read the ``evaluation.json`` that the evaluation recipe writes beside the predictions.

    Raises:
        PredictionsError: The file cannot be read.
    """
    path = _evaluation_file(predictions)
    if not path.is_file():
        return Evaluation(None, {})
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        about = {key: str(document[key]) for key in _ABOUT if document.get(key)}
        return Evaluation(sum(document["rows_in_split"].values()), about)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise PredictionsError(
            f'{path}: expected a JSON object with "rows_in_split": {{"<split>": rows}}; '
            "evaluate again, or remove the file to score without it"
        ) from None


def require_rows_of_split(predictions: Path, rows: RowsUsed) -> None:
    """Refuse a file with more rows than its split.

    Raises:
        PredictionsError: It has more rows.
    """
    if rows.in_split is not None and rows.in_file > rows.in_split:
        raise PredictionsError(
            f"{predictions}: has {rows.in_file} rows, but the split has {rows.in_split} "
            f"({_evaluation_file(predictions).name}); evaluate again"
        )


def check_outputs(outputs: Sequence[Path | None], predictions: Sequence[Path]) -> None:
    """Refuse outputs that would replace an input, each other, or something other than a file.

    Raises:
        ConfigError: With all such outputs.
    """
    taken = {file.resolve() for p in predictions for file in (p, _evaluation_file(p))}
    faults = []
    for output in filter(None, outputs):
        place = output.resolve()
        if place in taken:
            faults.append(f"{output} is an input or another output; choose another file")
        elif place.exists() and not place.is_file():
            faults.append(f"{output} is not a regular file; choose another name")
        taken.add(place)
    if faults:
        raise ConfigError(faults, where="the command line")


def write_outputs(texts: Mapping[Path, str], console: Console) -> None:
    """Write each text atomically and print the names of the files."""
    for path, text in texts.items():
        publish_text(path, text)
        console.print(f"wrote {path}", soft_wrap=True, markup=False, highlight=False)


def to_json(document: Mapping[str, object]) -> str:
    """Return indented JSON that keeps Danish letters."""
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _evaluation_file(predictions: Path) -> Path:
    return predictions.parent / "evaluation.json"
