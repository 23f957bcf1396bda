"""``danish-asr compare``: runs on the same rows, as a table, files and a figure.

In: two or more runs, each a directory, one or more files, or rows. `compare` returns the
comparison; `compare_files` is the command, which writes files and prints the same numbers.
"""

from collections.abc import Hashable, Mapping, Sequence
from glob import glob
from math import isnan
from pathlib import Path
from typing import Any, Final

import pandas as pd
from rich.console import Console

from danish_asr.base.errors import ConfigError
from danish_asr.base.files import AnyPath
from danish_asr.metrics import Denominator
from danish_asr.recipe.run.evaluations import Choice
from danish_asr.report import COMPARE_OUTPUTS
from danish_asr.report.origin import about_of, origin, origin_columns, origin_lines
from danish_asr.report.outputs import Content, Write, declared, outputs_by_end, write_all
from danish_asr.report.request import Request, listed
from danish_asr.report.score import (
    choices_of,
    common,
    inputs_of,
    profile_of,
    rows_in_split,
    share_people,
    sources_of,
    to_csv,
    to_json,
    with_choices,
)
from danish_asr.report.tables import (
    NOT_RESOLVABLE,
    POOLED,
    POOLED_NOTE,
    Terminal,
    bounds,
    count,
    in_grouping,
    latex,
    light_table,
    p_value,
    percent,
    print_table,
    say,
    warn,
)
from danish_asr.report.trained import marked
from danish_asr.scoring.compare import Comparison, compare_runs
from danish_asr.scoring.intervals import ALPHA, RATES, Interval
from danish_asr.scoring.predictions import Source, refuse_absent
from danish_asr.scoring.settings import DEFAULT_BY

HEADINGS: Final = {
    "group": "group",
    "run": "run",
    "wer": "WER %",
    "wer_difference": "diff.",
    "wer_interval": "interval (Holm)",
    "wer_p": "p (Holm)",
    "cer": "CER %",
    "cer_difference": "diff. CER",
    "cer_p": "p CER",
    "rows": "rows",
    "speakers": "speakers",
}
_NARROW: Final = 6  # columns of a terminal that has no place for all
_WIDE_ENOUGH: Final = 120


def compare(
    *runs: Source,
    by: str | Sequence[str] | None = DEFAULT_BY,
    dataset: AnyPath | None = None,
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
    profile: str | None = None,
    row_filter: str = "all",
    denominator: Denominator = "standard",
) -> Comparison:
    """Return the differences between runs over the same rows and the first of them.

    A run is what `danish_asr.score` takes, or a list of such paths: seeds, which have the same
    rows, or folds, which have no row in common and are compared as one. Runs are called
    A, B, ...; a single mapping of names to runs gives them other names. Groups and speakers are the
    first one's. All other arguments are as for `danish_asr.score`. Rates and differences are
    fractions; a negative difference has fewer errors than the first run.

    Raises:
        ConfigError: A setting or a column is unknown, or there are fewer than two runs.
        PredictionsError: A file cannot be read, or the runs have different rows or references.
        DatasetError: There is no such dataset or split.
    """
    names = [chr(ord("A") + number) for number in range(len(runs))]
    named: Mapping[str, Source] = dict(zip(names, runs, strict=True))
    if len(runs) == 1 and isinstance(runs[0], Mapping):
        (named,) = runs
    request = Request(
        by=listed(by),
        dataset=dataset,
        split=split,
        columns=columns or {},
        profile=profile,
        row_filter=row_filter,
        denominator=denominator,
    )
    return compared(named, request)


def compared(runs: Mapping[str, Source], request: Request) -> Comparison:
    """Return the comparison of runs by their names, as `compare` does."""
    sources: dict[str, dict[str, Source]] = {}
    for run, own in runs.items():
        seeds = sources_of(own)
        sources[run] = {str(one) if isinstance(one, Path) else run: one for one in seeds}
    abouts = {
        name: about_of(source, request.dataset)
        for own in sources.values()
        for name, source in own.items()
    }
    settings = request.settings(request.profile or profile_of(abouts, abouts.values()))
    predictions: dict[str, dict[str, Any]] = {run: {} for run in sources}
    sizes: dict[str, int | None] = {}
    tested: dict[str, Mapping[str, Any]] = {}
    of_runs = {
        run: {name: request.load([source], settings) for name, source in own.items()}
        for run, own in sources.items()
    }
    refuse_absent([loaded for own in of_runs.values() for loaded in own.values()])
    for run, loaded in of_runs.items():
        keys = pd.concat([one.rows[["corpus", "id"]] for one in loaded.values()])
        parts = [[name] for name in loaded]
        if len(loaded) > 1 and not keys.duplicated().any():  # folds
            parts = [[*loaded]]
        for names in parts:
            name = ", ".join(names)
            own_abouts = [abouts[one] for one in names]
            rows = [marked(loaded[one], [abouts[one]]) for one in names]
            predictions[run][name] = pd.concat(rows, ignore_index=True)
            sizes[name] = rows_in_split(own_abouts, loaded[names[0]].in_dataset)
            tested[name] = common(own_abouts)
    return compare_runs(
        predictions,
        by=request.by,
        settings=settings,
        rows_in_split=sizes,
        abouts=tested,
        share_people=share_people(abouts.values(), request.dataset),
    )


