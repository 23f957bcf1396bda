"""``danish-asr score`` and ``danish-asr compare``: from predictions files to tables and reports."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from os.path import realpath
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.markup import escape

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.base.files import AnyPath, publish_text
from danish_asr.base.schema import VERSION_DIR
from danish_asr.base.tables import Row, read_valid_rows
from danish_asr.recipe.run.run_directory import evaluated_model
from danish_asr.report.comparison_tables import print_comparison, runs_markdown, runs_page
from danish_asr.report.exports import Exports
from danish_asr.report.tables import (
    print_scores,
    say,
    to_csv,
    to_markdown,
    warn,
)
from danish_asr.scoring.comparison import Comparison, compare_runs
from danish_asr.scoring.error_analysis import analyse_errors
from danish_asr.scoring.groupings import MEASURES
from danish_asr.scoring.predictions import PredictionsFile, read_predictions
from danish_asr.scoring.references import read_references
from danish_asr.scoring.scored_rows import RowsUsed
from danish_asr.scoring.scores import Scores, score_predictions
from danish_asr.scoring.settings import DEFAULT_BY, Settings

_EVALUATION: Final = "evaluation.json"


def score_file(
    path: AnyPath,
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    run_dir: AnyPath | None = None,
    dataset: AnyPath | None = None,
    split: str | None = None,
    json_path: AnyPath | None = None,
    csv_path: AnyPath | None = None,
    markdown_path: AnyPath | None = None,
    html_path: AnyPath | None = None,
    exports: Exports | None = None,
    audio: bool = True,
    console: Console | None = None,
) -> Scores:
    """Score ``path``, print the table of ``by``, and write the reports that have a path.

    JSON, CSV and the page also hold the scores by duration and by words per second. ``run_dir``
    adds the training curves and the GPU and memory use of a run to the page, ``dataset`` the audio
    of the worst utterances and what the file lacks: references and metadata. References in the
    file must equal the dataset's. ``split`` is that of the rows, or test, by default. Beside an
    ``evaluation.json`` the page has the curves and the audio of what was evaluated by default;
    without ``audio`` it has no audio.
    """
    console, exports = console or Console(), exports or Exports()
    path = Path(path)
    opened = _open(path, dataset, split)
    outputs = [json_path, csv_path, markdown_path, html_path, *exports.paths]
    about = opened.about
    model = str(about.get("model", ""))
    _check_outputs(outputs, [path], exports.faults(settings or Settings(), model))
    with console.status(f"scoring {escape(str(path))}"):
        shown = list(dict.fromkeys([*by, *MEASURES]))
        scores = score_predictions(
            opened.rows,
            by=list(dict.fromkeys([*shown, *exports.groupings])),
            settings=settings,
            rows_in_split=opened.in_split,
            where=about.get("where"),
        )
        _check_rows(path, scores.rows, about)
        # All texts are made before the first is written: a wrong --dataset leaves no half report.
        texts = exports.texts(scores, model)
        scores, requested = scores.only(shown), scores.only(by)
        if json_path:
            texts[json_path] = _json(scores.to_dict())
        if csv_path:
            texts[csv_path] = to_csv(scores.to_pandas())
        if markdown_path:
            texts[markdown_path] = to_markdown(requested)
        analysis = None
        if html_path or exports.errors:
            analysis = analyse_errors(opened.rows, settings=scores.settings)
        if html_path and analysis:
            from danish_asr.report import curves, page  # noqa: PLC0415 - slow: matplotlib

            first = [*analysis.worst[:10], *analysis.worst_by_wer[:10]]
            worst = {utterance.row.id for utterance in first}
            run, root = run_dir or _run_of(path, about), dataset or _dataset_of(about)
            texts[html_path] = page.render_page(
                scores,
                analysis,
                about={"file": "/".join(Path(realpath(path)).parts[-2:])} | about,
                panels=curves.read_panels(Path(run)) if run else [],
                clips=page.audio_clips(Path(root), worst, console) if root and audio else {},
            )
    print_scores(requested, console)
    _write(texts, console)
    for file in exports.write(opened.rows, scores.settings, analysis):
        say(f"wrote {file}", console)
    return scores


def compare_files(
    runs: Mapping[str, Sequence[Path]],
    *,
    by: Sequence[str] = DEFAULT_BY,
    settings: Settings | None = None,
    dataset: AnyPath | None = None,
    split: str | None = None,
    json_path: AnyPath | None = None,
    csv_path: AnyPath | None = None,
    markdown_path: AnyPath | None = None,
    html_path: AnyPath | None = None,
    console: Console | None = None,
) -> Comparison:
    """Compare runs, each with a file per seed, with the first of them; print and write the tables.

    Files take what they lack from ``split`` of the dataset, as in `score_file`.
    """
    console = console or Console()
    files = list(chain(*runs.values()))
    _check_outputs([json_path, csv_path, markdown_path, html_path], files)
    opened = {str(file): _open(file, dataset, split) for file in files}
    comparison = compare_runs(
        {run: {str(file): opened[str(file)].rows for file in own} for run, own in runs.items()},
        by=by,
        settings=settings,
        rows_in_split={name: each.in_split for name, each in opened.items()},
        where={name: each.about.get("where") for name, each in opened.items()},
    )
    for name, rows in comparison.rows.items():
        _check_rows(name, rows, opened[name].about)
    for run, names in comparison.runs.items():
        say(f"{run}: {', '.join(names)}", console)
    for text in _different_models(files, [opened[str(file)].about for file in files]):
        warn(text, console)
    print_comparison(comparison, console)
    makers: dict[AnyPath | None, Callable[[], str]] = {
        json_path: lambda: _json(comparison.to_dict()),
        csv_path: lambda: to_csv(comparison.to_pandas()),
        markdown_path: lambda: runs_markdown(comparison),
        html_path: lambda: runs_page(comparison),
    }
    _write({path: make() for path, make in makers.items() if path}, console)
    return comparison


class _Opened(NamedTuple):
    rows: PredictionsFile
    about: dict[str, Any]  # evaluation.json, or what is known without it
    in_split: int | None


def _open(path: Path, dataset: AnyPath | None, split: str | None) -> _Opened:
    """Return the rows of a file, and of its split, with what it lacks from the dataset."""
    if path.is_fifo():
        raise PredictionsError(f"{path}: a pipe does not work; save it to a file first")
    about = _evaluation(path)
    if dataset is None:
        if split:
            raise ConfigError(["--split is one of a dataset; name it too: --dataset ROOT"])
        return _Opened(read_predictions(path), about, _rows(about, "rows_in_split"))
    own: set[str] = set()
    only_hypotheses = True
    for _, row in read_valid_rows(path, PredictionsError):
        own |= {str(row["split"])} if row.get("split") else set()
        only_hypotheses = only_hypotheses and not row.get("reference")
    if split and (others := [each for each in own if not f"{split}_".startswith(f"{each}_")]):
        raise PredictionsError(
            f"{path}: has rows of split {', '.join(sorted(others))}, and --split is {split}"
        )
    references: dict[str, Row] = {}
    for each in [split] if split else sorted(own) or ["test"]:
        references |= read_references(dataset, each)
    if only_hypotheses:  # evaluation.json is of another system
        about = {"dataset": str(dataset), "model": path.name.partition(".")[0]}
    in_split = _rows(about, "rows_in_split") or len(references)
    return _Opened(read_predictions(path, references), about, in_split)


def _evaluation(predictions: AnyPath) -> dict[str, Any]:
    """Read what the evaluation recipe writes beside the predictions, if it is there."""
    file = Path(predictions).parent / _EVALUATION
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def _different_models(files: Sequence[Path], abouts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a warning for each file of the first one's evaluation folder with another model."""
    models = [*map(evaluated_model, abouts)]
    folders = [{file.parent, file.parent.parent} for file in files]
    for file, model, places in zip(files, models, folders, strict=True):
        if model != models[0] and places & folders[0]:
            yield (
                f"{files[0]} is of {models[0]}, but {file} of {model}: they differ in more than "
                "the decoder; evaluate the older one again"
            )


