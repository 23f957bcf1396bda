"""``danish-asr compare``: a table of runs and groups, for each kind of output."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, compress
from os.path import realpath
from pathlib import Path
from typing import Final

from rich.console import Console

from danish_asr.base.errors import ConfigError
from danish_asr.report import wording
from danish_asr.report.tables import light_table, markdown_table, plain, print_table, say, warn
from danish_asr.scoring.comparison import ComparedGroup, Comparison, RunScore
from danish_asr.scoring.mapsswe import MatchedPairs
from danish_asr.scoring.scores import p_value

HEADINGS: Final = (
    *("group", "run", "WER %", "diff.", "95 % interval", "p (Holm)"),
    *("CER %", "diff.", "p (Holm)", "MAPSSWE p (Holm) these speakers", "rows", "speakers"),
)
_NARROW: Final = 7  # columns of a terminal that has no place for all
_WIDE_ENOUGH: Final = 144

_PAIR: Final = (
    *("\ngroup", "WER %\nA", "WER %\nB", "\nB - A", "95 %\ninterval", "p\n(Holm)"),
    *("\nrows", "\nspeakers", "CER %\nA", "CER %\nB", "\nB - A", "p\n(Holm)"),
    "MAPSSWE\np (Holm)",
)
"""In two lines, so that the first columns fit into 80 columns of a terminal."""
_PAIR_NARROW: Final = 8
_PAIR_WIDE_ENOUGH: Final = 128


def parse_runs(arguments: Sequence[str]) -> dict[str, list[Path]]:
    """Parse ``FILE`` or ``NAME=FILE,FILE``; a run without a name gets a letter, A for the first."""
    runs: list[tuple[str, list[Path]]] = []
    for number, argument in enumerate(arguments):
        name, equals, files = argument.partition("=")
        if not equals or Path(argument).exists():
            letter = chr(ord("A") + number) if number < 26 else str(number)
            runs.append((letter, [Path(argument)]))
        else:
            paths = [Path(file.strip()) for file in files.split(",") if file.strip()]
            runs.append((name.strip(), paths))
    faults = [
        f"run '{name}': expected NAME=FILE[,FILE...]"
        for name, files in runs
        if not (name and files)
    ]
    if len(runs) < 2:
        faults.append("expected two or more runs; the first is the baseline")
    names = Counter(name for name, _ in runs)
    files_of = Counter(realpath(file) for _, files in runs for file in files)
    faults += [f"two runs have the name '{name}'" for name, count in names.items() if count > 1]
    faults += [f"{file} is given twice" for file, count in files_of.items() if count > 1]
    if faults:
        raise ConfigError(faults, where="the list of runs")
    return dict(runs)


def run_cells(group: ComparedGroup, run: RunScore) -> list[str]:
    """Return the cells of `HEADINGS`; the baseline has no differences."""
    wer, cer = run.paired.get("wer"), run.paired.get("cer")
    return [
        group.label,
        run.run,
        _with_deviation(run, "wer"),
        wording.percent(wer.difference.value, "+") if wer else "",
        wording.bounds(wer.difference.interval, "+") if wer else "",
        p_value(wer.p_adjusted) if wer else "",
        _with_deviation(run, "cer"),
        wording.percent(cer.difference.value, "+") if cer else "",
        p_value(cer.p_adjusted) if cer else "",
        _mapsswe(run.mapsswe) if run.mapsswe else "",
        wording.count(group.rows),
        wording.count(group.speakers),
    ]


def _mapsswe(test: MatchedPairs) -> str:
    """The p-value, or the segments that are too few or all alike."""
    return p_value(test.p_adjusted) or f"{test.segments} segment{'' if test.segments == 1 else 's'}"


def _with_deviation(run: RunScore, metric: str) -> str:
    deviation = run.deviations[metric]
    return wording.percent(run.rates[metric]) + (
        "" if deviation is None else f" ±{100 * deviation:.2f}"
    )


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the table, and for each run whether it differs from the baseline."""
    for name, rows in comparison.rows.items():
        if rows.partial:
            warn(rows.partial_warning(f"{name} is"), console)
    for line in wording.split_warnings(comparison.rows):
        warn(line, console)
    say(wording.comparison_summary(comparison), console)
    if {run: len(files) for run, files in comparison.runs.items()} == {"A": 1, "B": 1}:
        _print_pair(comparison, console)
        return
    narrow = console.is_terminal and console.width < _WIDE_ENOUGH
    headings, tables = _tables(comparison, _NARROW if narrow else len(HEADINGS))
    for rows_of in tables.values():
        for at, cells in enumerate(rows_of):
            cells[0] = "" if at % len(comparison.runs) else cells[0]
    table = light_table(heading.replace(" (", "\n(").replace(") ", ")\n") for heading in headings)
    print_table(table, tables, ["", *wording.runs_verdicts(comparison)], console)