def parse_runs(arguments: Sequence[str]) -> dict[str, list[Path]]:
    """Parse ``FILE`` or ``NAME=FILE,FILE``; a run without a name gets a letter, A for the first.

    A ``*`` in a file's path stands for all that there is.
    """
    runs: dict[str, list[Path]] = {}
    for number, argument in enumerate(arguments):
        name, equals, files = argument.partition("=")
        name = name.strip()
        given = [file.strip() for file in files.split(",") if file.strip()]
        paths = [Path(path) for file in given for path in sorted(glob(file)) or [file]]  # noqa: PTH207 - may be absolute
        if not equals or Path(argument).exists():
            name, paths = chr(ord("A") + number), [Path(argument)]
        if not paths or name in runs:
            fault = f"run '{argument}': expected NAME=FILE[,FILE...], each NAME once"
            raise ConfigError([fault], where="the list of runs")
        runs[name] = paths
    if len(runs) < 2:
        faults = ["expected two or more; the first is the baseline"]
        raise ConfigError(faults, where="the list of runs")
    return runs


def compare_files(
    runs: Mapping[str, Sequence[Path]],
    request: Request | None = None,
    *,
    outputs: Sequence[AnyPath] = (),
    console: Console | None = None,
) -> Comparison:
    """Compare runs, each with a file per seed or fold, with the first; write ``outputs`` and print.

    Raises what `compare` does; then nothing was written.
    """
    console, request = console or Terminal(), request or Request()
    choices = choices_of(path for own in runs.values() for path in own)
    of_runs = {run: [*map(Path, sources_of([*own]))] for run, own in runs.items()}
    files = [file for own in of_runs.values() for file in own]
    writes = [
        (path, _write(end, of_runs, choices, request.dataset))
        for end, path in outputs_by_end(outputs, COMPARE_OUTPUTS).items()
    ]
    functions = declared(writes, inputs_of(files, request.dataset, choices))
    comparison = compared(runs, request)
    write_all(functions, comparison)
    for choice in choices:
        say(choice.in_words(), console)
    print_comparison(comparison, console)
    for path in functions:
        say(f"wrote {path}", console)
    return comparison


def _write(
    end: str,
    runs: Mapping[str, Sequence[Path]],
    choices: Sequence[Choice],
    dataset: AnyPath | None,
) -> Write[Comparison]:
    """Return the function that makes the content of an output."""
    files = [file for own in runs.values() for file in own]

    def document(comparison: Comparison) -> Content:
        whole = with_choices(origin(files, dataset) | comparison.to_dict(), choices)
        return Content.of_text(to_json(whole))

    def table(comparison: Comparison) -> Content:
        return Content.of_text(to_csv(_with_origin(comparison, runs, dataset)))

    def tex(comparison: Comparison) -> Content:
        return Content.of_text(comparison_latex(comparison, origin_lines(origin(files, dataset))))

    def figure(comparison: Comparison) -> Content:
        from danish_asr.report.figures import forest_file  # noqa: PLC0415 - slow

        description = [_summary(comparison), *origin_lines(origin(files, dataset))]
        return Content(forest_file(comparison, end.removeprefix("."), "\n".join(description)))

    return {".json": document, ".csv": table, ".tex": tex}.get(end, figure)


