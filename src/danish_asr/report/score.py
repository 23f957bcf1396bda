"""``danish-asr score``: from predictions to tables, files and Python objects.

In: a run's directory, predictions files of anyone's, a DataFrame or rows. `score` returns the
scores; `score_files` is the command, which writes files and prints the same scores.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Final

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import AnyPath, sha256_of
from danish_asr.corpus.inventory import content_of, share_people_of
from danish_asr.metrics import Denominator
from danish_asr.recipe.run.evaluations import (
    EVALUATION,
    PREDICTIONS,
    SHARE_PEOPLE,
    Choice,
)
from danish_asr.recipe.run.run import Run, choice_of, predictions_of
from danish_asr.report import SCORE_OUTPUTS
from danish_asr.report.origin import about_of, origin, origin_columns, origin_lines
from danish_asr.report.outputs import Content, Write, declared, outputs_by_end, write_all
from danish_asr.report.request import Request, listed
from danish_asr.report.tables import (
    INTERVAL_NOTE,
    POOLED_NOTE,
    Terminal,
    count,
    gap_sentence,
    in_grouping,
    interval_of,
    latex,
    percent,
    print_table,
    say,
    summary,
    warn,
    without_values,
)
from danish_asr.report.trained import marked
from danish_asr.report.utterances import trn_text, utterance_table
from danish_asr.scoring.predictions import COLUMNS, Source, refuse_absent
from danish_asr.scoring.scores import BANDS, GroupScore, Scores, score_predictions
from danish_asr.scoring.settings import DEFAULT_BY, DEFAULT_PROFILE
from danish_asr.text.profiles import profile_in


def score(
    predictions: Source | Sequence[AnyPath],
    *,
    by: str | Sequence[str] | None = DEFAULT_BY,
    dataset: AnyPath | None = None,
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
    profile: str | None = None,
    row_filter: str = "all",
    denominator: Denominator = "standard",
) -> Scores:
    """Return WER and CER with 95 % intervals over speakers, overall and per group.

    Args:
        predictions: A run's directory, of which the test split is scored; a ``predictions.jsonl``;
            a CSV, TSV, Parquet or trn file; a DataFrame, or dicts with the same columns. Several
            files are scored as one, such as those of folds, which test each row once.
        by: A column to group by, or several; ``"age_group,gender"`` is the product of two,
            ``"age:18,25,50"`` has bands; None has no groups.
        dataset: The root of the dataset that has references and groups for rows of ``id`` and
            ``hypothesis``.
        split: The split of that dataset; None takes that of the rows, or ``test``.
        columns: The names of columns in the file or the DataFrame, by the names that they have
            here: ``{"reference": "sentence", "hypothesis": "whisper"}``.
        profile: The text profile; None is that of the run, or ``coral``.
        row_filter: Which rows are scored, see `danish_asr.scoring.settings.ROW_FILTERS`.
        denominator: What errors are divided by.

    Returns:
        Rates as fractions, not per cent, with the settings and the rows used. ``to_pandas()`` gives
        a line per group, ``table`` has a line per row.

    Raises:
        ConfigError: A setting or a column is unknown, or a file is given twice, or its copy.
        PredictionsError: A file cannot be read or breaks its contract, or has no row to score; a
            run has no evaluation of its test split.
        DatasetError: There is no such dataset or split.
    """
    request = Request(
        by=listed(by),
        dataset=dataset,
        split=split,
        columns=columns or {},
        profile=profile,
        row_filter=row_filter,
        denominator=denominator,
    )
    return scored(sources_of(predictions), request)


def scored(sources: Sequence[Source], request: Request) -> Scores:
    """Return the scores of sources, as `score` does."""
    abouts = [about_of(source, request.dataset) for source in sources]
    settings = request.settings(request.profile or profile_of(sources, abouts))
    loaded = request.load(sources, settings)
    refuse_absent([loaded])
    return score_predictions(
        marked(loaded, abouts),
        by=request.by,
        settings=settings,
        rows_in_split=rows_in_split(abouts, loaded.in_dataset),
        about=common(abouts),
        share_people=share_people(abouts, request.dataset),
    )


def sources_of(predictions: Source | Sequence[AnyPath]) -> list[Source]:
    """Return each file, or the rows; the directory of a run stands for its predictions."""
    if isinstance(predictions, str | PathLike):
        predictions = [predictions]
    is_list = isinstance(predictions, Sequence) and len(predictions)
    if not is_list or not all(isinstance(one, str | PathLike) for one in predictions):
        return [predictions]
    paths = [predictions_of(Path(path)) for path in predictions]
    of_content: dict[str, Path] = {}
    twice: list[str] = []
    for path in filter(Path.is_file, paths):
        first = of_content.setdefault(sha256_of(path), path)
        if first is not path:
            twice.append(f"{path} has the same content as {first}")
    if twice:
        raise ConfigError(twice, where="the list of files")
    return paths


def choices_of(paths: Iterable[AnyPath]) -> list[Choice]:
    """Return which evaluation was taken of each path that is a run's directory."""
    choices = [choice_of(Path(path)) for path in paths]
    return [choice for choice in choices if choice]