def _print_pair(comparison: Comparison, console: Console) -> None:
    """Print a line per group with the rates of both runs."""
    narrow = console.is_terminal and console.width < _PAIR_WIDE_ENOUGH
    columns = _PAIR_NARROW if narrow else len(_PAIR)
    tables = {
        name: [_pair_cells(group)[:columns] for group in groups]
        for name, groups in {"": [comparison.overall], **comparison.groupings}.items()
    }
    notes = ["", *wording.pair_verdicts(comparison)]
    print_table(light_table(_PAIR[:columns]), tables, notes, console)


def _pair_cells(group: ComparedGroup) -> list[str]:
    a, b = group.runs
    label, _, wer, *difference, cer, cer_difference, cer_p, test, rows, speakers = run_cells(
        group, b
    )
    wer_a, cer_a = wording.percent(a.rates["wer"]), wording.percent(a.rates["cer"])
    return [
        *(label, wer_a, wer, *difference, rows, speakers),
        *(cer_a, cer, cer_difference, cer_p, test),
    ]


def _tables(
    comparison: Comparison, columns: int = len(HEADINGS)
) -> tuple[list[str], dict[str, list[list[str]]]]:
    """Return headings and the rows of each grouping, without the columns that are empty."""
    tables = {
        name: [run_cells(group, run)[:columns] for group in groups for run in group.runs]
        for name, groups in {"": [comparison.overall], **comparison.groupings}.items()
    }
    used = [any(cells) for cells in zip(*chain(*tables.values()), strict=True)]
    kept = {name: [[*compress(row, used)] for row in rows] for name, rows in tables.items()}
    return [*compress(HEADINGS, used)], kept


def _note(tables: Mapping[str, Sequence[Sequence[str]]]) -> str:
    """Return what "not resolvable" means if a table says it."""
    cells = chain.from_iterable(chain(*tables.values()))
    return wording.sentence(wording.INTERVAL_NOTE) + "." if wording.NOT_RESOLVABLE in cells else ""


def runs_markdown(comparison: Comparison) -> str:
    """Return a section with one table per grouping."""
    parts = ["## Comparison", f"Scored with danish-asr: {wording.comparison_summary(comparison)}."]
    parts.append(
        "\n".join(
            f"- {plain(name)}: {plain(', '.join(files))}" for name, files in comparison.runs.items()
        )
    )
    headings, tables = _tables(comparison)
    for name, rows in tables.items():
        if name:
            parts.append(f"### {plain(wording.sentence(wording.grouping_title(name)))}")
        parts.append(markdown_table(headings, rows))
    parts += [f"{plain(line)}." for line in wording.runs_verdicts(comparison)]
    return "\n\n".join(filter(None, [*parts, _note(tables)])) + "\n"


def runs_page(comparison: Comparison) -> str:
    """Return the comparison as one HTML file."""
    from danish_asr.report.components import render_template  # noqa: PLC0415 - slow: matplotlib

    headings, tables = _tables(comparison)
    return render_template(
        "comparison_page.html",
        summary=wording.sentence(wording.comparison_summary(comparison)),
        runs=comparison.runs,
        verdicts=wording.runs_verdicts(comparison),
        headings=[name.capitalize() if name in HEADINGS[:2] else name for name in headings],
        tables={
            wording.sentence(wording.grouping_title(name)) if name else "All rows": rows
            for name, rows in tables.items()
        },
        note=_note(tables),
    )
