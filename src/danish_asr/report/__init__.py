"""What people look at: scores, comparisons, a dataset, a run, several runs.

In: predictions files, a run's directory, a built dataset. Out: tables in the terminal, JSON, CSV,
LaTeX and pages, each one HTML file. Read ``score.py`` first (score), then ``compare.py``; all pages
are built from ``components.py`` with ``components.html``.
"""

from collections.abc import Mapping
from typing import Final

SCORE_OUTPUTS: Final[Mapping[str, str]] = {
    "utterances.csv": "a line per scored utterance: all keys of the predictions, both texts "
    "normalised, WER and CER, the counts in words and characters, the alignment",
    ".json": "all counts, rates, intervals and settings",
    ".csv": "a line per group, rates as fractions, with all settings and the numbers of rows",
    ".tex": "a table for LaTeX (package booktabs): rates with their intervals",
    ".html": "the page: one file that needs no network",
    ".trn": "NAME.ref.trn and NAME.hyp.trn: the normalised texts, for NIST's sclite",
}
"""Ends of names, the longer ones first, and what such a file gets."""

COMPARE_OUTPUTS: Final = (".json", ".csv", ".tex", ".svg", ".pdf")
"""Ends of names: all numbers, a table of groups and runs, one for LaTeX, and a forest plot."""