def with_choices(document: Mapping[str, Any], choices: Sequence[Choice]) -> dict[str, Any]:
    """Return the content of a JSON file, which names the evaluations that were chosen."""
    if not choices:
        return dict(document)
    return {"choices": [choice.to_dict() for choice in choices], **document}


def profile_of(sources: Iterable[object], abouts: Iterable[Mapping[str, Any]]) -> str:
    """Return the profile of the runs that were evaluated; ``abouts`` are those of ``sources``.

    Raises:
        ConfigError: They have different ones, or a file names code.
    """
    names = {
        profile_in(
            Path(str(source)).with_name(EVALUATION),
            about["score_profile"],
            "to import and call it, name it yourself (--profile)",
        )
        for source, about in zip(sources, abouts, strict=True)
        if about.get("score_profile")
    }
    if len(names) > 1:
        fault = f"profile: the runs have {' and '.join(sorted(names))}; name one (--profile)"
        raise ConfigError([fault], where="the call")
    return names.pop() if names else DEFAULT_PROFILE


def rows_in_split(abouts: Sequence[Mapping[str, Any]], in_dataset: int | None) -> int | None:
    """Return the rows of all splits together, each once; None if one's are not known."""
    sizes: dict[tuple[Any, ...], int] = {}
    for about in abouts:
        dataset = about.get("dataset"), about.get("dataset_root")
        own = about.get("rows_in_split") or {}
        if not own:
            return in_dataset
        sizes |= {(*dataset, split): size for split, size in own.items()}
    return sum(sizes.values())


def share_people(abouts: Iterable[Mapping[str, Any]], dataset: AnyPath | None) -> list[list[str]]:
    """Return which corpora share people, as evaluations and a dataset say."""
    of_evaluations = [own for about in abouts for own in about.get(SHARE_PEOPLE) or ()]
    of_dataset = [] if dataset is None else share_people_of(Path(dataset))
    return of_evaluations + of_dataset


