"""``danish-asr compare``: a table of runs and groups, for each kind of output."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from os.path import realpath
from pathlib import Path
from typing import Final

from rich.console import Console

from danish_asr.base.errors import ConfigError
from danish_asr.report import wording
from danish_asr.report.ranking_tables import (
    PAIRS,
    RANKING,
    RANKING_NOTE,
    latex_tables,
    pair_rows,
    print_ranking,
    ranking_rows,
)
from danish_asr.report.tables import light_table, markdown_table, plain, print_table, say, warn
from danish_asr.scoring.comparison import ComparedGroup, Comparison, RunScore
from danish_asr.scoring.intervals import ALPHA
from danish_asr.scoring.paired import MIN_SEGMENTS, PairedRate
from danish_asr.scoring.scores import p_value

HEADINGS: Final = {
    "group": "group",
    "run": "run",
    "wer": "WER %",
    "wer_difference": "diff.",
    "wer_interval": "95 % interval",
    "wer_p": "p (Holm)",
    "cer": "CER %",
    "cer_difference": "diff.",
    "cer_p": "p (Holm)",
    "mapsswe": "MAPSSWE p (Holm) these speakers",
    "rows": "rows",
    "speakers": "speakers",
}
_NARROW: Final = 7  # columns of a terminal that has no place for all
_WIDE_ENOUGH: Final = 144

# In two lines, so that the first columns fit into 80 columns of a terminal.
_PAIR_HEADINGS: Final = {
    "group": "\ngroup",
    "wer_a": "WER %\nA",
    "wer": "WER %\nB",
    "wer_difference": "\nB - A",
    "wer_interval": "95 %\ninterval",
    "wer_p": "p\n(Holm)",
    "rows": "\nrows",
    "speakers": "\nspeakers",
    "cer_a": "CER %\nA",
    "cer": "CER %\nB",
    "cer_difference": "\nB - A",
    "cer_p": "p\n(Holm)",
    "mapsswe": "MAPSSWE\np (Holm)",
}
_PAIR_NARROW: Final = 8
_PAIR_WIDE_ENOUGH: Final = 128


def parse_runs(arguments: Sequence[str]) -> dict[str, list[Path]]:
    """Parse ``FILE`` or ``NAME=FILE,FILE``; a run without a name gets a letter, A for the first."""
    runs: dict[str, list[Path]] = {}
    faults: list[str] = []
    if len(arguments) < 2:
        faults.append("expected two or more runs; the first is the baseline")
    for number, argument in enumerate(arguments):
        name, equals, files = argument.partition("=")
        name = name.strip()
        paths = [Path(file.strip()) for file in files.split(",") if file.strip()]
        if not equals or Path(argument).exists():
            name, paths = chr(ord("A") + number), [Path(argument)]
        if not (name and paths):
            faults.append(f"run '{name}': expected NAME=FILE[,FILE...]")
        if name in runs:
            faults.append(f"two runs have the name '{name}'")
        runs[name] = [*runs.get(name, []), *paths]
    uses = Counter(realpath(file) for files in runs.values() for file in files)
    faults += [f"{file} is given twice" for file, count in uses.items() if count > 1]
    if faults:
        raise ConfigError(faults, where="the list of runs")
    return runs


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the table, and for each run whether it differs from the baseline."""
    for name, rows in comparison.rows.items():
        for warning in rows.warnings(name):
            warn(warning, console)
    (first, base), *others = comparison.rows.items()
    for name, rows in others:
        if base.splits and rows.splits and base.splits != rows.splits:
            splits = f"{' and '.join(base.splits)}, {name} of split {' and '.join(rows.splits)}"
            warn(f"{first} is of split {splits}; compare runs over one split", console)
    say(_summary(comparison), console)
    if {run: len(files) for run, files in comparison.runs.items()} == {"A": 1, "B": 1}:
        narrow = console.is_terminal and console.width < _PAIR_WIDE_ENOUGH
        columns = list(_PAIR_HEADINGS)[: _PAIR_NARROW if narrow else None]
        tables = _tables(comparison, columns, baseline=False)
        headings = [_PAIR_HEADINGS[column] for column in columns]
        verdicts = _pair_verdicts(comparison)
    else:
        narrow = console.is_terminal and console.width < _WIDE_ENOUGH
        columns = _used(comparison)[: _NARROW if narrow else None]
        tables = _tables(comparison, columns)
        for lines in tables.values():
            for number, cells in enumerate(lines):
                if number % len(comparison.runs):
                    cells[0] = ""
        headings = [
            HEADINGS[column].replace(" (", "\n(").replace(") ", ")\n") for column in columns
        ]
        verdicts = _verdicts(comparison)
    print_table(light_table(headings), tables, ["", *verdicts], console)
    print_ranking(comparison, console)


