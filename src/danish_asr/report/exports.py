"""The files of ``danish-asr score`` that hold more than scores: one row per utterance or error."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from danish_asr.base.errors import PredictionsError
from danish_asr.base.files import AnyPath, publish
from danish_asr.scoring import hub
from danish_asr.scoring.error_analysis import ErrorAnalysis
from danish_asr.scoring.exports import error_rows, trn_lines, utterance_rows
from danish_asr.scoring.predictions import Prediction
from danish_asr.scoring.scores import Scores
from danish_asr.scoring.settings import Settings

_FORMULA: Final = re.compile(r"(?=[=+\-@])(?![+-]?\d+(\.\d+)?$)")


def guarded(text: str) -> str:
    """Put an apostrophe before what a spreadsheet would run as a formula (CWE-1236)."""
    return f"'{text}" if _FORMULA.match(text) else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Exports:
    """Where each is written; None: not at all. The suffix, .csv or .jsonl, gives the format."""

    utterances: Path | None = None
    errors: Path | None = None
    trn: Path | None = None  # the directory of ref.trn and hyp.trn
    model_index: Path | None = None
    leaderboard: Path | None = None  # an earlier file is completed
    model_name: str | None = None  # in the last two; default: the model of the evaluation

    def __post_init__(self) -> None:
        for name in ("utterances", "errors", "trn", "model_index", "leaderboard"):
            if path := getattr(self, name):
                object.__setattr__(self, name, Path(path))  # a notebook gives a string

    @property
    def groupings(self) -> list[str]:
        """The groupings that are needed, besides those for display."""
        return [hub.BY_CORPUS] if self.model_index or self.leaderboard else []

    @property
    def trn_files(self) -> list[Path]:
        """The two files for NIST's sclite, if requested."""
        return [self.trn / "ref.trn", self.trn / "hyp.trn"] if self.trn else []

    @property
    def paths(self) -> list[Path]:
        """All files that are written."""
        single = (self.utterances, self.errors, self.model_index, self.leaderboard)
        return [path for path in (*single, *self.trn_files) if path]

    def faults(self, settings: Settings, model: str) -> list[str]:
        """What is wrong with the paths, or with the settings or the model's name for them."""
        names = [
            f"{path}: expected a name that ends in .csv or .jsonl"
            for path in (self.utterances, self.errors)
            if path and path.suffix not in {".csv", ".jsonl"}
        ]
        if self.groupings and not (self.model_name or model):
            names.append("--model-name: expected one, as no evaluation.json names the model")
        return names + (hub.leaderboard_faults(settings) if self.leaderboard else [])

    def texts(self, scores: Scores, model: str) -> dict[AnyPath, str]:
        """Return the content of the files for Hugging Face; the scores have `groupings`."""
        model = self.model_name or model
        texts: dict[AnyPath, str] = {}
        if self.model_index:
            texts[self.model_index] = hub.model_index(scores, model)
        if self.leaderboard:
            earlier = _read_object(self.leaderboard) if self.leaderboard.exists() else {}
            found = hub.leaderboard(scores, model, earlier)
            texts[self.leaderboard] = json.dumps(found, ensure_ascii=False, indent=2) + "\n"
        return texts

    def write(
        self,
        predictions: Iterable[Prediction],
        settings: Settings,
        analysis: ErrorAnalysis | None,
    ) -> list[Path]:
        """Write what has a line per prediction or per error, and return the files.

        The predictions are read more than once and not kept in memory.
        """
        if self.utterances:
            extra: dict[str, None] = {}
            if self.utterances.suffix == ".csv":  # its first line names all columns
                extra = dict.fromkeys(key for row in predictions for key in row.extra)
            rows = utterance_rows(predictions, settings=settings)
            _write_rows(self.utterances, rows, list(extra))
        if self.errors and analysis:
            _write_rows(self.errors, error_rows(analysis))
        if self.trn_files:
            reference, hypothesis = self.trn_files
            with publish(reference) as of_reference, publish(hypothesis) as of_hypothesis:
                for lines in trn_lines(predictions, settings=settings):
                    for stream, line in zip((of_reference, of_hypothesis), lines, strict=True):
                        stream.write(f"{line}\n".encode())
        return [file for file in (self.utterances, self.errors, *self.trn_files) if file]


def _read_object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise PredictionsError(f"{path}: expected an earlier file of --leaderboard, a JSON object")
    return found


def _write_rows(path: Path, rows: Iterable[Mapping[str, Any]], extra: Sequence[str] = ()) -> None:
    """Write rows as CSV or JSONL; the columns of a CSV are those of its first row and ``extra``."""
    with publish(path) as stream:
        if path.suffix == ".jsonl":
            for row in rows:
                stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            return
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        writer: csv.DictWriter[str] | None = None
        for row in rows:
            if writer is None:
                columns = dict.fromkeys([*row, *extra])
                writer = csv.DictWriter(text, columns, lineterminator="\n")
                writer.writeheader()
            cells = row.items()
            writer.writerow({k: guarded(v) if isinstance(v, str) else v for k, v in cells})
        text.detach()
