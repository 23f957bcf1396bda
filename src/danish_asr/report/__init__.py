"""What people look at: scores, comparisons, a dataset, a run, several runs.

In: predictions files, a run's directory, a built dataset. Out: tables in the terminal, JSON, CSV,
Markdown and pages, each one HTML file. Read ``components.py`` with ``components.html`` first, from
which all pages are built; then ``api.py`` (score, compare), ``run_page.py``, ``dataset_page.py``.
"""

from danish_asr.report.api import compare_files, score_file
from danish_asr.report.comparison_tables import parse_runs
from danish_asr.report.outputs import ReportOptions

__all__ = ["ReportOptions", "compare_files", "parse_runs", "score_file"]