def comparison_markdown(comparison: Comparison) -> str:
    """Return a section with one table per grouping."""
    parts = ["## Comparison", f"Scored with danish-asr: {_summary(comparison)}."]
    runs = [f"- {plain(name)}: {plain(', '.join(own))}" for name, own in comparison.runs.items()]
    parts.append("\n".join(runs))
    columns = _used(comparison)
    tables = _tables(comparison, columns)
    for name, rows in tables.items():
        if name:
            parts.append(f"### {plain(wording.sentence(wording.grouping_title(name)))}")
        parts.append(markdown_table([HEADINGS[column] for column in columns], rows))
    parts += [f"{plain(line)}." for line in _verdicts(comparison)]
    if comparison.pairs:
        parts += ["### Ranking", markdown_table(RANKING, ranking_rows(comparison))]
        parts += ["### All pairs", markdown_table(PAIRS, pair_rows(comparison))]
        parts.append(f"{wording.sentence(RANKING_NOTE)}.")
    return "\n\n".join(filter(None, [*parts, _note(tables)])) + "\n"


def comparison_latex(comparison: Comparison) -> str:
    """Return tables for LaTeX, which need the package booktabs."""
    columns = _used(comparison)
    rows: list[list[str]] = []
    for name, lines in _tables(comparison, columns).items():
        rows += [[wording.in_grouping(name, label), *cells] for label, *cells in lines]
    return latex_tables(comparison, [HEADINGS[column] for column in columns], rows)


def comparison_page(comparison: Comparison) -> str:
    """Return the comparison as one HTML file."""
    from danish_asr.report.components import render_template  # noqa: PLC0415 - slow: matplotlib

    columns = _used(comparison)
    tables = _tables(comparison, columns)
    titled: dict[str, list[list[str]]] = {}
    for name, rows in tables.items():
        titled[wording.sentence(wording.grouping_title(name)) if name else "All rows"] = rows
    pairs: dict[str, tuple[Sequence[str], list[list[str]]]] = {}
    if comparison.pairs:
        pairs["Ranking"] = RANKING, ranking_rows(comparison)
        pairs["All pairs"] = PAIRS, pair_rows(comparison)
    return render_template(
        "comparison_page.html",
        summary=wording.sentence(_summary(comparison)),
        runs=comparison.runs,
        rows=comparison.rows,
        verdicts=_verdicts(comparison),
        headings=[wording.sentence(HEADINGS[column]) for column in columns],
        tables=titled,
        pairs=pairs,
        ranking_note=wording.sentence(RANKING_NOTE),
        note=_note(tables),
    )


def _cells(group: ComparedGroup, run: RunScore) -> dict[str, str]:
    """Return the cells of `HEADINGS` and `_PAIR_HEADINGS`; the baseline has no differences."""
    cells = {"group": group.label, "run": run.run, "mapsswe": ""}
    for name in ("wer", "cer"):
        deviation, paired = run.deviations[name], run.paired.get(name)
        spread = "" if deviation is None else f" ±{100 * deviation:.2f}"
        cells[name] = wording.percent(run.rates[name]) + spread
        cells[f"{name}_a"] = wording.percent(group.runs[0].rates[name])
        cells |= {f"{name}_difference": "", f"{name}_interval": "", f"{name}_p": ""}
        if paired:
            cells[f"{name}_difference"] = wording.percent(paired.difference.value, "+")
            cells[f"{name}_interval"] = wording.bounds(paired.difference.interval, "+")
            cells[f"{name}_p"] = p_value(paired.p_adjusted)
    if run.mapsswe:
        segments = run.mapsswe.segments
        too_few = f"{segments} segment{'' if segments == 1 else 's'}"
        cells["mapsswe"] = p_value(run.mapsswe.p_adjusted) or too_few
    cells["rows"] = wording.count(group.rows)
    cells["speakers"] = wording.count(group.speakers)
    return cells


def _tables(
    comparison: Comparison, columns: Sequence[str], *, baseline: bool = True
) -> dict[str, list[list[str]]]:
    """Return the rows of each grouping; those of all rows have an empty name."""
    tables: dict[str, list[list[str]]] = {}
    for name, groups in {"": [comparison.overall], **comparison.groupings}.items():
        tables[name] = []
        for group in groups:
            for run in group.runs if baseline else group.runs[1:]:
                cells = _cells(group, run)
                tables[name].append([cells[column] for column in columns])
    return tables


