"""``danish-asr score`` and ``danish-asr compare``: from predictions files to tables and reports."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from danish_asr.errors import ConfigError, PredictionsError
from danish_asr.files import publish_text
from danish_asr.report.tables import print_comparison, print_scores, say, to_csv, to_markdown
from danish_asr.scoring.comparison import Comparison, compare_predictions
from danish_asr.scoring.error_analysis import analyse_errors
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.scored_rows import BANDS, RowsUsed
from danish_asr.scoring.scores import Scores, score_predictions
from danish_asr.scoring.settings import DEFAULT_BY, Settings

_EVALUATION: Final = "evaluation.json"


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
    """
    console = console or Console()
    _check_outputs([json_path, csv_path, markdown_path, html_path], [path])
    with console.status(f"scoring {escape(str(path))}"):
        scores = score_predictions(
            read_predictions(path),
            by=list(dict.fromkeys([*by, *BANDS])),
            settings=settings,
            rows_in_split=_rows_in_split(path),
        )
        _check_rows(path, scores.rows)
        requested = scores.only(by)
        # All texts are made before the first is written: a wrong --dataset leaves no half report.
        texts: dict[Path, str] = {}
        if json_path:
            texts[json_path] = _json(scores.to_dict())
        if csv_path:
            texts[csv_path] = to_csv(scores)
        if markdown_path:
            texts[markdown_path] = to_markdown(requested)
        if html_path:
            from danish_asr.report import curves, page  # noqa: PLC0415 - slow: matplotlib, pandas

            analysis = analyse_errors(read_predictions(path), settings=scores.settings)
            worst = {utterance.row.id for utterance in analysis.worst[:10]}
            texts[html_path] = page.render_page(
                scores,
                analysis,
                about=_evaluation(path),
                panels=curves.read_panels(run_dir) if run_dir else [],
                clips=page.audio_clips(dataset, worst, console) if dataset else {},
            )
    print_scores(requested, console)
    _write(texts, console)
    return scores


def compare_files(
    a: Path,
    b: Path,
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    json_path: Path | None = None,
    console: Console | None = None,
) -> Comparison:
    """Compare two files, print the table, and write JSON if a path is given."""
    console = console or Console()
    _check_outputs([json_path], [a, b])
    comparison = compare_predictions(
        read_predictions(a),
        read_predictions(b),
        by=by,
        settings=settings,
        names=(str(a), str(b)),
        rows_in_split=(_rows_in_split(a), _rows_in_split(b)),
    )
    for file, rows in zip((a, b), comparison.rows.values(), strict=True):
        _check_rows(file, rows)
    say(f"A: {a}\nB: {b}", console)
    print_comparison(comparison, console)
    if json_path:
        document = comparison.to_dict() | {"files": {"a": str(a), "b": str(b)}}
        _write({json_path: _json(document)}, console)
    return comparison


def _evaluation(predictions: Path) -> dict[str, Any]:
    """Read what the evaluation recipe writes beside the predictions, if it is there."""
    file = predictions.parent / _EVALUATION
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def _rows_in_split(predictions: Path) -> int | None:
    rows = _evaluation(predictions).get("rows_in_split")
    return sum(rows.values()) if rows else None


def _check_rows(predictions: Path, rows: RowsUsed) -> None:
    if rows.in_split is not None and rows.in_file > rows.in_split:
        raise PredictionsError(
            f"{predictions}: has {rows.in_file} rows, but the split has {rows.in_split} "
            f"({_EVALUATION}); evaluate again"
        )


def _check_outputs(outputs: Iterable[Path | None], predictions: Iterable[Path]) -> None:
    """Refuse outputs that would replace an input or each other."""
    inputs = {p.resolve() for path in predictions for p in (path, path.parent / _EVALUATION)}
    uses = Counter([*inputs, *(path.resolve() for path in outputs if path)])
    faults = [
        f"{path} is an input or another output; choose another file"
        for path, count in uses.items()
        if count > 1
    ]
    if faults:
        raise ConfigError(faults, where="the command line")


def _write(texts: Mapping[Path, str], console: Console) -> None:
    for path, text in texts.items():
        publish_text(path, text)
        say(f"wrote {path}", console)


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"