def common(abouts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is the same in all evaluations; weights that differ are no common model."""
    first, *others = abouts
    same = {
        key: value
        for key, value in first.items()
        if all(other.get(key) == value for other in others)
    }
    if "weights" in first and "weights" not in same:
        same = {key: same[key] for key in same if key not in {"model", "checkpoint", "step"}}
    return same


def score_files(
    paths: Sequence[Path],
    request: Request | None = None,
    *,
    shown: Sequence[str] | None = None,
    outputs: Sequence[AnyPath] | None = None,
    audio: bool = True,
    console: Console | None = None,
) -> Scores:
    """Score files as one, write ``outputs`` and print the table.

    JSON, CSV and page also hold the scores by duration and by words per second; ``shown`` are the
    groupings that are printed, None is all of the request. Without ``outputs`` scores.json and
    report.html are written beside a single input, after its name if it is not
    ``predictions.jsonl``. Without ``audio`` the page holds no speech.

    Raises:
        ConfigError, PredictionsError, DatasetError: As `score`; nothing was written. Or ``audio``
            is False, and no page is written.
    """
    console, request = console or Terminal(), request or Request()
    choices = choices_of(paths)
    files = [*map(Path, sources_of([*paths]))]
    chosen = default_outputs(files) if outputs is None else outputs
    of_ends = outputs_by_end(chosen, SCORE_OUTPUTS)
    if not audio and ".html" not in of_ends:
        fault = "--no-audio is for a page, and none is written; name one (--out NAME.html)"
        raise ConfigError([fault], where="the command line")
    writes = [
        write
        for end, path in of_ends.items()
        for write in _writes(end, path, files, request, choices, audio=audio)
    ]
    functions = declared(writes, inputs_of(files, request.dataset, choices))
    status = console.status(Text(f"scoring {files[0]}"))
    with status if console.is_terminal else nullcontext():
        groupings = dict.fromkeys([*request.by, *BANDS])
        scores = scored(files, replace(request, by=[*groupings]))
        notes = write_all(functions, scores)
    # Files first: whatever reads what is printed, such as `head`, may end at any line.
    scores = scores.only(request.by)
    for choice in choices:
        say(choice.in_words(), console)
    print_scores(scores.only(request.by if shown is None else shown), console)
    for note in notes:
        warn(note, console)
    for path in functions:
        say(f"wrote {path}", console)
    return scores


_HEADINGS: Final = ("group", "WER %", "95 % interval", "CER %", "rows", "speakers", "words")


def scores_latex(scores: Scores, origins: Sequence[str] = ()) -> str:
    """Return a table for LaTeX, which needs the package booktabs; ``origins`` are comments."""
    lines = [_cells(scores.overall)]
    for name, part in scores.groupings.items():
        for group in part.groups if part.has_values else ():
            _, *cells = _cells(group)
            lines.append([in_grouping(name, group.label), *cells])
    gaps = [gap_sentence(name, part.gap) for name, part in scores.groupings.items()]
    notes = [summary(scores), *origins, *filter(None, gaps), INTERVAL_NOTE, POOLED_NOTE]
    notes += filter(None, [without_values(scores)])
    return latex(_HEADINGS, lines, notes, texts=1)


def print_scores(scores: Scores, console: Console) -> None:
    """Print warnings about the rows, one table of all groups, and the gaps."""
    for warning in scores.rows.warnings():
        warn(warning, console)
    say(summary(scores), console)
    lines = {"": [_cells(scores.overall)]}
    lines |= {
        name: [*map(_cells, part.groups)]
        for name, part in scores.groupings.items()
        if part.has_values
    }
    print_table(Table(*_HEADINGS), lines, console)
    if without := without_values(scores):
        say(without, console)
    if any(group.wer_pooled for part in scores.groupings.values() for group in part.groups):
        say(POOLED_NOTE, console)
    for name, part in scores.groupings.items():
        if part.gap:
            say(gap_sentence(name, part.gap), console)


def _cells(group: GroupScore) -> list[str]:
    rates = [percent(group.wer.value), interval_of(group), percent(group.cer.value)]
    numbers = (group.rows, group.speakers, group.words.reference_length)
    return [group.label, *rates, *map(count, numbers)]


def default_outputs(files: Sequence[Path]) -> list[Path]:
    """Return the names of scores and page; there are none for several files."""
    if len(files) > 1:
        return []
    (file,) = files
    is_of_run = file.name.removesuffix(".gz") == PREDICTIONS
    prefix = "" if is_of_run else f"{file.name}."
    return [file.with_name(f"{prefix}{name}") for name in ("scores.json", "report.html")]


def inputs_of(
    files: Iterable[Path], dataset: AnyPath | None, choices: Iterable[Choice] = ()
) -> list[Path]:
    """Return all that is read with predictions files: their evaluations, runs and the datasets.

    Raises what `about_of` does.
    """
    inputs = [path for choice in choices for path in Run(choice.run).files()]
    for file in files:
        inputs += [file, file.parent / EVALUATION]
        evaluated = about_of(file).get("dataset_root")
        if evaluated:  # which has the audio of the page
            inputs += content_of(str(evaluated))
    return inputs if dataset is None else inputs + content_of(dataset)


def parse_columns(arguments: Iterable[str]) -> dict[str, str]:
    """Parse ``reference=text,hypothesis=pred_text`` into the file's names by ours.

    Raises:
        ConfigError: An argument has another form, or a name is unknown or given twice.
    """
    columns: dict[str, str] = {}
    for part in filter(None, ",".join(arguments).split(",")):
        column, _, name = (text.strip() for text in part.partition("="))
        if not name or column not in COLUMNS or column in columns:
            form = f"NAME=COLUMN, NAME of {', '.join(COLUMNS)}, each once"
            fault = f"columns: expected {form}; found '{part}'"
            raise ConfigError([fault], where="the command line")
        columns[column] = name
    return columns


def beside(path: Path) -> Path:
    """Return the JSON file that says what the numbers in a file are of."""
    return path.with_name(f"{path.name}.json")


def _writes(
    end: str,
    path: Path,
    files: Sequence[Path],
    request: Request,
    choices: Sequence[Choice],
    *,
    audio: bool,
) -> list[tuple[Path, Write[Scores]]]:
    """Return all paths that an output stands for, each with its function."""

    def about(scores: Scores) -> Content:
        return Content.of_text(to_json(origin(files, request.dataset) | scores.only(()).to_dict()))

    def document(scores: Scores) -> Content:
        whole = with_choices(origin(files, request.dataset) | scores.to_dict(), choices)
        return Content.of_text(to_json(whole))

    def table(scores: Scores) -> Content:
        own = scores.to_pandas().assign(**origin_columns(origin(files, request.dataset)))
        return Content.of_text(to_csv(own))

    def tex(scores: Scores) -> Content:
        return Content.of_text(
            scores_latex(scores.only(request.by), origin_lines(origin(files, request.dataset)))
        )

    def page(scores: Scores) -> Content:
        from danish_asr.report.score_page import score_page  # noqa: PLC0415 - slow: matplotlib

        return score_page(scores, files, request.dataset, audio=audio)

    def utterances(scores: Scores) -> Content:
        return Content.of_text(to_csv(utterance_table(scores)))

    def trn(side: str) -> Write[Scores]:
        return lambda scores: Content.of_text(trn_text(scores, side))

    if end == ".trn":
        references = (path.with_suffix(".ref.trn"), trn("reference"))
        hypotheses = (path.with_suffix(".hyp.trn"), trn("hypothesis"))
        return [references, hypotheses, (beside(path), about)]
    if end == "utterances.csv":
        return [(path, utterances), (beside(path), about)]
    return [(path, {".json": document, ".csv": table, ".tex": tex, ".html": page}[end])]


def to_json(document: Mapping[str, Any]) -> str:
    """Return a document as the JSON files have it."""
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def to_csv(table: pd.DataFrame) -> str:
    """Return a table as the CSV files have it."""
    return table.to_csv(index=False, lineterminator="\n")
