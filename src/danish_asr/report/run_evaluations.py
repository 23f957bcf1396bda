"""The finished evaluations of a run: their scores, and utterances to read."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from danish_asr.metrics import align_words, split_words
from danish_asr.scoring.error_analysis import WorstUtterance
from danish_asr.scoring.predictions import Prediction, read_predictions
from danish_asr.scoring.scores import Scores, score_predictions
from danish_asr.scoring.settings import Settings

_LISTED: Final = 5


class Evaluation(NamedTuple):
    """Scores of ``predictions`` with the default settings, and what was scored."""

    predictions: Path
    about: dict[str, Any]
    scores: Scores
    decoder: str

    @property
    def split(self) -> str:
        """The splits that were scored, and which rows of them if not all."""
        where = self.about.get("where")
        return ", ".join(self.about["rows_in_split"]) + (f", where {where}" if where else "")


def evaluations(run: Path) -> list[Evaluation]:
    """Return the evaluations of a run, those of the whole test split first."""
    finished = [
        _evaluation(file, file.stat().st_mtime_ns)
        for file in sorted(run.glob("eval/**/predictions.jsonl"))
        if file.with_name("evaluation.json").is_file()
    ]

    def order(evaluation: Evaluation) -> tuple[bool, bool]:
        return "test" not in evaluation.split, "where" in evaluation.about

    return sorted(finished, key=order)


@lru_cache(maxsize=64)
def _evaluation(predictions: Path, _changed: int) -> Evaluation:
    about = json.loads(predictions.with_name("evaluation.json").read_text(encoding="utf-8"))
    rows = sum(about["rows_in_split"].values())
    scores = score_predictions(read_predictions(predictions), by=["dialect"], rows_in_split=rows)
    decoder = str(about.get("decoder", {}).get("name", "greedy"))
    # eval/<checkpoint>/<split>/predictions.jsonl, or in a directory below with a label of its own
    label = predictions.parent.name if predictions.parents[3].name == "eval" else decoder
    named = decoder if label == decoder else f"{decoder} ({label})"
    return Evaluation(predictions, about, scores, named)


def utterances(evaluation: Evaluation) -> dict[str, list[WorstUtterance]]:
    """Return the utterances with most errors, and some from the lowest to the highest WER."""
    rows = [*map(_aligned, Settings().scored(read_predictions(evaluation.predictions)))]
    worst = sorted(rows, key=lambda row: (row.word_errors, row.wer), reverse=True)[:_LISTED]
    ordered = sorted(rows, key=lambda row: row.wer)
    shares = range(10, 100, 20)
    return {
        "Worst: most word errors": [row for row in worst if row.word_errors],
        f"Typical, if not listed above: at {', '.join(map(str, shares))} % in order of WER": [
            ordered[at]
            for at in sorted({len(ordered) * share // 100 for share in shares})
            if not (ordered[at].word_errors and ordered[at] in worst)
        ],
    }


def _aligned(row: tuple[Prediction, str, str]) -> WorstUtterance:
    prediction, reference, hypothesis = row
    alignment = align_words(split_words(reference), split_words(hypothesis))
    wrong = sum(word.tag != "hit" for word in alignment)
    words = sum(bool(word.reference) for word in alignment)
    return WorstUtterance(prediction, wrong, words, wrong / max(words, 1), alignment)
