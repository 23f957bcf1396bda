"""``danish-asr audit``: the rows of a dataset whose transcript a model contradicts.

In: a built dataset, and what a model that has not learnt the rows transcribed. Out: a page with
audio, and a table that ``danish-asr combine --without`` takes.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd
from rich.console import Console

from danish_asr.base.errors import ConfigError, PredictionsError
from danish_asr.base.progress import plain_console
from danish_asr.metrics import align_words, split_words
from danish_asr.recipe.run.evaluations import BEST, PREDICTIONS
from danish_asr.recipe.run.run import Run
from danish_asr.report.components import render_template
from danish_asr.report.dataset import Clips, Rows, read_rows
from danish_asr.report.origin import about_of
from danish_asr.report.outputs import Content, Write, declared, write_all
from danish_asr.report.score import inputs_of, profile_of, to_csv
from danish_asr.report.tables import light_table, print_table, say, warn
from danish_asr.scoring.contradictions import KINDS, Judgement, judge
from danish_asr.scoring.predictions import read_predictions
from danish_asr.scoring.settings import Settings

_ON_PAGE: Final = 300  # rows of the page; the table has all


class _Audited(NamedTuple):
    judgement: Judgement
    clips: Clips


def audit(
    root: Path,
    models: Sequence[Path],
    out: Path,
    *,
    profile: str | None = None,
    audio: bool = True,
    console: Console | None = None,
) -> bool:
    """Write a page, and a table beside it, of the rows that a model contradicts.

    Returns whether the table can be given to ``combine --without``: it has rows, and none of test.

    Args:
        root: A built dataset.
        models: Runs, whose best model's evaluations are read; evaluations; or predictions.
        out: The page; the table has the same name and ends in ``.csv``.
        profile: The text normalisation; None is that of the run, or ``coral``.
        audio: Whether the page holds the speech of its rows.
        console: Where to print.

    Raises:
        ConfigError: ``out`` is a directory, or has another suffix; it or the table is an input.
        DatasetError: There is no built dataset, or it is damaged.
        PredictionsError: The model has transcribed no row, has no confidences, or is too weak.
    """
    console = console or plain_console(stderr=True)
    if out.is_dir() or out.suffix != ".html":
        fault = f"--out: expected a file that ends in .html; found {out}"
        raise ConfigError([fault], where="audit")
    table = out.with_suffix(".csv")
    files = [file for model in models for file in _files(model)]
    writes: list[tuple[Path, Write[_Audited]]] = [
        (out, lambda own: Content.of_text(_page(root, names, own.judgement, own.clips))),
        (table, lambda own: Content.of_text(to_csv(_table(own.judgement)))),
    ]
    functions = declared(writes, inputs_of(files, root))
    names = ", ".join(map(str, models))
    settings = Settings(profile=profile or profile_of(files, map(about_of, files)))
    with console.status("reading the dataset and the predictions"):
        rows = read_rows(root)
        judgement = judge(_of_dataset(files, rows, root), names, settings)
        clips = Clips(rows, audio=audio)
        write_all(functions, _Audited(judgement, clips))
    if absent := len(rows.table) - judgement.judged:
        warn(f"{absent:,} rows of the dataset have no prediction and are not judged", console)
    for line in clips.left_out:
        warn(line, console)
    _print(judgement, console)
    say(f"wrote {out}, and the list to {table}", console)
    tested = sum(row["split"] == "test" for row in judgement.contradictions)
    if tested:
        warn(
            f"{tested:,} rows of the list are of test: correct their texts in the source, and "
            "delete them from the list before `danish-asr combine --without` takes it",
            console,
        )
    return bool(judgement.contradictions) and not tested


def _files(model: Path) -> list[Path]:
    """Return the predictions: of a run, the greedy ones of its best model, of all splits."""
    if not model.is_dir():
        return [model]
    if (model / PREDICTIONS).is_file():
        return [model / PREDICTIONS]
    made = Run(model).evaluations()
    for one in made:
        if one.fault:
            raise PredictionsError(one.fault)
    greedy = [one for one in made if "decoder" not in one.about]
    if not greedy:
        fix = f"`danish-asr evaluate {model} evaluator.split=train` makes one of a run"
        raise PredictionsError(f"{model}: no evaluation in this run or file; {fix}")
    checkpoints = [one.about.get("checkpoint") for one in greedy]
    chosen = BEST if BEST in checkpoints else checkpoints[0]
    return [one.predictions for one in greedy if one.about.get("checkpoint") == chosen]


def _of_dataset(files: Sequence[Path], rows: Rows, root: Path) -> pd.DataFrame:
    """Return the predictions of the dataset's rows as they are now, each row once."""
    predictions = pd.concat(map(read_predictions, files), ignore_index=True)
    found = map(rows.find, predictions["corpus"], predictions["id"])
    predictions["number"] = pd.Series([*found], dtype="Int64")
    table: pd.DataFrame = rows.table.select(["text", "split"]).to_pandas()
    known = table.reindex(predictions["number"])
    predictions["split"] = known["split"].to_numpy()
    of_dataset = predictions[predictions["reference"] == known["text"].to_numpy()]
    of_dataset = of_dataset.drop_duplicates("number")
    if of_dataset.empty:
        seen = ", ".join(map(str, files))
        raise PredictionsError(f"{seen}: no row is one of {root}; evaluate the model on it")
    return of_dataset.drop(columns="number").reset_index(drop=True)


def _counts(judgement: Judgement) -> dict[str, int]:
    """The rows of each kind, in the order of `KINDS`."""
    counts = Counter(row["kind"] for row in judgement.contradictions)
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def _print(judgement: Judgement, console: Console) -> None:
    lines = [
        [kind, f"{count:,}", f"{count / judgement.judged:.2%}"]
        for kind, count in _counts(judgement).items()
    ]
    if lines:
        print_table(light_table(["kind", "rows", "of the judged"]), {"": lines}, console)
    listed = len(judgement.contradictions)
    say(f"{listed:,} of {judgement.judged:,} judged rows are contradicted", console)


def _page(root: Path, models: str, judgement: Judgement, clips: Clips) -> str:
    by_kind = defaultdict[str, list[dict[str, Any]]](list)
    for row in judgement.contradictions[:_ON_PAGE]:
        by_kind[row["kind"]].append(_entry(row, clips))
    return render_template(
        "audit_page.html",
        name=root.resolve().name,
        model=models,
        kinds=KINDS,
        counts=_counts(judgement),
        judged=judgement.judged,
        listed=len(judgement.contradictions),
        absent=len(clips.rows.table) - judgement.judged,
        entries={kind: by_kind[kind] for kind in KINDS if kind in by_kind},
        most=_ON_PAGE,
        clips=clips,
    )


def _entry(row: Mapping[str, Any], clips: Clips) -> dict[str, Any]:
    reference, hypothesis = row["reference_normalised"], row["hypothesis_normalised"]
    number = clips.rows.find(row["corpus"], row["id"])
    assert number is not None
    return clips.entry(number) | {
        "gap": None if row["gap"] == inf else row["gap"],
        "confidence": row["confidence"],
        "words": align_words(split_words(reference), split_words(hypothesis)),
    }


def _table(judgement: Judgement) -> pd.DataFrame:
    """The list, which ``danish-asr combine --without`` takes."""
    columns = ("corpus", "id", "kind", "gap", "confidence", "split", "reference", "hypothesis")
    table = pd.DataFrame(judgement.contradictions, columns=[*columns]).round(3)
    return table.rename(columns={"kind": "reason"})