def _with_origin(
    comparison: Comparison, runs: Mapping[str, Sequence[Path]], dataset: AnyPath | None
) -> pd.DataFrame:
    """Return the table, each line with what its run is of."""
    of_runs = {run: origin_columns(origin(files, dataset)) for run, files in runs.items()}
    columns = pd.DataFrame([of_runs[run] for run in comparison.table["run"]])
    return comparison.to_pandas().join(columns.drop(columns="file"))


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the table, and for each run whether it differs from the baseline."""
    for run, names in comparison.runs.items():
        say(f"{run}: {', '.join(names)}", console)
    for name, rows in comparison.rows.items():
        for warning in rows.warnings(name):
            warn(warning, console)
    say(_summary(comparison), console)
    narrow = console.is_terminal and console.width < _WIDE_ENOUGH
    columns = [*HEADINGS][: _NARROW if narrow else None]
    tables = _tables(comparison, columns)
    for lines in tables.values():
        for number, cells in enumerate(lines):
            if number % len(comparison.runs):
                cells[0] = ""  # the group is named once
    print_table(light_table(HEADINGS[column] for column in columns), tables, console)
    say("", console)
    for line in _verdicts(comparison):
        say(line, console)


def comparison_latex(comparison: Comparison, origins: Sequence[str] = ()) -> str:
    """Return a table for LaTeX, which needs the package booktabs; ``origins`` are comments."""
    rows = [
        [in_grouping(name, label), *cells]
        for name, lines in _tables(comparison, [*HEADINGS]).items()
        for label, *cells in lines
    ]
    notes = [_summary(comparison), *origins, *_verdicts(comparison)]
    return latex([*HEADINGS.values()], rows, notes, texts=2)


def _summary(comparison: Comparison) -> str:
    rows = next(iter(comparison.rows.values()))
    paired = f"{count(rows.scored)} rows paired by id{rows.of_split()}"
    return f"{comparison.settings.in_words()}, {paired}"


def _tables(comparison: Comparison, columns: Sequence[str]) -> dict[str, list[list[str]]]:
    """Return the rows of each grouping; those of all rows have an empty name."""
    tables: dict[str, list[list[str]]] = {}
    for line in comparison.table.to_dict("records"):
        cells = _cells(line)
        name = "" if line["grouping"] == "all" else line["grouping"]
        tables.setdefault(name, []).append([cells[column] for column in columns])
    return tables


def _cells(line: Mapping[Hashable, Any]) -> dict[str, str]:
    """Return the cells of `HEADINGS`; the baseline has no differences."""
    cells = dict.fromkeys(HEADINGS, "") | {"group": line["group"], "run": line["run"]}
    for name in RATES:
        deviation, difference = line[f"{name}_deviation"], line[f"{name}_difference"]
        spread = "" if isnan(deviation) else f" ±{100 * deviation:.2f}"
        cells[name] = percent(line[name]) + spread
        if not isnan(difference):
            low, high = line[f"{name}_low"], line[f"{name}_high"]
            cells[f"{name}_difference"] = percent(difference, "+")
            interval = bounds(None if isnan(low) else Interval(low, high), "+")
            cells[f"{name}_interval"] = (
                f"{POOLED} {interval}" if line[f"{name}_pooled"] else interval
            )
            cells[f"{name}_p"] = p_value(line[f"{name}_p_adjusted"])
    return cells | {"rows": count(line["rows"]), "speakers": count(line["speakers"])}


def _verdicts(comparison: Comparison) -> list[str]:
    """What the overall difference of each run from the baseline means, and what "±" is."""
    baseline, *others = comparison.table[: len(comparison.runs)].to_dict("records")
    lines: list[str] = []
    for run in others:
        p = run["wer_p_adjusted"]
        if isnan(p):
            reason = run["wer_not_resolvable"]
            verdict = f"the difference from {baseline['run']} is {NOT_RESOLVABLE}: {reason}"
        elif p >= ALPHA:
            verdict = f"no significant difference from {baseline['run']} (p {p_value(p)})"
        else:
            better = "better" if run["wer_difference"] < 0 else "worse"
            verdict = f"{better} than {baseline['run']} (p {p_value(p)})"
        lines.append(f"{run['run']}: {verdict}")
    several = len(comparison.table) > 2
    adjusted = ", adjusted (Holm) over the runs and groups of each grouping" if several else ""
    lines.append(
        f"p: paired t-test over speakers{adjusted}; intervals of 95 % or more are adjusted "
        f"alike, and exclude zero exactly if p is below {ALPHA}"
    )
    if comparison.table["wer_pooled"].any():
        lines.append(POOLED_NOTE)
    if comparison.table["seeds"].max() > 1:
        lines.append(
            "±: standard deviation over the seeds of a run; intervals and p-values of two runs "
            "with several seeds each hold for other seeds too, all others for these models only"
        )
    return lines