def _used(comparison: Comparison) -> list[str]:
    """Return the columns of `HEADINGS` that are not empty."""
    used: set[str] = set()
    for group in [comparison.overall, *chain(*comparison.groupings.values())]:
        for run in group.runs:
            used |= {column for column, text in _cells(group, run).items() if text}
    return [column for column in HEADINGS if column in used]


def _note(tables: Mapping[str, Sequence[Sequence[str]]]) -> str:
    """Return what "not resolvable" means if a table says it."""
    if any(wording.NOT_RESOLVABLE in row for row in chain(*tables.values())):
        return wording.sentence(wording.INTERVAL_NOTE) + "."
    return ""


def _summary(comparison: Comparison) -> str:
    rows = next(iter(comparison.rows.values()))
    paired = f"{wording.count(rows.scored)} rows paired by id{rows.of_split()}"
    return f"{wording.settings_in_words(comparison.settings)}, {paired}"


def _pair_verdicts(comparison: Comparison) -> list[str]:
    """What the overall difference of B from A means, also for the utterances of these speakers."""
    b = comparison.overall.runs[1]
    wer = b.paired["wer"].difference
    if wer.interval is None:
        lines = [f"the difference is {wording.NOT_RESOLVABLE}: {wer.not_resolvable}"]
    elif wer.interval.low <= 0 <= wer.interval.high:
        needed = _needed(b.paired["wer"])
        lines = [f"no significant difference (the 95 % interval includes 0{needed})"]
    else:
        lines = [f"{'B' if wer.value < 0 else 'A'} is better (the 95 % interval excludes 0)"]
    for metric in comparison.settings.all_metrics:
        paired = b.paired[metric.name]
        difference = paired.difference
        lines.append(
            f"{metric.title}: A {wording.percent(paired.a)}, B {wording.percent(paired.b)}, "
            f"B - A {wording.percent(difference.value, '+')}; over speakers "
            f"{wording.bounds(difference.interval, '+')}{_with_p(paired.p)}; "
            f"for these speakers only {wording.bounds(difference.utterances, '+')}"
            f"{'' if metric.lower_is_better else '; higher is better'}"
        )
    lines[1] += _with_mapsswe(b)
    return [*lines, _these_speakers(comparison)]


def _verdicts(comparison: Comparison) -> list[str]:
    """What the overall difference of each run from the baseline means, and what "±" is."""
    baseline, *others = comparison.overall.runs
    lines: list[str] = []
    for run in others:
        paired = run.paired["wer"]
        difference = paired.difference
        if paired.p_adjusted is None:
            reason = difference.not_resolvable
            line = f"the difference from {baseline.run} is {wording.NOT_RESOLVABLE}: {reason}"
        elif paired.p_adjusted >= ALPHA:
            line = f"no significant difference from {baseline.run}{_needed(paired)}"
        else:
            better = "better" if difference.value < 0 else "worse"
            line = f"{better} than {baseline.run}{_with_p(paired.p_adjusted)}"
        own = wording.bounds(difference.utterances, "+")
        test = _with_mapsswe(run)
        lines.append(f"{run.run}: {line}; for these speakers only {own}{test}")
    lines.append(_these_speakers(comparison))
    if len(others) > 1 or comparison.groupings:
        lines.append("p-values are adjusted (Holm) over the runs and groups of each grouping")
    if max(map(len, comparison.runs.values())) > 1:
        lines.append(
            "±: standard deviation over the seeds of a run; intervals and p-values of two runs "
            "with several seeds each hold for other seeds too, all others for these models only"
        )
    return lines


def _needed(paired: PairedRate) -> str:
    if not paired.needs:
        return ""
    text = f"; {wording.needs_in_words(paired.needs)}"
    if wording.needed(paired) == wording.MORE_SEEDS:
        text += "; to show this one, train more seeds"
    return text


def _these_speakers(comparison: Comparison) -> str:
    tested = any(run.mapsswe for run in comparison.overall.runs)
    test = f" and MAPSSWE ({MIN_SEGMENTS} segments needed)" if tested else ""
    return (
        f'"for these speakers only"{test}: what to expect of other utterances of the same '
        "speakers, not of other people"
    )


def _with_mapsswe(run: RunScore) -> str:
    if run.mapsswe is None:  # of several seeds
        return ""
    p = p_value(run.mapsswe.p_adjusted) or wording.NOT_RESOLVABLE
    return f" (MAPSSWE: p {p}, {run.mapsswe.segments} segments)"


def _with_p(p: float | None) -> str:
    return "" if p is None else f" (p {p_value(p)})"
