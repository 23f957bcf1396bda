"""``danish-asr score``: a table of a predictions file's scores, and the reports in other forms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from danish_asr.report import files
from danish_asr.report.curves import training_panels, usage_panels
from danish_asr.report.tables import print_scores, to_csv, to_markdown
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
    """Score ``path``, print the table of ``by``, and write the reports that have a path.

    JSON, CSV and the page also hold the scores by duration and by words per second. ``run_dir``
    adds the training curves and the GPU and memory use of a run to the page, ``dataset`` the audio
    of the worst utterances.

    Raises:
        PredictionsError: The file breaks its contract or has more rows than its split.
        ConfigError: A column does not exist, or an output would replace an input.
        RunError: ``run_dir`` is not the directory of a run.
        DatasetError: ``dataset`` is not a built dataset.
    """
    console = console or Console()
    files.check_outputs([json_path, csv_path, markdown_path, html_path], [path])
    evaluation = files.read_evaluation(path)
    panels = [*training_panels(run_dir), *usage_panels(run_dir)] if run_dir else []
    with console.status(f"scoring {escape(str(path))}"):
        scores = score_predictions(
            read_predictions(path),
            by=list(dict.fromkeys([*by, *BANDS])),
            settings=settings,
            rows_in_split=evaluation.rows_in_split,
        )
        files.require_rows_of_split(path, scores.rows)
        requested = scores.only(by)
        # All texts are made before the first is written: a wrong --dataset leaves no half report.
        texts: dict[Path, str] = {}
        if json_path:
            texts[json_path] = files.to_json(scores.to_dict())
        if csv_path:
            texts[csv_path] = to_csv(scores)
        if markdown_path:
            texts[markdown_path] = to_markdown(requested)
        if html_path:
            from danish_asr.report import page  # noqa: PLC0415 - loads matplotlib

            analysis = analyse_errors(read_predictions(path), settings=scores.settings)
            clips = page.worst_clips(dataset, analysis, console) if dataset else {}
            texts[html_path] = page.render_page(
                scores, analysis, about=evaluation.about, panels=panels, clips=clips
            )
    print_scores(requested, console)
    files.write_outputs(texts, console)
    return scores
