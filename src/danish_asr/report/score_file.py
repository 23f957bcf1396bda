"""``danish-asr score``: a predictions file becomes a table, and whatever files are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from danish_asr.errors import PredictionsError
from danish_asr.files import publish_text
from danish_asr.report.clips import CLIPS, MAX_BYTES, audio_urls
from danish_asr.report.evaluation import evaluation_file, read_evaluation, require_rows_of_split
from danish_asr.report.exports import to_csv, to_json, to_markdown
from danish_asr.report.outputs import check_outputs
from danish_asr.report.terminal import print_scores, warn
from danish_asr.report.training import Panel, training_panels
from danish_asr.report.usage import usage_panels
from danish_asr.scoring.error_analysis import analyse_errors
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.scored_rows import BANDS
from danish_asr.scoring.scores import DEFAULT_BY, Scores, score_predictions
from danish_asr.scoring.settings import Settings


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
    adds a run's training curves and the trace of its jobs to the page, ``dataset`` the audio of a
    few utterances.

    Raises:
        PredictionsError: The file breaks its contract, is a pipe, or has more rows than its split.
        ConfigError: There is no such column, or an output would overwrite what is read.
        RunError: ``run_dir`` is no run's directory.
        DatasetError: ``dataset`` is no built dataset.
    """
    console = console or Console()
    _refuse_pipe(path)
    check_outputs(
        [json_path, csv_path, markdown_path, html_path],
        inputs=[path, evaluation_file(path)],
        folders=[folder for folder in (run_dir, dataset) if folder],
    )
    evaluation = read_evaluation(path)
    # What is missing is told before the work begins.
    training = [*training_panels(run_dir), *usage_panels(run_dir)] if run_dir else []
    if dataset:
        audio_urls(dataset, ())
    with console.status(f"scoring {escape(str(path))}"):
        scores = score_predictions(
            read_predictions(path),
            by=list(dict.fromkeys([*by, *BANDS])),
            settings=settings,
            rows_in_split=evaluation.rows_in_split,
        )
        require_rows_of_split(path, scores.rows)
        asked = scores.only(by)
        page = partial(
            _page,
            path,
            scores,
            about=evaluation.about,
            training=training,
            dataset=dataset,
            console=console,
        )
        documents: list[tuple[Path | None, Callable[[], str]]] = [
            (json_path, lambda: to_json(scores.to_dict())),
            (csv_path, lambda: to_csv(scores)),
            (markdown_path, lambda: to_markdown(asked)),
            (html_path, page),
        ]
        # All is made before anything is written: a wrong --dataset leaves no half of a report.
        texts = [(target, document()) for target, document in documents if target]
    print_scores(asked, console)
    for target, text in texts:
        publish_text(target, text)
        console.print(f"wrote {target}", soft_wrap=True, markup=False, highlight=False)
    return scores


def _refuse_pipe(path: Path) -> None:
    """The page reads the predictions once more, and a pipe is empty by then."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise PredictionsError(
            f"{path}: is no regular file, and it is read twice; write what it gives to a file and "
            "score that, say `zcat predictions.jsonl.gz > predictions.jsonl`"
        )


def _page(
    path: Path,
    scores: Scores,
    *,
    about: Mapping[str, str],
    training: Sequence[Panel],
    dataset: Path | None,
    console: Console,
) -> str:
    from danish_asr.report.page import PageData, render_page  # noqa: PLC0415 - loads matplotlib

    analysis = analyse_errors(read_predictions(path), settings=scores.settings)
    worst = [utterance.id for utterance in analysis.worst[:CLIPS]]
    clips = audio_urls(dataset, worst) if dataset else {}
    if dataset and len(clips) < len(worst):
        warn(
            f"{dataset}: audio of {len(clips)} of the {len(worst)} worst utterances is there, in "
            f"clips of at most {MAX_BYTES / 1e6:g} MB; is it the dataset that was evaluated?",
            console,
        )
    data = PageData(
        title="Danish speech recognition: scores",
        about=about,
        scores=scores,
        analysis=analysis,
        training=training,
        clips=clips,
    )
    return render_page(data)
