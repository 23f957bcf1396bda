"""Runs in order of their WER, all pairs of them, and tables for LaTeX."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console

from danish_asr.report import wording
from danish_asr.report.tables import light_table, print_table, say
from danish_asr.scoring.comparison import Comparison
from danish_asr.scoring.scores import p_value

RANKING: Final = ("rank", "run", "WER %", "better than")
PAIRS: Final = ("pair", "diff.", "simultaneous 95 % interval", "p (Holm)", "speakers needed")
RANKING_NOTE: Final = (
    "rank: one more than the number of runs that are shown to be better; intervals of pairs hold "
    "together (Bonferroni); speakers needed: to show a difference of this size in 4 of 5 splits"
)


def print_ranking(comparison: Comparison, console: Console) -> None:
    """Print both tables, if all pairs were compared."""
    if not comparison.pairs:
        return
    for headings, rows in ((RANKING, ranking_rows(comparison)), (PAIRS, pair_rows(comparison))):
        say("", console)
        print_table(light_table(headings), {"": rows}, [], console)
    say(f"\n{RANKING_NOTE}", console)


def ranking_rows(comparison: Comparison) -> list[list[str]]:
    """Return the cells of `RANKING`."""
    return [
        [
            str(rank.rank),
            rank.run,
            wording.percent(rank.wer),
            ", ".join(rank.better_than) or "–",
        ]
        for rank in comparison.ranking()
    ]


def pair_rows(comparison: Comparison) -> list[list[str]]:
    """Return the cells of `PAIRS`."""
    rows: list[list[str]] = []
    for pair in comparison.pairs:
        difference = pair.wer.difference
        rows.append(
            [
                f"{pair.b} - {pair.a}",
                wording.percent(difference.value, "+"),
                wording.bounds(difference.interval, "+"),
                p_value(pair.wer.p_adjusted),
                "–" if pair.resolved else wording.needed(pair.wer) or "–",
            ]
        )
    return rows


def latex_tables(
    comparison: Comparison, headings: Sequence[str], rows: Iterable[Sequence[str]]
) -> str:
    """Return tables for LaTeX with the package booktabs: runs and groups, ranking and pairs."""
    tables = [_tabular(headings, rows)]
    if comparison.pairs:
        tables.append(_tabular(RANKING, ranking_rows(comparison)))
        tables.append(_tabular(PAIRS, pair_rows(comparison)))
    settings = ", ".join(f"{key} {value}" for key, value in comparison.settings.to_dict().items())
    return f"% danish-asr compare: {settings}\n" + "\n".join(tables)


def _tabular(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}", r"\toprule"]
    lines += [_latex_row(headings), r"\midrule"]
    lines += [_latex_row(row) for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(map(_latex, cells)) + r" \\"


_LATEX: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "–": "--",
        "±": r"$\pm$",
        "<": "$<$",
        ">": "$>$",
        "\n": " ",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)


def _latex(text: str) -> str:
    return text.translate(_LATEX)
