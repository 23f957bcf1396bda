"""``danish-asr score``: a predictions file becomes a table, and whatever files are asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from danish_asr.errors import PredictionsError
from danish_asr.files import publish_text
from danish_asr.predictions import read_predictions
from danish_asr.report.clips import CLIPS, audio_urls
from danish_asr.report.exports import to_csv, to_json, to_markdown
from danish_asr.report.terminal import check_outputs, print_scores, table_console
from danish_asr.report.training import training_panels
from danish_asr.scoring.error_analysis import analyse_errors
from danish_asr.scoring.scored_rows import BANDS
from danish_asr.scoring.scores import DEFAULT_BY, Scores, score_predictions
from danish_asr.scoring.settings import Settings

EVALUATION_FILE: Final = "evaluation.json"
"""What the evaluation recipe writes beside the predictions."""

_ABOUT: Final = ("dataset", "model", "checkpoint")
"""Keys of it that say what was scored."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How many rows the evaluated split has, and what was evaluated."""

    rows_in_split: int
    about: Mapping[str, str]


def score_file(
    path: Path,
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    run_dir: Path | None = None,
    dataset: Path | None = None,
    json_path: Path | None = None,
    csv_path: Path | None = None,
    markdown_path: Path | None = None,
    html_path: Path | None = None,
    console: Console | None = None,
) -> Scores:
    """Score ``path``, print the table of ``by``, and write what paths are given for.

    JSON, CSV and the page also hold the scores by duration and by words per second. ``run_dir``
    adds a run's training curves to the page, ``dataset`` the audio of a few utterances.

    Raises:
        PredictionsError: The file breaks its contract, or has more rows than its split.
        ConfigError: There is no such profile, row filter or column.
        RunError: ``run_dir`` is no run's directory.
        DatasetError: ``dataset`` is no built dataset.
    """
    console = console or table_console()
    check_outputs([path], [json_path, csv_path, markdown_path, html_path])
    evaluation = read_evaluation(path)
    about = evaluation.about if evaluation else {}
    with console.status(f"scoring {escape(str(path))}"):
        scores = score_predictions(
            read_predictions(path),
            by=list(dict.fromkeys([*by, *BANDS])),
            settings=settings,
            rows_in_split=evaluation.rows_in_split if evaluation else None,
        )
        _require_rows_of_split(path, scores)
        asked = scores.only(by)
        documents: list[tuple[Path | None, Callable[[], str]]] = [
            (json_path, lambda: to_json(scores.to_dict())),
            (csv_path, lambda: to_csv(scores)),
            (markdown_path, lambda: to_markdown(asked)),
            (html_path, lambda: _page(path, scores, about, run_dir, dataset)),
        ]
        # All is made before anything is written: a wrong --dataset leaves no half of a report.
        texts = [(target, document()) for target, document in documents if target]
    print_scores(asked, console)
    for target, text in texts:
        publish_text(target, text)
        console.print(f"wrote {target}", soft_wrap=True, markup=False, highlight=False)
    return scores


def _page(
    path: Path,
    scores: Scores,
    about: Mapping[str, str],
    run_dir: Path | None,
    dataset: Path | None,
) -> str:
    from danish_asr.report.page import PageData, render_page  # noqa: PLC0415 - loads matplotlib

    analysis = analyse_errors(read_predictions(path), settings=scores.settings)
    worst = [utterance.id for utterance in analysis.worst[:CLIPS]]
    data = PageData(
        title="Danish speech recognition: scores",
        about=about,
        scores=scores,
        analysis=analysis,
        training=training_panels(run_dir) if run_dir else (),
        clips=audio_urls(dataset, worst) if dataset else {},
    )
    return render_page(data)


def read_evaluation(path: Path) -> Evaluation | None:
    """Return what ``evaluation.json`` beside ``path`` says, or None where there is none.

    Raises:
        PredictionsError: The file cannot be read.
    """
    evaluation = path.with_name(EVALUATION_FILE)
    if not evaluation.is_file():
        return None
    try:
        document = json.loads(evaluation.read_text(encoding="utf-8"))
        rows = sum(int(count) for count in document["rows_in_split"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PredictionsError(
            f'{evaluation}: expected a JSON object with "rows_in_split": {{"<split>": rows}}; '
            "evaluate again, or remove the file to score without it"
        ) from None
    return Evaluation(rows, {key: str(document[key]) for key in _ABOUT if document.get(key)})


def _require_rows_of_split(path: Path, scores: Scores) -> None:
    if scores.rows_in_split is not None and scores.rows_in_file > scores.rows_in_split:
        raise PredictionsError(
            f"{path}: has {scores.rows_in_file} rows, but the split has {scores.rows_in_split} "
            f"({EVALUATION_FILE}); evaluate again"
        )