def _run_of(predictions: Path, about: Mapping[str, Any]) -> Path | None:
    """The run whose model was evaluated, also if it was moved; None: it is no run's, or gone."""
    if not about.get("run"):
        return None
    parents = [*predictions.resolve().parents, *Path(about["run"]).parents]
    return next((each for each in parents if (each / "metrics" / "train.jsonl").is_file()), None)


def _dataset_of(about: Mapping[str, Any]) -> Path | None:
    """The dataset that was evaluated, if it is on this machine."""
    root = about.get("dataset_root")
    return Path(root) if root and (Path(root) / VERSION_DIR).is_dir() else None


def _rows(about: Mapping[str, Any], key: str) -> int | None:
    rows = about.get(key)
    return sum(rows.values()) if rows else None


def _check_rows(predictions: AnyPath, rows: RowsUsed, about: Mapping[str, Any]) -> None:
    found = ""
    if rows.in_split is not None and rows.in_file > rows.in_split:
        found = f"the split has {rows.in_split}"
    elif rows.where and rows.in_file != (evaluated := _rows(about, "rows") or rows.in_split):
        found = f"{evaluated} were evaluated, where {rows.where}"
    if found:
        raise PredictionsError(
            f"{predictions}: has {rows.in_file} rows, but {found} ({_EVALUATION}); evaluate again"
        )


def _check_outputs(
    outputs: Iterable[AnyPath | None], predictions: Iterable[AnyPath], faults: Sequence[str] = ()
) -> None:
    """Refuse outputs that would replace an input or each other, and those with other faults."""
    given = [path for path in outputs if path]
    folders = [f"{path} is a directory; name a file" for path in given if Path(path).is_dir()]
    inputs = [p for path in predictions for p in (path, Path(path).parent / _EVALUATION)]
    # Unlike `Path.resolve`, realpath does not fail at a loop of links.
    uses = Counter([*set(map(realpath, inputs)), *map(realpath, given)])
    twice = [
        f"{path} is an input or another output; choose another file"
        for path, count in uses.items()
        if count > 1
    ]
    if faults := [*faults, *folders, *twice]:
        raise ConfigError(faults, where="the command line")


def _write(texts: Mapping[AnyPath, str], console: Console) -> None:
    for path, text in texts.items():
        publish_text(Path(path), text)
        say(f"wrote {path}", console)


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"
